"""What a copy of several tables is good for: every column and pair of every view, once, as of one table.

Numbers are of roots: each counts once in every view, its rows alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from understudy.pipelines.counting.tree.views import View, ViewColumn
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.tree_views import ToldTree, full_name
from understudy.pipelines.inference.verdict import TableVerdict, Verdict, expected_verdict, ranked, verdict_of
from understudy.pipelines.methods.tree.plan import TreeDesign, noise_of
from understudy.pipelines.spec.tree import Tree
from understudy.pipelines.table.domain import TableDomain


def tree_verdict(told: ToldTree) -> Verdict:
    """After measuring."""
    tables: list[TableVerdict] = []
    for view in told.views:
        names = [column.name for column in view.columns]
        wanted = {frozenset(names[c] for c in clique) for clique in judged(view.view)}
        tables += [each for each in verdict_of(view.residuals, names).tables if frozenset(each.columns) in wanted]
    return ranked(max(1.0, told.views[0].residuals.total), tables, counted_in(told.tree))


def planned_tree_verdict(design: TreeDesign, domains: Mapping[str, TableDomain], roots: int) -> Verdict:
    """Before measuring, of so many roots, all with rows in every table."""
    return expected_verdict(list(_planned(design, domains)), roots, counted_in(design.tree))


def counted_in(tree: Tree) -> str:
    """What numbers are of."""
    return "entities" if tree.is_implied else tree.root.name


def _planned(design: TreeDesign, domains: Mapping[str, TableDomain]) -> Iterator[tuple[tuple[str, ...], int, float]]:
    for i, view in enumerate(design.views):
        noise = noise_of(design, i)
        for clique in judged(view):
            names = tuple(full_name(view.columns[c], domains) for c in clique)
            yield names, math.prod(view.sizes[c] for c in clique), math.sqrt(noise.variance(clique))


def judged(view: View) -> Sequence[Clique]:
    """By themselves, columns that were not judged in a view above; of the pairs, those that are asked for."""
    return [*((place,) for place, column in enumerate(view.columns) if _is_new(column, view)), *view.asked]


def _is_new(column: ViewColumn, view: View) -> bool:
    return column.role == "gap" if view.kind == "order" else column.role in ("own", "number")
