"""A draft of several tables: a root, and whatever points to it by foreign keys, and to those in turn.

Every table is drafted as it would be alone, but for its keys, which lead from one to the other and are not modelled. A
table that points to several is put below the one furthest from the root: its rows then belong to one. What is open
is bought by the first release; of the column that orders, bounds have to be known.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from understudy.pipelines.drafting.catalogue import table_facts
from understudy.pipelines.drafting.draft import Choices, DraftedColumn, draft_table
from understudy.pipelines.drafting.facts import TableFacts
from understudy.pipelines.drafting.listing import tables_at
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.tree import MOST_ROWS, MOST_TABLES

SEVERAL_BELOW = 12
"""Rows of one parent that are kept, if nobody says otherwise."""


@dataclass(frozen=True)
class DraftedTable:
    """One table: its place in the tree, and its columns without the keys."""

    name: str
    facts: TableFacts
    columns: tuple[DraftedColumn, ...]
    key: str | None = None
    parent: str | None = None
    by: str | None = None
    max_rows: int = 1
    order_by: str | None = None
    remark: str = ""

    def tree(self) -> dict[str, Any]:
        """What the spec says of it, as plain values."""
        above = {"table": self.parent, "by": self.by} if self.parent else None
        said = {
            "source": {"table": self.facts.table},
            "key": self.key,
            "parent": above,
            "max_rows": self.max_rows if self.parent else None,
            "order_by": self.order_by,
        }
        told = {key: value for key, value in said.items() if value is not None}
        return {**told, "columns": {column.name: column.body for column in self.columns}}


@dataclass(frozen=True)
class DraftedTree:
    name: str
    choices: Choices
    tables: tuple[DraftedTable, ...]
    snapshot: str
    left_out: tuple[str, ...] = ()
    """Tables that point to the tree and are not in it, each with the reason."""

    @property
    def facts(self) -> TableFacts:
        return self.tables[0].facts

    def tree(self) -> dict[str, Any]:
        """The spec that the draft says, as plain values."""
        return {
            "name": self.name,
            "source": {"uri": self.facts.uri, "snapshot": self.snapshot},
            "privacy": {
                "account": self.choices.account,
                "unit": self.tables[0].name,
                "epsilon": self.choices.epsilon,
                "delta": self.choices.delta,
            },
            "tables": {table.name: table.tree() for table in self.tables},
            "publish": {"to": "releases"},
        }


def tree_facts(uri: str, root: str, beside: Path) -> dict[str, TableFacts]:
    """What the catalogue declares of every table, the root's first."""
    listed = tables_at(uri)
    chosen = [name for name in listed if root.lower() in (name.lower(), _bare(name))]
    if not chosen:
        raise SpecError(f"the database has no table {root!r} (it has: {', '.join(listed[:20])})", "correct --root")
    return {name: table_facts(uri, name, beside) for name in (chosen[0], *(n for n in listed if n != chosen[0]))}


def draft_tree(
    facts: Mapping[str, TableFacts], name: str, choices: Choices, today: dt.date, max_rows: int | None = None
) -> DraftedTree:
    root, *others = facts
    below, left_out = _placed(root, {other: facts[other] for other in others}, facts[root])
    named = {table: _spec_name(table) for table in (root, *below)}
    parents = {parent for parent, _ in below.values()}
    rows = max_rows or _fitting(below, root)
    tables = []
    for table in (root, *below):
        parent, by = below.get(table, (None, None))
        key = _primary(facts[table]) if table in parents or table == root else None
        alone = draft_table(facts[table], named[table], replace(choices, entity=None, max_rows=1), today)
        columns = tuple(each for each in alone.columns if each.name not in (key, by))
        tables.append(
            DraftedTable(
                named[table],
                facts[table],
                columns,
                key,
                None if parent is None else named[parent],
                by,
                rows,
                None if parent is None else _order(columns),
                _other_keys(facts[table], by, {_bare(known) for known in (root, *below)}),
            )
        )
    bare = {table.name for table in tables if not any(column.modelled for column in table.columns)}
    gone = {name for name in bare if name not in {named[p] for p in parents} and name != named[root]}
    left_out = (*left_out, *(f"{name}: none of its columns is known" for name in sorted(gone)))
    kept = tuple(table for table in tables if table.name not in gone)
    if len(kept) < 2:
        raise SpecError(f"nothing points to {root} by a foreign key of one column", "draft it without --root")
    return DraftedTree(name, choices, kept[:MOST_TABLES], today.isoformat(), left_out)


def _placed(
    root: str, others: Mapping[str, TableFacts], facts: TableFacts
) -> tuple[dict[str, tuple[str, str]], tuple[str, ...]]:
    """Of every table below the root its parent and the column that leads there; and what could not be placed."""
    if _primary(facts) is None:
        raise SpecError(f"{root} has no primary key of one column", "name another --root, or write `tables` by hand")
    depth: dict[str, int] = {root: 0}
    below: dict[str, tuple[str, str]] = {}
    left_out: dict[str, str] = {}
    known: dict[str, TableFacts] = {root: facts, **others}
    for _ in range(len(others)):  # a table is placed under the deepest that it points to, which may be placed later
        for table, its in others.items():
            ways = [
                (depth[parent], parent, column.name)
                for column in its.columns
                for parent in depth
                if column.references and _bare(column.references) == _bare(parent) and parent != table
                and table not in _way_up(parent, below)
            ]  # fmt: skip
            keyed = [way for way in ways if _primary(known[way[1]]) is not None]
            if ways and not keyed:
                left_out[table] = f"{table}: {ways[0][1]} has no primary key of one column"
            if keyed:
                deepest, parent, by = max(keyed, key=lambda way: way[0])
                below[table], depth[table] = (parent, by), deepest + 1
    ordered = dict(sorted(below.items(), key=lambda each: depth[each[0]]))
    return ordered, tuple(text for table, text in left_out.items() if table not in below)


def _way_up(table: str, below: Mapping[str, tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    while table in below and table not in found:
        found.add(table)
        table = below[table][0]
    return found | {table}


def _primary(facts: TableFacts) -> str | None:
    return next((column.name for column in facts.columns if column.primary), None)


def _fitting(below: Mapping[str, tuple[str, str]], root: str) -> int:
    """As many as usual, fewer where tables lie so deep that a root might have too many."""
    deepest = max((len(_way_up(table, below) - {root}) for table in below), default=1)
    return max(1, min(SEVERAL_BELOW, int(MOST_ROWS ** (1 / max(1, deepest)))))


def _order(columns: tuple[DraftedColumn, ...]) -> str | None:
    """The first date of the table whose bounds are known: a guess."""
    known = (each for each in columns if each.standing != "open" and "parts" not in each.body)
    dates = (each.name for each in known if each.body["type"] in ("date", "datetime"))
    return next(dates, None)


def _other_keys(facts: TableFacts, by: str | None, known: set[str]) -> str:
    others = [column.name for column in facts.columns
              if column.name != by and column.references and _bare(column.references) in known]  # fmt: skip
    return f"also points by {', '.join(others)}; a table has one parent" if others else ""


def _bare(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _spec_name(table: str) -> str:
    word = re.sub(r"[^a-z0-9_]+", "_", _bare(table)).strip("_")[:60]
    return word if word[:1].isalpha() else f"t_{word}"[:60]
