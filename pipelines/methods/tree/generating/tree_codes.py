"""What generation gives: the codes of every table, and whose row each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from understudy.pipelines.spec.tree import Tree

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TreeCodes:
    """Tables with the root first and parents before their children.

    `codes` are [rows, columns of the table's domain]. `parent` has, of every child table, the number of each row's
    parent; rows of one parent lie together and in order. `values` are those of the column that orders, where one does
    and is modelled, in the column's units and within the bins of its codes; nan where there is none.
    """

    codes: Mapping[str, Int32Array]
    parent: Mapping[str, Int64Array] = field(default_factory=dict)
    values: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return next(iter(self.codes))

    def rows(self, table: str) -> int:
        return len(self.codes[table])

    def ancestors(self, table: str, above: str, tree: Tree) -> Int64Array:
        """Of every row of a table, the number of the row above it in one of the tables above, or its own."""
        found = np.arange(self.rows(table))
        for name in (table, *(each.name for each in tree.above(table))):
            if name == above:
                break
            found = self.parent[name][found]
        return found
