"""No planted bug goes stale: each still finds its place in the code, and the test that must catch it is there."""

from __future__ import annotations

import ast
from functools import lru_cache

import pytest

from tests.mutants.mutant import ROOT, Edit, Mutant, Stale, files_about
from tests.mutants.planted import EIGHT_BREAKS, MUTANTS


@lru_cache(maxsize=256)
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_finds_its_place_and_its_test(mutant: Mutant) -> None:
    for file, text in mutant.edited().items():
        assert text != (ROOT / file).read_text()
        ast.parse(text)
    for test in mutant.tests:
        file, name = test.split("::")
        assert name.split("[")[0] in functions_of(file)
        assert not file.startswith("tests/docs/"), "that a page's hash changed is no catch"


def test_there_are_enough_and_no_two_are_the_same() -> None:
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({mutant.edits for mutant in MUTANTS}) == len(MUTANTS)


def test_the_eight_breaks_are_among_them_and_are_found_by_what_generates_its_cases_too() -> None:
    """A cap has no neighbours: one break of it is tried by the adaptive analyst against a real account, the other by
    the model of what an owner declares."""
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    assert len(EIGHT_BREAKS) == 8
    for names in EIGHT_BREAKS.values():
        assert all(by_name[name].also or "adaptive_analyst" in by_name[name].test for name in names)


def test_a_bug_whose_place_is_gone_fails_loudly() -> None:
    gone = Mutant("gone", "tests/x.py::test_x", (Edit("pipelines/errors.py", "no such text anywhere", ""),))
    with pytest.raises(Stale, match="has 0 times"):
        gone.edited()


def test_edits_at_random_have_tests_that_may_fail() -> None:
    """Each module that `drawing.py` names is there, and some file of tests is about it."""
    names = next(
        node.value for node in ast.parse((ROOT / "tests/mutants/drawing.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES"
    )  # fmt: skip
    modules = eval(compile(ast.Expression(names), "modules", "eval"))
    assert len(modules) > 40
    assert all((ROOT / "pipelines" / module).is_file() and files_about(module) for module in modules)
