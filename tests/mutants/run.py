"""Plant each privacy bug of `planted.py` in a copy of the tree and require that its named test fails for it.

    python -m tests.mutants.run                  all of them, two at a time; `make mutants`
    python -m tests.mutants.run --only NAME ...  some

A bug is caught if its tests fail, and fail in a check: an import that breaks or a name that is gone would fail any
test and prove nothing. Before any bug is planted, all the named tests must pass in an untouched copy. The tree itself
is never edited: a copy is made of hard links, and the edited file is written anew in its place.

What costs: packages are imported once, here, and every run is a fork; copies are made of the untouched one after its
run, with everything that it compiled; a test ends at its first failure (`once.py`).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
import traceback
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

# Imported once and forked with: none of these starts a thread when it is imported.
import dp_accounting  # noqa: F401
import numba  # noqa: F401
import opendp.prelude  # noqa: F401
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pydantic  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import sqlalchemy  # noqa: F401

from tests.auditing.wide import with_part
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.planted import MUTANTS

Thing, Started = TypeVar("Thing"), TypeVar("Started")
AT_ONCE = 2
CPU_SECONDS = 300
"""Of one bug's tests: a bug that makes a test run for ever is not caught."""
PARTS = ("pipelines", "tasks", "flows", "understudy", "deployments", "tests", "docs", "benchmarks")
OF_THE_PACKAGE = ("pipelines", "tasks", "flows", "deployments")
NOT_COPIED = shutil.ignore_patterns("*.pyc.*")
OF_A_RUN = ("output*.txt", "report*.xml")
BREAKAGE = ("ImportError", "ModuleNotFoundError", "SyntaxError", "NameError", "AttributeError", "UnboundLocalError",
            "IndentationError", "TypingError", "KeyError: '", "TypeError", "fixture '")  # fmt: skip
CHECKS = ("AssertionError", "assert ", "Failed: ")


@dataclass(frozen=True)
class Running:
    mutant: Mutant
    place: Path
    process: int
    start: float


@dataclass(frozen=True)
class Verdict:
    name: str
    caught: bool
    why: str
    seconds: float


def copy_of_the_tree(place: Path, tree: Path = ROOT) -> Path:
    """Links to every file, so that what is compiled stays valid; directories are its own."""
    place.mkdir(parents=True)
    for part in PARTS:
        shutil.copytree(tree / part, place / part, symlinks=True, copy_function=_link, ignore=NOT_COPIED)
    for file in tree.iterdir():
        if file.is_file() and not any(map(file.match, OF_A_RUN)):
            _link(file, place / file.name)
    for part in OF_THE_PACKAGE:  # as one package, so that nothing is found in the tree itself
        link = place / "understudy" / part
        link.unlink(missing_ok=True)
        link.symlink_to(place / part)
    return place


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or a file system without links
        shutil.copy2(source, target)


def plant(edited: Mapping[str, str], place: Path) -> None:
    """Give files of a copy other texts."""
    for file, text in edited.items():
        target = place / file
        target.unlink()
        target.write_text(text)
        forget_compiled(target)
        if "@njit" in text:  # compiled loops elsewhere hold those of this file
            for other in (place / "pipelines").rglob("*.py"):
                if f"{target.stem} import" in (said := other.read_text()) and "@njit" in said:
                    forget_compiled(other)


def forget_compiled(source: Path) -> None:
    for stale in (source.parent / "__pycache__").glob(f"{source.stem}.*"):
        stale.unlink()


