"""Synthetic tables that belong together, each beside its domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from understudy.pipelines.table.synthetic import SeenFamilies, Synthetic


@dataclass(frozen=True, eq=False)
class SyntheticTree:
    """Published rows by table, in the order of the tree: the root first, parents before children."""

    tables: Mapping[str, Synthetic]
    seen: SeenFamilies | None = None

    @property
    def rows(self) -> int:
        """Of all tables together."""
        return sum(each.rows for each in self.tables.values())


Made: TypeAlias = Synthetic | SyntheticTree
"""What a release publishes: one table, or several at once."""


def tables_of(made: Made) -> Mapping[str, Synthetic]:
    """By name; a table that is alone has the empty one."""
    return made.tables if isinstance(made, SyntheticTree) else {"": made}


def seen_families(made: Made) -> SeenFamilies | None:
    """What was found of them when they were made, where that was in parts."""
    return made.seen if isinstance(made, SyntheticTree) else made.families
