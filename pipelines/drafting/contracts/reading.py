"""Which kind of contract a file or folder is, by its content, and what it says about one table.

Contracts are written by people and checked in; what they list is public. Their `examples` may be copied from rows and
are never looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from understudy.pipelines.drafting.contracts import dbt, frictionless, json_schema, odcs, sdv
from understudy.pipelines.drafting.facts import TableFacts
from understudy.pipelines.errors import SpecError

MOST_BYTES = 5_000_000
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Format:
    """`tables` are the contract's tables by name; their addresses are as the contract spells them."""

    title: str
    is_one: Callable[[dict[str, Any]], bool]
    tables: Callable[[dict[str, Any]], dict[str, TableFacts]]


FORMATS = (
    Format("ODCS data contract", odcs.is_one, odcs.tables),
    Format("dbt properties", dbt.is_one, dbt.tables),
    Format("SDV metadata", sdv.is_one, sdv.tables),
    Format("Frictionless schema", frictionless.is_one, frictionless.tables),
    Format("JSON Schema", json_schema.is_one, json_schema.tables),
)


def is_contract(path: Path) -> bool:
    """Whether init should read it as a contract: a YAML or JSON file, or the folder of a dbt project."""
    return (path.is_file() and path.suffix.lower() in _SUFFIXES) or (path / dbt.PROJECT).is_file()


def contract_facts(path: Path, table: str | None, or_the_only_one: bool = False) -> TableFacts:
    """What the contract says about the table, or about its only one where no name is given (or only a file's)."""
    files = dbt.property_files(path) if path.is_dir() else [path]
    found: dict[str, TableFacts] = {}
    titles: set[str] = set()
    for file in files:
        tree = _tree(file)
        format_ = next((one for one in FORMATS if tree is not None and one.is_one(tree)), None)
        if format_ is None or tree is None:
            continue
        titles.add(format_.title)
        found |= format_.tables(tree)
    if not titles:
        raise SpecError(
            f"{path} is none of the contracts that init reads",
            f"it reads {', '.join(one.title for one in FORMATS)}, and folders with a {dbt.PROJECT}",
        )
    name = _chosen(found, table, path, or_the_only_one)
    return replace(found[name], origin=f"the {titles.pop()} {path.name}", called=name)


def _chosen(tables: dict[str, TableFacts], table: str | None, path: Path, or_the_only_one: bool) -> str:
    by_name = {name.casefold(): name for name in tables}
    if table is not None:
        wanted = table.casefold()
        for spelled in (wanted, wanted.rpartition(".")[2]):
            if spelled in by_name:
                return by_name[spelled]
    # A schema of one table may have no name.
    if len(tables) == 1 and (table is None or or_the_only_one or "" in tables):
        return next(iter(tables))
    names = ", ".join(name for name in list(tables)[:20] if name) or "none with columns"
    problem = f"says nothing about a table {table!r}" if table else "describes several tables or none"
    raise SpecError(f"{path} {problem}; it has: {names}", "name one as --table")


def _tree(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(f"{path} is too large for a contract", "is this really one?")
        text = path.read_text(encoding="utf-8-sig")
        tree = json.loads(text) if path.suffix.lower() == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "it is no valid YAML or JSON"
    else:
        return tree if isinstance(tree, dict) else None
    raise SpecError(f"cannot read {path}: {reason}", "check the file")
