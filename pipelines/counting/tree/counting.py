"""The private tables of a tree, bounded and counted in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from understudy.pipelines.counting.counting import usable_cores
from understudy.pipelines.counting.tree.tally import SeenTree
from understudy.pipelines.counting.tree.views import View
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.sources.pinning import changed
from understudy.pipelines.sources.tree.bounding import BoundedTree, bound_tree
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.sources.tree.rows import Beside
from understudy.pipelines.spec.tree import Tree
from understudy.pipelines.table.domain import TableDomain

Timed = Callable[[str, float], None]
"""Hears what was done and how many seconds it took."""


@dataclass(frozen=True, eq=False)
class LocalTree:
    """A private tree counted in this process. Values leave it only through `purchase`."""

    source: TreeSource
    tree: Tree
    domains: Mapping[str, TableDomain]
    key: bytes
    ids_are_text: bool = False
    threads: int | None = None
    timed: Timed = lambda what, seconds: None
    beside: Mapping[str, Beside] = field(default_factory=dict)

    def counts(self, view: View, cliques: Sequence[Clique], ticks: int) -> list[np.ndarray]:
        """Exact ticks of some cliques of a view's columns (beyond them: `SeenTree`), at so many to a root."""
        bounded, started = self.bounded, time.perf_counter()
        found = SeenTree(bounded, view, ticks).counts(cliques, self._threads)
        self.timed(f"counted {view.table}{' in order' if view.kind == 'order' else ''}", time.perf_counter() - started)
        return found

    @cached_property
    def bounded(self) -> BoundedTree:
        """All tables, read once: in the state that they were in together when this began, as far as sources tell."""
        first, started = self.source.snapshot_id(), time.perf_counter()

        def told(what: str) -> None:
            nonlocal started
            now = time.perf_counter()
            self.timed(what, now - started)
            started = now

        tables = self.source.tables
        found = bound_tree(
            self.tree, tables, self.domains, self.key, self.ids_are_text, self._threads, told, self.beside
        )
        if self.source.snapshot_id() != first:
            raise changed("the tables")
        return found

    @property
    def _threads(self) -> int:
        return self.threads or usable_cores()
