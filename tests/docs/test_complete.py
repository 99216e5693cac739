"""What the code offers, the documents name: commands, exit codes, artifacts, events."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from understudy.cli.main import main
from understudy.pipelines import errors

ROOT = Path(__file__).resolve().parents[2]
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
WRITTEN = "\n".join(
    page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if page.parent.name != "reference"
)


def commands(group: click.Group, before: str = "understudy") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}"


def calls(name: str) -> Iterator[ast.Call]:
    """Of the function of that name, in tasks and flows."""
    for path in [*(ROOT / "tasks").rglob("*.py"), *(ROOT / "flows").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name:
                yield node


def said(call: ast.Call) -> list[str]:
    return [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]


@pytest.mark.parametrize("command", sorted(commands(main)))
def test_every_command_is_explained_beyond_its_help(command: str) -> None:
    options = r"(?: -{1,2}[\w-]+(?: [\w./-]+)?)*"
    assert re.search(command.replace(" ", rf"{options} "), WRITTEN), f"no page outside docs/reference says {command}"


def test_every_exit_code_is_documented() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.UnderstudyError)
    ]
    codes = {0, *(kind.exit_code for kind in kinds)}
    section = OPERATING.split("## Exit codes")[1].split("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)} == codes
    assert all(f"{code} " in (main.help or "") + (main.epilog or "") for code in codes)


def test_every_artifact_is_documented() -> None:
    keys = {word for call in calls("artifact_key") for word in said(call)}
    assert len(keys) > 8
    assert [key for key in keys if f"-{key}`" not in OPERATING and f"`{key}-<name>`" not in OPERATING] == []


def test_every_event_is_documented() -> None:
    told = {words[0] for call in calls("announce") if (words := said(call))}
    told |= {f"charge.{kind}" for call in calls("announce_charge") if (words := said(call)) for kind in words}
    told |= {f"charge.{kind}" for kind in ("charged", "measured", "reused", "burnt")}
    assert len(told) > 9
    documented, group = set(), ""
    for whole, kind in re.findall(r"`(?:understudy\.([\w.]+)|\.(\w+))`", OPERATING):
        group = whole.partition(".")[0] or group  # `.measured` is of the group that was named before it
        documented.add(whole or f"{group}.{kind}")
    assert sorted(told - documented) == []
