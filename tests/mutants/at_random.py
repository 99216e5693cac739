"""Try edits of the mechanisms' code that `drawing.py` drew at random: each must fail a test, or be explained.

    python -m tests.mutants.at_random FILE [--kept FILE]     `make mutation`

An edit is tried by the fast tests that import its module, those named like it first, until one fails; that test must
then pass without the edit. What survives is listed with its line; docs/mutation.md holds the reasons. With `--kept` an
edit that was tried is not tried again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutants.mutant import ENDLESS, ROOT, files_about
from tests.mutants.run import AT_ONCE, copy_of_the_tree, ended, plant, start_tests, waited

ENDLESS_AFTER = 120
"""Seconds of CPU of one test."""
CPU_SECONDS = 1800
"""Of one edit: many files of tests import what everything rests on."""
PASSED, FAILED, INTERRUPTED, UNUSABLE = 0, 1, 2, 4
"""What pytest ends with; the last two where an edited module cannot even be imported."""
NOT_COLLECTED = "a file of tests"


def started(edit: dict[str, Any], place: Path, untouched: Path) -> int:
    copy_of_the_tree(place, untouched)
    plant({f"pipelines/{edit['module']}": edit["text"]}, place)
    return start_tests(place, [*files_about(edit["module"]), "-x"], cpu_seconds=CPU_SECONDS)


def judged(code: int, place: Path, untouched: Path) -> tuple[str, str]:
    """What came of an edit, and by which test. A test that fails without the edit as well catches nothing."""
    if code == PASSED:
        return "SURVIVED", ""
    if code == -signal.SIGVTALRM:
        return "caught", "a test does not end"
    test = failed_in(place / "report.xml") if code == FAILED else ""
    if code in (INTERRUPTED, UNUSABLE) or test == NOT_COLLECTED:  # all files were, before anything was edited
        return "caught", "cannot be imported"
    if test and ended(start_tests(untouched, [test])) == PASSED:
        return "caught", test
    return "not decided", test or f"ended with {code}"


def failed_in(report: Path) -> str:
    """The first test that failed, as pytest names it."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if any(each.tag in ("failure", "error") for each in case):
            module = case.get("classname")
            return f"{module.replace('.', '/')}.py::{case.get('name')}" if module else NOT_COLLECTED
    return ""


def collected(untouched: Path, edits: Sequence[dict[str, Any]]) -> bool:
    """Whether all files of tests can be imported where nothing was edited."""
    files = sorted({file for edit in edits for file in files_about(edit["module"])})
    return ended(start_tests(untouched, ["--collect-only", *files])) == PASSED


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("edits", type=Path)
    parser.add_argument("--kept", type=Path, help="a file of what was tried")
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    asked = parser.parse_args(arguments)
    edits = json.loads(asked.edits.read_text())
    lines = asked.kept.read_text().splitlines() if asked.kept and asked.kept.exists() else []
    answers: dict[int, dict[str, Any]] = {each["number"]: each for each in map(json.loads, lines)}
    folder = ROOT / "build" / f"mutation-{os.getpid()}"
    os.environ[ENDLESS] = str(ENDLESS_AFTER)
    untouched = copy_of_the_tree(folder / "untouched")

    def start(number: int) -> tuple[int, Any]:
        place = folder / str(number)
        return started(edits[number], place, untouched), (number, place)

    try:
        if not collected(untouched, edits):
            print((untouched / "output.txt").read_text()[-4000:])
            return 1
        left = [number for number in range(len(edits)) if number not in answers]
        for (number, place), code in waited(left, start, asked.at_once):
            edit, (word, by) = edits[number], judged(code, place, untouched)
            answers[number] = {"number": number, "word": word, "by": by}
            changed = f"{edit['old'][:60]}  ->  {edit['new'][:60]}"
            print(f"{word:11} {edit['module']}:{edit['line']}  {changed}  {by}", flush=True)
            if asked.kept:
                with asked.kept.open("a") as file:
                    file.write(json.dumps(answers[number]) + "\n")
            shutil.rmtree(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [each["word"] for each in answers.values()]
    print(f"{words.count('caught')} of {len(words)} edits caught, {words.count('SURVIVED')} survived, "
          f"{words.count('not decided')} not decided, {used.ru_utime + used.ru_stime:.0f} s of CPU")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
