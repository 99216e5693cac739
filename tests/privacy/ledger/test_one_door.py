"""Lint: noise is drawn from the operating system in exactly one place, behind the ledger, and by mechanisms alone."""

from __future__ import annotations

import ast
from pathlib import Path

import understudy.pipelines.privacy.ledger.spend as spend

ROOT = Path(spend.__file__).resolve().parents[3]
DOOR = ROOT / "pipelines" / "privacy" / "ledger" / "spend.py"
SOURCE = ROOT / "pipelines" / "privacy" / "noise" / "rounded.py"
PIPELINES = ROOT / "pipelines"
NOISES = {
    PIPELINES / "counting" / "mechanism.py",
    PIPELINES / "counting" / "residuals.py",
    PIPELINES / "counting" / "adaptive.py",
    PIPELINES / "discovery" / "mechanism.py",
    PIPELINES / "methods" / "gaussian" / "mechanism.py",
    PIPELINES / "methods" / "gaussian" / "sampling_noise.py",
    PIPELINES / "methods" / "gaussian" / "rounded_normals.py",
    PIPELINES / "methods" / "kernel" / "mechanism.py",
    PIPELINES / "methods" / "mixing" / "mechanism.py",
    PIPELINES / "methods" / "mixing" / "statistics.py",
}
"""Where noises are defined: an event and a draw side by side."""
SAMPLERS = {
    "rounded_gaussian",
    "discrete_gaussian",
    "table_gaussian",
    "gaussian_table",
    "poisson_draw",
    "fixed_draw",
    "choose",
    "rounded_normals",
    "noisy_blocks",
    "release_mixtures",
}
DRAWERS = {
    DOOR,
    PIPELINES / "privacy" / "mechanism.py",  # a mechanism asks its noise
    PIPELINES / "counting" / "residuals.py",  # residuals ask the noise of the tables beside them
    PIPELINES / "counting" / "triples.py",  # chosen triples ask the noise of each of their three releases
    PIPELINES / "counting" / "adaptive.py",  # a round asks the noise of the marginal that it chose
    PIPELINES / "methods" / "gaussian" / "pairs.py",
    PIPELINES / "methods" / "mixing" / "trial.py",  # public rows, numpy's words
    PIPELINES / "methods" / "gaussian" / "method.py",  # rows of a fit to what was bought, in parts
    PIPELINES / "releasing" / "making.py",  # the same
    PIPELINES / "releasing" / "family_making.py",  # the same, in whole families
    PIPELINES / "auditing" / "replay.py",  # made rows, words that are the same twice
    PIPELINES / "auditing" / "moves.py",  # the same
    PIPELINES / "auditing" / "attacks.py",  # the same
}
ENTROPY = {"urandom", "getrandom", "SystemRandom", "token_bytes", "token_hex", "randbits", "_OperatingSystem"}


def modules() -> list[Path]:
    return [path for folder in ("pipelines", "tasks", "flows", "understudy") for path in (ROOT / folder).rglob("*.py")]


def names_used(tree: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return names | {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}


def offenders(forbidden: set[str], allowed: set[Path], texts: dict[Path, str]) -> list[str]:
    return [
        f"{path.name}: {name}"
        for path, text in texts.items()
        if path not in allowed
        for name in sorted(names_used(ast.parse(text)) & forbidden)
    ]


def test_only_the_spend_protocol_opens_the_operating_systems_randomness():
    texts = {path: path.read_text() for path in modules()}
    assert DOOR in texts
    assert SOURCE in texts
    assert offenders({"operating_system_randomness"}, {DOOR, SOURCE}, texts) == []
    assert offenders(ENTROPY, {SOURCE}, texts) == []


def test_samplers_are_used_by_noises_alone():
    texts = {path: path.read_text() for path in modules()}
    samplers = set((PIPELINES / "privacy" / "noise").rglob("*.py"))
    products = PIPELINES / "methods" / "gaussian" / "pairs.py"
    assert offenders(SAMPLERS, NOISES | samplers | {products}, texts) == []
    for path in (*NOISES, products):
        tree = ast.parse(texts[path])
        noises = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and draws_words(node)]
        assert noises or path.name == "rounded_normals.py", path
        assert all("event" in methods_of(noise) for noise in noises), path


def test_nobody_but_the_door_draws():
    texts = {path: path.read_text() for path in modules()}
    found = {path for path, text in texts.items() for node in ast.walk(ast.parse(text)) if is_draw(node)}
    assert found <= DRAWERS, sorted(found - DRAWERS)
    assert DOOR in found


def test_the_audit_opens_no_source_and_nothing_that_releases_knows_it():
    """Its words can be foretold, so no private row may come near them."""
    auditing = {path: path.read_text() for path in modules() if "auditing" in path.parent.name}
    assert auditing
    sources = {"open_source", "named_source", "named_table", "Purchases", "MeasurementStore", "Ledger"}
    assert offenders(sources, set(), auditing) == []
    others = {path: path.read_text() for path in modules() if path not in auditing}
    found = [path.name for path, text in others.items() if "pipelines.auditing" in text]
    assert set(found) <= {"auditing.py"}  # the command


def test_nothing_is_decided_from_what_a_plan_prints():
    """`details` are for people: no pipeline reads a value out of them."""
    for path in (path for path in modules() if PIPELINES in path.parents):
        for node in ast.walk(ast.parse(path.read_text())):
            taken = isinstance(node, ast.Subscript) and is_details(node.value)
            asked = isinstance(node, ast.Attribute) and node.attr == "get" and is_details(node.value)
            assert not taken, f"{path}: line {node.lineno}"
            assert not asked, f"{path}: line {node.lineno}"


def test_privacy_and_counting_import_nothing_of_the_methods():
    for room in ("privacy", "counting"):
        for path in (PIPELINES / room).rglob("*.py"):
            assert "pipelines.methods" not in path.read_text(), path


def methods_of(node: ast.ClassDef) -> set[str]:
    return {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}


def draws_words(node: ast.ClassDef) -> bool:
    """Whether it draws from words it is given; what draws rows from a fit to bought numbers is handed no words."""
    draws = [inner for inner in node.body if isinstance(inner, ast.FunctionDef) and inner.name == "draw"]
    return any(argument.arg == "randomness" for draw in draws for argument in draw.args.args)


def is_draw(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "draw"


def is_details(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "details"


def test_the_lint_finds_each_way_around():
    for text in (
        "from understudy.pipelines.privacy.noise.rounded import operating_system_randomness",
        "import understudy.pipelines.privacy.noise.rounded as n\nn.operating_system_randomness()",
    ):
        assert offenders({"operating_system_randomness"}, {DOOR}, {Path("bad.py"): text})
    for text in ("randomness = 0\nmechanism.draw(randomness)", "buy = noise.draw"):
        assert any(is_draw(node) for node in ast.walk(ast.parse(text)))
    for text in ("import os\nos.urandom(8)", "from secrets import token_bytes", "noise._OperatingSystem()"):
        assert offenders(ENTROPY, {SOURCE}, {Path("bad.py"): text})
