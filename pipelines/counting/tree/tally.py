"""Exact sums of ticks over the views of a bounded tree.

Theorem. Let a root have m rows in a view. Each of them counts floor(W / m) ticks, so the root has at most W ticks in
  every table of every view, whatever lies below it: to every mechanism for tables of counts it is a unit of at most W
  rows (docs/proofs/weights.md, steps 2 and 3). The sums are whole numbers that depend on the multiset of the bounded
  rows alone, and a root's ticks on the rows attributed to it alone (sources/tree/bounding.py).
Relation, sensitivity, noise unit. Both; at most W ticks a root and table; ticks, and nothing is drawn here.
Proof. docs/proofs/trees.md.
Reference. docs/proofs/weights.md.

Memory: two slices of rows at a time beside what a `TickTally` takes for each thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from understudy.pipelines.counting.counting import tally_items
from understudy.pipelines.counting.tree.views import View, ViewColumn, gap_codes
from understudy.pipelines.counting.weighted_tally import TickTally
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.sources.tree.bounding import BoundedTable, BoundedTree
from understudy.pipelines.spec.tree import TreeTable

SLICE_ROWS = 1 << 17


@dataclass(frozen=True, eq=False)
class SeenTree:
    """A bounded tree seen as one of its views; `ticks` to a root.

    Beyond the view's own columns there is one for each table below: the number of its rows itself, not its level.
    """

    bounded: BoundedTree
    view: View
    ticks: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return (*self.view.sizes, *(child.max_rows + 1 for child in self.children))

    @property
    def children(self) -> tuple[TreeTable, ...]:
        return self.bounded.tree.children(self.view.table) if self.view.kind == "rows" else ()

    def counts(self, cliques: Sequence[Clique], threads: int) -> list[np.ndarray]:
        """Ticks of each clique, its axes in the clique's own order."""
        rows = self._rows
        slices = [slice(start, start + SLICE_ROWS) for start in range(0, rows, SLICE_ROWS)]
        used = sorted({column for clique in cliques for column in clique})
        made = partial(TickTally, self.sizes, cliques)
        return tally_items(slices, partial(self._add, used=used), made, min(threads, max(1, len(slices))))

    def _add(self, tally: TickTally, rows: slice, used: Sequence[int]) -> None:
        here = self._places[rows] if self._places is not None else np.arange(rows.start, min(rows.stop, self._rows))
        codes = np.zeros((len(self.sizes), len(here)), np.int64)
        for column in used:
            codes[column] = self._codes(column, here)
        each = self._each_root[self._own.root[here]]
        tally.add(codes, self.ticks // each)

    @property
    def _own(self) -> BoundedTable:
        return self.bounded.tables[self.view.table]

    @cached_property
    def _places(self) -> np.ndarray | None:
        """The rows that the view has: all, or those of an order view that follow on another one."""
        if self.view.kind == "rows":
            return None
        return np.flatnonzero(self._follows).astype(np.int32 if len(self._own) < 2**31 else np.int64)

    @property
    def _rows(self) -> int:
        return len(self._own) if self._places is None else len(self._places)

    @cached_property
    def _follows(self) -> np.ndarray:
        """Whether a row comes after another one of its parent's."""
        parent, follows = self._own.parent, np.zeros(len(self._own), np.bool_)
        assert parent is not None
        follows[1:] = parent[1:] == parent[:-1]
        return follows

    @cached_property
    def _each_root(self) -> np.ndarray:
        """How many rows of the view each root has."""
        roots = len(self.bounded.tables[self.bounded.tree.root.name])
        root = self._own.root if self._places is None else self._own.root[self._places]
        found = np.bincount(root, minlength=roots)
        if len(found) and found.max() > self.ticks:
            raise ValueError("a root has more rows than ticks")  # then its rows would count nothing
        return found

    def _codes(self, column: int, here: np.ndarray) -> Any:
        if column >= len(self.view.columns):
            return self._numbers[self.children[column - len(self.view.columns)].name][here]
        seen = self.view.columns[column]
        match seen.role:
            case "own":
                return self._own.codes[here, seen.column]
            case "before":
                return self._own.codes[here - 1, seen.column]
            case "above":
                return self._above(seen, here)
            case "number":
                return _level(self._numbers[seen.table][here], seen.most)
            case "siblings":
                assert self._own.parent is not None
                return _level(self._siblings[self._own.parent[here]], seen.most)
            case "place":
                return self._follows[here].astype(np.int64)
            case "gap":
                assert self._own.order is not None
                return gap_codes(self._own.order[here] - self._own.order[here - 1], seen.edges)

    def _above(self, seen: ViewColumn, here: np.ndarray) -> Any:
        table = self.bounded.tree.table(self.view.table)
        while table.name != seen.table:
            parent = self.bounded.tables[table.name].parent
            assert parent is not None
            here, table = parent[here], self.bounded.tree.table(str(table.parent))
        return self.bounded.tables[seen.table].codes[here, seen.column]

    @cached_property
    def _numbers(self) -> dict[str, np.ndarray]:
        return {child.name: self.bounded.numbers(child).astype(np.int32) for child in self.children}

    @cached_property
    def _siblings(self) -> np.ndarray:
        """How many rows of the view's table lie under each row of its parent."""
        return self.bounded.numbers(self.bounded.tree.table(self.view.table)).astype(np.int32)


def _level(numbers: np.ndarray, most: tuple[int, ...]) -> np.ndarray:
    """The code of each number; beyond the last there is none, and before the first the first."""
    return np.minimum(np.searchsorted(np.array(most), numbers), len(most) - 1)
