"""The sources of a tree, opened together: one for each table, closed together, and in one state where that can be had.

Files are pinned when they are opened, all of them before the first is read, so whatever is read is the state that they
were in together at that moment, or reading fails. Tables of one PostgreSQL database are read under one exported
snapshot. Other databases give every table in one statement, hence in one state each: between two of them somebody may
write, and a row whose parent was not read yet, or is not there any more, is nobody's. The bounds hold in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.columns import check_columns
from understudy.pipelines.sources.frames import arrow_table
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import ReleaseSpec


@dataclass(frozen=True, eq=False)
class TreeSource:
    """The private tables of a tree, by name. Nothing here changes them."""

    tables: Mapping[str, Source]

    def snapshot_id(self) -> str | None:
        """Names the state of all tables; None if nobody can tell it of any."""
        known = {name: source.snapshot_id() for name, source in self.tables.items()}
        return None if all(each is None for each in known.values()) else repr(sorted(known.items()))

    def close(self) -> None:
        with ExitStack() as stack:
            for source in self.tables.values():
                stack.callback(source.close)


def open_tree(spec: ReleaseSpec, base: Path) -> TreeSource:
    """The sources that a spec of several tables names, with the columns it declares. Reads no row.

    A flat table that keeps its entities is one source, seen as two tables.
    """
    assert spec.tree is not None
    if spec.tree.is_implied:
        flat = open_source(spec.source, base, spec)
        return checked_tree(TreeSource(dict.fromkeys(spec.tree.names, flat)), spec)
    opened = {name: open_source(alone.source, base, alone) for name, alone in spec.alone.items()}
    return checked_tree(TreeSource(opened), spec)


def tree_of_frames(tables: Any, spec: ReleaseSpec) -> TreeSource:
    """Tables that a Python program holds, by name; or the one of a flat table that keeps its entities."""
    assert spec.tree is not None
    if spec.tree.is_implied:
        held = ArrowSource(arrow_table(tables, spec))
        return checked_tree(TreeSource(dict.fromkeys(spec.tree.names, held)), spec)
    if not isinstance(tables, Mapping) or set(tables) != set(spec.tree.names):
        raise SpecError("the tables are not those of the spec", f"pass a mapping of {', '.join(spec.tree.names)}")
    keys = {name: spec.tree.keys_read(name) for name in spec.tree.names}
    opened = {name: ArrowSource(arrow_table(tables[name], spec.table(name), keys[name])) for name in spec.tree.names}
    return checked_tree(TreeSource(opened), spec)


def checked_tree(tree: TreeSource, spec: ReleaseSpec) -> TreeSource:
    """The same, if every table has the columns that are declared of it and the keys that lead to it."""
    assert spec.tree is not None
    with ExitStack() as unless_sound:
        unless_sound.callback(tree.close)
        for name, source in tree.tables.items():
            check_columns(source.schema(), spec.table(name), spec.tree.keys_read(name), name)
        for kind in dict.fromkeys(type(source) for source in tree.tables.values()):
            if (together := getattr(kind, "together", None)) is not None:
                together([source for source in dict.fromkeys(tree.tables.values()) if type(source) is kind])
        tree.snapshot_id()  # files are pinned from here on
        unless_sound.pop_all()
    return tree