def start_tests(
    place: Path, tests: Sequence[str], few: bool = False, part: str = "", cpu_seconds: int = CPU_SECONDS
) -> int:
    """A process of its own that runs these tests in a copy, and what it says in output.txt; its id."""
    process = os.fork()
    if process:
        return process
    code = 70  # of whatever goes wrong before pytest has an answer
    try:
        with (place / f"output{part}.txt").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        if few:
            os.environ["UNDERSTUDY_FEW_EXAMPLES"] = "1"
        else:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        os.environ.update(PYTHONPATH=str(place), OMP_NUM_THREADS="1")
        os.chdir(place)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "understudy")]:
            del sys.modules[name]
        sys.path.insert(0, str(place))
        options = ["-q", "-p", "no:cacheprovider", "-p", "tests.mutants.once", "-o", "timeout=3000"]
        code = int(pytest.main([*options, f"--junitxml={place / f'report{part}.xml'}", *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def judged(mutant: Mutant, place: Path, code: int) -> tuple[bool, str]:
    """Whether every test failed in a check, and what the first of them said."""
    report = place / "report.xml"
    if code == 0:
        return False, "SURVIVED: the tests pass"
    if not report.exists():
        return False, f"pytest ended with {code} and no report"
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    broken = [_said(each) for case in cases for each in case.iter("error")]
    if broken:
        return False, f"broken, not caught: {broken[0]}"
    answers = [_answer(mutant, test, cases) for test in mutant.tests]
    return next((answer for answer in answers if not answer[0]), answers[0])


def _answer(mutant: Mutant, test: str, cases: Sequence[ElementTree.Element]) -> tuple[bool, str]:
    """Of one of its tests."""
    name = test.split("::")[1]
    its = [case for case in cases if name in (case.get("name"), (case.get("name") or "").partition("[")[0])]
    failures = [each for case in its for each in case.iter("failure")]
    if not failures:
        return False, f"SURVIVED: {name} passes" if its else f"{name} was not run"
    said, whole = _said(failures[0]), failures[0].text or ""
    if mutant.says and test == mutant.test:
        return (
            mutant.says in whole + said,
            said if mutant.says in whole + said else f"failed for another reason: {said}",
        )
    told = whole if said.startswith("ExceptionGroup") else said  # of Hypothesis: what each says is in the text
    if said.startswith(BREAKAGE) or not any(check in told for check in CHECKS):
        return False, f"failed for another reason: {said}"
    return True, said


def _said(element: ElementTree.Element) -> str:
    return " ".join((element.get("message") or "").split())


def start_one(mutant: Mutant, untouched: Path, folder: Path) -> Running:
    place = copy_of_the_tree(folder / mutant.name.replace(" ", "-"), untouched)
    plant(mutant.edited(place), place)
    return Running(mutant, place, start_tests(place, mutant.tests), time.monotonic())


def passing(untouched: Path, tests: Sequence[str], at_once: int) -> bool:
    """Whether all of them pass where nothing was planted; what the others say is printed."""
    files = sorted({test.partition("::")[0] for test in tests})
    parts = [[test for test in tests if files.index(test.partition("::")[0]) % at_once == k] for k in range(at_once)]
    processes = {k: start_tests(untouched, part, few=True, part=str(k)) for k, part in enumerate(parts) if part}
    failed = [k for k, process in processes.items() if ended(process)]
    for k in failed:
        print((untouched / f"output{k}.txt").read_text()[-4000:])
    return not failed


def finished(running: Running, code: int) -> Verdict:
    caught, why = judged(running.mutant, running.place, code)
    if caught:
        shutil.rmtree(running.place)
    return Verdict(running.mutant.name, caught, why, time.monotonic() - running.start)


def all_tried(chosen: Sequence[Mutant], untouched: Path, folder: Path, at_once: int) -> list[Verdict]:
    def start(mutant: Mutant) -> tuple[int, Running]:
        running = start_one(mutant, untouched, folder)
        return running.process, running

    return [_told(finished(running, code)) for running, code in waited(chosen, start, at_once)]


def waited(
    things: Sequence[Thing], start: Callable[[Thing], tuple[int, Started]], at_once: int
) -> Iterator[tuple[Started, int]]:
    """What was started, and the code that its process ended with, so many at a time, as they end."""
    left, running = list(things), dict[int, Started]()
    while left or running:
        while left and len(running) < at_once:
            running.update([start(left.pop(0))])
        process, status = os.wait()
        if process in running:
            yield running.pop(process), os.waitstatus_to_exitcode(status)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names, or parts of them")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="so many bugs at a time")
    parser.add_argument("--into", type=Path, help="the audit's page, for a section about it")
    parser.add_argument("--unplanted", action="store_true", help="only check that the named tests pass without a bug")
    asked = parser.parse_args(arguments)
    chosen = [each for each in MUTANTS if not asked.only or any(part in each.name for part in asked.only)]
    if not chosen:
        parser.error("no bug has such a name")
    folder, start = ROOT / "build" / f"mutants-{os.getpid()}", time.monotonic()
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        untouched = copy_of_the_tree(folder / "untouched")
        if not passing(untouched, sorted({test for each in chosen for test in each.tests}), asked.at_once):
            print("without any bug the named tests must pass: nothing was planted")
            return 1
        print(f"all named tests pass without any bug, in {time.monotonic() - start:.0f} s", flush=True)
        if asked.unplanted:
            return 0
        verdicts = all_tried(chosen, untouched, folder, asked.at_once)
    finally:
        if not asked.only:
            shutil.rmtree(folder, ignore_errors=True)
    missed = [each for each in verdicts if not each.caught]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = (f"{len(verdicts) - len(missed)} of {len(verdicts)} planted bugs caught, on {_commit()}, in "
            f"{time.monotonic() - start:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU")  # fmt: skip
    print(told)
    if asked.into is not None:
        asked.into.write_text(with_part(asked.into.read_text(), TITLE, _section(told, chosen, missed)))
    return 1 if missed else 0


TITLE = "## Would it have been seen: planted bugs"


def _section(told: str, chosen: Sequence[Mutant], missed: Sequence[Verdict]) -> list[str]:
    by_pairs = sum(bool(each.also) for each in chosen)
    return [
        "Privacy bugs, among them every break that was ever found in this project, are planted in copies of the code "
        "one at a time (`make mutants`), each as a small edit. A bug is caught if the test named for it fails in "
        f"a check. {by_pairs} of them must also be found by pairs of neighbours that know nothing of the bug.",
        "",
        f"{told}.",
        *(f"- **Missed:** {each.name}: {each.why[:100]}" for each in missed),
    ]


def _commit() -> str:
    """Of the tree, as far as git can tell."""
    asked = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
                           check=False)  # fmt: skip
    return asked.stdout.strip() or "no commit"


def _told(verdict: Verdict) -> Verdict:
    word = "caught" if verdict.caught else "MISSED"
    print(f"{word:7}{verdict.seconds:4.0f} s  {verdict.name:50.50}  {verdict.why:.100}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
