"""Plant each privacy bug of `planted.py` in a copy of the tree and require that its named test fails for it.

    python -m tests.mutants.run                  all of them, two at a time; `make mutants`
    python -m tests.mutants.run --only NAME ...  some

A bug is caught if its test fails, and fails in a check: an import that breaks or a name that is gone would fail any
test and prove nothing. Before any bug is planted, all the named tests must pass in an untouched copy. The tree itself
is never edited: a copy is made of hard links, and the edited file is written anew in its place.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.planted import MUTANTS

AT_ONCE = 2
PARTS = ("pipelines", "tasks", "flows", "understudy", "deployments", "tests", "docs", "benchmarks")
OF_THE_PACKAGE = ("pipelines", "tasks", "flows", "deployments")
BREAKAGE = ("ImportError", "ModuleNotFoundError", "SyntaxError", "NameError", "AttributeError", "UnboundLocalError",
            "IndentationError", "TypingError", "KeyError: '", "TypeError", "fixture '")  # fmt: skip
CHECKS = ("AssertionError", "assert ", "Failed: ")


@dataclass(frozen=True)
class Verdict:
    name: str
    caught: bool
    why: str
    seconds: float


def copy_of_the_tree(place: Path) -> Path:
    """Links to every file, so that compiled caches stay valid; directories are its own."""
    place.mkdir(parents=True)
    for part in PARTS:
        shutil.copytree(ROOT / part, place / part, copy_function=_link, ignore=shutil.ignore_patterns("*.pyc.*"))
    for file in ROOT.iterdir():
        if file.is_file():
            _link(file, place / file.name)
    for part in OF_THE_PACKAGE:  # as one package, so that nothing is found in the tree itself
        (place / "understudy" / part).symlink_to(place / part)
    return place


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or a file system without links
        shutil.copy2(source, target)


def plant(mutant: Mutant, place: Path) -> None:
    for file, text in mutant.edited(place).items():
        target = place / file
        target.unlink()
        target.write_text(text)
        for stale in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
            stale.unlink()


def run_tests(place: Path, tests: Sequence[str]) -> tuple[int, Path]:
    report = place / "report.xml"
    environment = {
        **os.environ,
        "PYTHONPATH": str(place),
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--junitxml={report}", *tests],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    (place / "output.txt").write_text(done.stdout + done.stderr)
    return done.returncode, report


def judged(mutant: Mutant, code: int, report: Path) -> tuple[bool, str]:
    """Whether the test failed in a check, and what it said."""
    if code == 0:
        return False, "SURVIVED: the test passes"
    if not report.exists():
        return False, f"pytest ended with {code} and no report"
    found = ElementTree.parse(report).getroot()
    broken = [_said(each) for each in found.iter("error")]
    failed = [_said(each) for each in found.iter("failure")]
    if broken or not failed:
        return False, f"broken, not caught: {(broken or ['nothing failed'])[0]}"
    said = failed[0]
    if mutant.says:
        whole = "".join(each.text or "" for each in found.iter("failure")) + said
        return mutant.says in whole, said if mutant.says in whole else f"failed without saying {mutant.says!r}: {said}"
    several = said.startswith("ExceptionGroup")  # of Hypothesis: what each of them says is in the text
    told = (next(found.iter("failure")).text or "") if several else said
    if said.startswith(BREAKAGE) or not any(check in told for check in CHECKS):
        return False, f"failed for another reason: {said}"
    return True, said


def _said(element: ElementTree.Element) -> str:
    return " ".join((element.get("message") or "").split())


def try_one(mutant: Mutant, folder: Path) -> Verdict:
    start = time.monotonic()
    place = folder / mutant.name.replace(" ", "-")
    try:
        copy_of_the_tree(place)
        plant(mutant, place)
        for test in mutant.tests:
            caught, why = judged(mutant, *run_tests(place, [test]))
            if not caught:
                why = f"{why} [{test.split('::')[1]}]"
                break
    except subprocess.TimeoutExpired:
        caught, why = False, "the test did not end within ten minutes"
    if caught:
        shutil.rmtree(place)
    return Verdict(mutant.name, caught, why, time.monotonic() - start)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names, or parts of them")
    parser.add_argument("--unplanted", action="store_true", help="only check that the named tests pass without a bug")
    asked = parser.parse_args(arguments)
    chosen = [each for each in MUTANTS if not asked.only or any(part in each.name for part in asked.only)]
    if not chosen:
        parser.error("no bug has such a name")
    folder = ROOT / "build" / f"mutants-{os.getpid()}"
    try:
        code, _ = run_tests(
            copy_of_the_tree(folder / "untouched"), sorted({test for each in chosen for test in each.tests})
        )
        if code:
            print((folder / "untouched" / "output.txt").read_text()[-4000:])
            print("without any bug the named tests must pass: nothing was planted")
            return 1
        if asked.unplanted:
            return 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            verdicts = list(pool.map(lambda each: _told(try_one(each, folder)), chosen))
    finally:
        if not asked.only:
            shutil.rmtree(folder, ignore_errors=True)
    missed = [each for each in verdicts if not each.caught]
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} planted bugs caught")
    return 1 if missed else 0


def _told(verdict: Verdict) -> Verdict:
    word = "caught" if verdict.caught else "MISSED"
    print(f"{word:7}{verdict.seconds:4.0f} s  {verdict.name:50.50}  {verdict.why:.100}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
