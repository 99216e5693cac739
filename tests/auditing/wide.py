"""Whole releases of many pairs, and what came of them, as one more section of the audit's page: `make audit`.

python -m tests.auditing.wide --times 10 --into docs/audit.md
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
BEFORE = "## What is not covered"
TITLE = "## Attack 5: whole releases, from their source to what is published"
SAID = """Pairs of neighbours lie as files, tables of databases and objects of a store, and go through whole releases:
by Python, and by the command through the orchestrator. The second release is handed what the first one's
draws gave; then everything that can be seen is compared: exit codes, what is printed and logged, what the
orchestrator keeps, how often and what is drawn, names of files, manifests, published rows, rows of the
ledger. Also where ids collide, files change while they are read, a run stops at any point and is tried
again, a stage fails and quotes what it was given, what is planned is one bit cheaper than what would be
drawn, and a cluster loses a worker."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="so many times the pairs of `make test`")
    parser.add_argument("--into", type=Path, required=True, help="the page")
    asked = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as tally:
        environment = {
            **os.environ,
            "UNDERSTUDY_AUDIT_TIMES": str(asked.times),
            "UNDERSTUDY_AUDIT_TALLY": tally,
        }
        tests = [str(HERE / name) for name in ("test_sources.py", "test_whole.py", "test_commands.py")]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "slow or not slow", *tests]
        code = subprocess.run(command, env=environment, check=False).returncode
        found = sum((Counter(json.loads(each.read_text())) for each in Path(tally).glob("*.json")), Counter[str]())
    asked.into.write_text(with_section(asked.into.read_text(), found, code, time.monotonic() - start))
    return code


def with_section(page: str, found: Counter[str], code: int, seconds: float) -> str:
    verdict = (
        f"{found.total():,} pairs in {seconds:,.0f} s: no difference."
        if code == 0
        else "**A difference was found, or a test could not end: see the output of the run.**"
    )
    lines = [f"| {what} | {pairs:,} |" for what, pairs in sorted(found.items())]
    kept = [line for line in page.splitlines(keepends=True) if not line.startswith("- **Whole releases**")]
    said = [SAID.replace("\n", " "), "", verdict, "", "| pairs | |", "|---|---:|", *lines]
    return with_part("".join(kept), TITLE, said)


def with_part(page: str, title: str, lines: Sequence[str]) -> str:
    """The page with a section of this title before what is not covered, and none that had it."""
    old = page.find(title)
    if old >= 0:
        page = page[:old] + page[page.index("\n## ", old) + 1 :]
    return page.replace(BEFORE, "\n".join([title, *lines, "", ""]) + BEFORE)


if __name__ == "__main__":
    sys.exit(main())
