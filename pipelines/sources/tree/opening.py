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

from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.columns import check_columns
from understudy.pipelines.sources.identity import source_identity
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
    """The sources that a spec of several tables names, with the columns it declares. Reads no row."""
    assert spec.tree is not None
    opened: dict[str, Source] = {}
    for name in spec.tree.names:
        own = spec.table(name)
        opened[name] = open_source(own.source, base, own)
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
                together([source for source in tree.tables.values() if type(source) is kind])
        tree.snapshot_id()  # files are pinned from here on
        unless_sound.pop_all()
    return tree


def tree_identity(spec: ReleaseSpec, base: Path) -> str:
    """Which data a spec of several tables names, in public words; empty where nobody can tell it of some."""
    assert spec.tree is not None
    if spec.source.id is not None:
        return f"id {spec.source.id}"
    found = {name: source_identity(spec.table(name).source, base) for name in spec.tree.names}
    if not all(found.values()):
        return ""
    return "; ".join(f"{name}: {found[name]}" for name in sorted(found))
