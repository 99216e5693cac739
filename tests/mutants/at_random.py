"""Try edits of the mechanisms' code that `drawing.py` drew at random: each must fail a test, or be explained.

    python -m tests.mutants.at_random FILE [--kept FILE]     `make mutation`

An edit is tried by the fast tests that import its module, those named like it first, until one fails. What survives is
listed with its line; docs/mutation.md holds the reasons. With `--kept` an edit that was tried is not tried again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutants.mutant import ROOT, files_about
from tests.mutants.run import AT_ONCE, copy_of_the_tree, forget_compiled, start_tests, waited

WORDS = {0: "SURVIVED", 1: "caught", 2: "caught", 4: "caught"}
"""By what pytest ends with: 2 and 4 where the edited module cannot even be imported, by some tests or by all."""


ENDLESS = 90
"""Seconds after which a test is taken to run for ever, and has failed."""


def started(edit: dict[str, Any], number: int, folder: Path) -> tuple[int, Path]:
    place = copy_of_the_tree(folder / str(number))
    target = place / "pipelines" / edit["module"]
    target.unlink()
    target.write_text(edit["text"])
    forget_compiled(target)
    return start_tests(place, [*files_about(edit["module"]), "-x", "-o", f"timeout={ENDLESS}"]), place


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

    def start(number: int) -> tuple[int, Any]:
        process, place = started(edits[number], number, folder)
        return process, (number, place, time.monotonic())

    try:
        left = [number for number in range(len(edits)) if number not in answers]
        for (number, place, began), code in waited(left, start, asked.at_once):
            edit, word = edits[number], WORDS.get(code, "not decided")
            answers[number] = {"number": number, "word": word, "code": code}
            place_of = f"{edit['module']}:{edit['line']}"
            changed = f"{edit['old'][:60]}  ->  {edit['new'][:60]}"
            print(f"{word:11} {time.monotonic() - began:4.0f} s  {place_of}  {changed}", flush=True)
            if asked.kept:
                with asked.kept.open("a") as file:
                    file.write(json.dumps(answers[number]) + "\n")
            shutil.rmtree(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    words = [each["word"] for each in answers.values()]
    print(f"{words.count('caught')} of {len(words)} edits caught, {words.count('SURVIVED')} survived, "
          f"{words.count('not decided')} not decided")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
