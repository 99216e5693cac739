"""Synthetic tables that belong together, each beside its domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.pipelines.table.synthetic import Synthetic


@dataclass(frozen=True, eq=False)
class SyntheticTree:
    """Published rows by table, in the order of the tree: the root first, parents before children."""

    tables: Mapping[str, Synthetic]

    @property
    def rows(self) -> dict[str, int]:
        return {name: each.table.num_rows for name, each in self.tables.items()}
