"""Published tables beside the private ones they are copies of: both attributed, bounded and counted by one code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from understudy.pipelines.comparing.distances import MOST_CELLS, another_sample, total_variation
from understudy.pipelines.comparing.learning import NOT_LEARNT, can_learn
from understudy.pipelines.comparing.model import Distance, Downstream, KeyCheck, TableComparison, TreeComparison
from understudy.pipelines.comparing.tree_learning import known_rows, labels_of, tree_detection, tree_downstream
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.counting.tree.views import View
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import LEVEL
from understudy.pipelines.inference.intervals import deviations
from understudy.pipelines.inference.tree_views import full_name, told_tree
from understudy.pipelines.methods.tree.plan import TreeDesign
from understudy.pipelines.methods.tree.released import released_tree
from understudy.pipelines.publishing.measured_tree import read_measured_tree
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.releasing.measuring import counted_tree, named_tree
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.sources.tree.opening import tree_of_frames
from understudy.pipelines.spec.tree import ROWS, TreeTable
from understudy.pipelines.table.tree_checks import tree_checks


def compare_tree(planned: Planned, base: Path, stored: StoredRelease, labels: Sequence[str] = ()) -> TreeComparison:
    """Reads private rows and adds no noise: whatever comes out is as confidential as the tables."""
    tree, spec = planned.spec.tree, planned.spec
    assert tree is not None
    tables = stored.tables()
    if tree.is_implied and tree.root.key not in tables[""].column_names:
        raise SpecError(
            f"the copy was published without {tree.root.key}, so that nobody can tell whose its rows are",
            "publish the entity as a surrogate id to compare entities",
        )
    published = tables[""] if tree.is_implied else tables
    copy = LocalTree(tree_of_frames(published, spec), tree, planned.domains, b"synthetic")
    named = {ROWS: tables[""]} if tree.is_implied else tables
    said = spec.privacy.unit.columns or () if tree.is_implied else ()
    constant = [name for name in said if name in tables[""].column_names]
    checks = [each for each in tree_checks(tree, constant) if each.table in named]
    keys = tuple(KeyCheck(str(check), check.broken(named)) for check in checks)
    with closing(named_tree(spec, base)) as source:
        sides = _Sides(counted_tree(source, planned), copy, planned)
        wanted = labels_of(labels, tree, copy)
        found = tuple(sides.table(table) for table in tree.tables)
        roots = [len(side.bounded.tables[tree.root.name]) for side in (sides.real, sides.copy)]
        held = _held(stored, sides)
        scores = [tree_downstream(label, sides.real, copy) for label in wanted] if can_learn() else []
    manifest = stored.manifest
    root = "entities" if tree.is_implied else tree.root.name
    return TreeComparison(
        manifest.name,
        manifest.release_id,
        manifest.snapshot,
        root,
        roots[0],
        roots[1],
        found,
        keys,
        tuple(_remarks(held, labels, scores)),
        tuple(each for each in scores if each is not None),
    )


def _remarks(held: str | None, labels: Sequence[str], scores: Sequence[Downstream | None]) -> Iterable[str]:
    if held is not None:
        yield held
    if not can_learn():
        yield NOT_LEARNT
    missing = [label for label, score in zip(labels, scores, strict=False) if score is None]
    if missing:
        yield f"too few rows or classes to learn {', '.join(missing)} from"


@dataclass(frozen=True, eq=False)
class _Sides:
    real: LocalTree
    copy: LocalTree
    planned: Planned

    @cached_property
    def design(self) -> TreeDesign:
        design = self.planned.plan.design
        assert isinstance(design, TreeDesign)
        return design

    def table(self, table: TreeTable) -> TableComparison:
        rows = self._view(table.name, "rows")
        order = self._view(table.name, "order")
        pairs = [] if rows is None else [pair for pair in rows.asked if _fits(pair, rows)]
        own = [pair for pair in pairs if rows is not None and all(rows.columns[c].role == "own" for c in pair)]
        sizes = [len(side.bounded.tables[table.name]) for side in (self.real, self.copy)]
        return TableComparison(
            table.name,
            table.parent,
            sizes[0],
            sizes[1],
            self._columns(table),
            self._weighed(rows, own),
            self._weighed(rows, [pair for pair in pairs if pair not in own]),
            self._numbers(table),
            () if order is None else self._weighed(order, [pair for pair in order.asked if _fits(pair, order)]),
            tree_detection(known_rows(self.real, table), known_rows(self.copy, table)) if can_learn() else None,
        )

    def _view(self, table: str, kind: str) -> View | None:
        return next((view for view in self.design.views if (view.table, view.kind) == (table, kind)), None)

    def _weighed(self, view: View | None, cliques: Sequence[Clique]) -> tuple[Distance, ...]:
        """As measured, in roots."""
        if view is None or not cliques:
            return ()
        ticks = self.design.ticks
        both = (side.counts(view, cliques, ticks) for side in (self.real, self.copy))
        return _worst_first(
            Distance(
                tuple(full_name(view.columns[c], self.planned.domains) for c in clique),
                total_variation(one, other),
                another_sample(one / ticks),
            )
            for clique, one, other in zip(cliques, *both, strict=True)
        )

    def _columns(self, table: TreeTable) -> tuple[Distance, ...]:
        domain = self.planned.domains[table.name]
        codes = [side.bounded.tables[table.name].codes for side in (self.real, self.copy)]
        found = []
        for place, column in enumerate(domain.columns):
            one, other = (np.bincount(each[:, place], minlength=column.size) for each in codes)
            found.append(Distance((f"{table.name}.{column.name}",), total_variation(one, other), another_sample(one)))
        return _worst_first(found)

    def _numbers(self, table: TreeTable) -> tuple[Distance, ...]:
        """Rows of the parent by how many of its rows they have, counted one by one."""
        if table.parent is None:
            return ()
        one, other = (
            np.bincount(side.bounded.numbers(table), minlength=table.max_rows + 1) for side in (self.real, self.copy)
        )
        return (Distance((f"{table.name}.number",), total_variation(one, other), another_sample(one)),)


def _held(stored: StoredRelease, sides: _Sides) -> str | None:
    """Whether the intervals that the release gives hold what the private tables count."""
    measured = read_measured_tree(stored.trusted)
    if measured is None:
        return None
    ticks = int(measured.measurement.facts["ticks"])
    told = told_tree(released_tree(measured.measurement), measured.tree, measured.domains, ticks)
    held = many = 0
    for view in told.views:
        cliques = [clique for clique in view.view.asked if _fits(clique, view.view)]
        for clique, counts in zip(cliques, sides.real.counts(view.view, cliques, ticks), strict=True):
            off = deviations(LEVEL) * math.sqrt(view.residuals.variance(clique))
            held += int((np.abs(view.residuals.marginal(clique) - counts / ticks) <= off).sum())
            many += counts.size
    share = f"{held / many:.1%} of {many:,} cells" if many else "no cell"
    return f"{LEVEL:.0%} intervals of counts held what the tables count in {share} of their measured pairs"


def _fits(clique: Clique, view: View) -> bool:
    return math.prod(view.sizes[column] for column in clique) <= MOST_CELLS


def _worst_first(found: Iterable[Distance]) -> tuple[Distance, ...]:
    return tuple(sorted(found, key=lambda each: -each.distance))
