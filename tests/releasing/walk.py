"""How often a release passes the places that should be passed once, and how many functions and modules it passes.

`python -m tests.releasing.walk` prints it, of a second release in one process: the first also passes what is run once
an import, and the bodies of modules and classes.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.releasing.golden import released
from understudy.pipelines.counting.mechanism import noise_multiplier
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.domain import TableDomain

WATCHED: dict[CodeType, str] = {
    TableDomain.of.__func__.__code__: "domain made",  # type: ignore[attr-defined]
    Ledger.__init__.__code__: "ledger opened",
    encode.__code__: "synthetic table encoded",
    method_named.__code__: "method made",
    noise_multiplier.__code__: "noise calibrated",
}


@contextmanager
def watched() -> Iterator[tuple[Counter[str], set[str], set[CodeType]]]:
    """Counts of what is watched, and the modules and functions (those with a name) of understudy that were passed."""
    counts: Counter[str] = Counter()
    modules: set[str] = set()
    functions: set[CodeType] = set()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in functions:
            name = str(frame.f_globals.get("__name__", ""))
            if not name.startswith("understudy.") or code.co_name.startswith("<") or not code.co_flags & CO_OPTIMIZED:
                return
            modules.add(name)
            functions.add(code)
        if code in WATCHED:
            counts[WATCHED[code]] += 1

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield counts, modules, functions
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def main() -> None:
    import os

    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        for door in ("python", "flow"):
            for method in ("privpgd", "gaussian"):
                for _ in range(2):
                    with tempfile.TemporaryDirectory() as name:
                        os.environ["UNDERSTUDY_HOME"] = str(Path(name) / "home")
                        with watched() as (counts, modules, functions):
                            released(door, method, Path(name))
                told = f"{len(functions)} functions, {len(modules)} modules, {dict(sorted(counts.items()))}"
                sys.stdout.write(f"{door} {method}: {told}\n")


if __name__ == "__main__":
    main()
