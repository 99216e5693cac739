"""What a copy of several tables is good for: every column and pair of every view, once, as of one table.

Numbers are of roots: each counts once in every view, its rows alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.pipelines.counting.tree.views import ViewColumn
from understudy.pipelines.inference.tree_views import ToldTree, ToldView
from understudy.pipelines.inference.verdict import TableVerdict, Verdict, ranked, verdict_of


def tree_verdict(told: ToldTree) -> Verdict:
    tables = [table for view in told.views for table in _of_view(view)]
    root = told.tree.root
    return ranked(max(1.0, told.views[0].residuals.total), tables, "entities" if root.implied else root.name)


def _of_view(view: ToldView) -> Sequence[TableVerdict]:
    """By themselves, columns that were not judged in a view above; of the pairs, those that were asked for."""
    new = {column.name for column, seen in zip(view.columns, view.view.columns, strict=True) if _is_new(seen, view)}
    names = [column.name for column in view.columns]
    found = verdict_of(view.residuals, names)
    return [*(one for one in found.columns if one.name in new), *found.pairs]


def _is_new(column: ViewColumn, view: ToldView) -> bool:
    return column.role == "gap" if view.view.kind == "order" else column.role in ("own", "number")
