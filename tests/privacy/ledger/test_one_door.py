"""Lint: noise is drawn from the operating system in exactly one place, behind the ledger."""

from __future__ import annotations

import ast
from pathlib import Path

import understudy.pipelines.privacy.ledger.spend as spend

ROOT = Path(spend.__file__).resolve().parents[3]
DOOR = ROOT / "pipelines" / "privacy" / "ledger" / "spend.py"
SOURCE = ROOT / "pipelines" / "privacy" / "noise" / "rounded.py"
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


def test_the_lint_finds_each_way_around():
    for text in (
        "from understudy.pipelines.privacy.noise.rounded import operating_system_randomness",
        "import understudy.pipelines.privacy.noise.rounded as n\nn.operating_system_randomness()",
    ):
        assert offenders({"operating_system_randomness"}, {DOOR}, {Path("bad.py"): text})
    for text in ("import os\nos.urandom(8)", "from secrets import token_bytes", "noise._OperatingSystem()"):
        assert offenders(ENTROPY, {SOURCE}, {Path("bad.py"): text})
