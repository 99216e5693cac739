"""What a measured tree tells: noisy residuals of every view, in roots, and noisy numbers of children.

Theorem, relation, sensitivity, noise unit, reference. Nothing is drawn here: this is how what methods/tree/measure.py
  bought is written down and read back. Post-processing of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residual, Residuals, centred_counts
from understudy.pipelines.counting.tree.views import View, view_facts, view_from
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.privacy.measurement import Measurement

FloatArray = npt.NDArray[np.float64]
TREE = "tree"
"""The kind of such a measurement."""


@dataclass(frozen=True, eq=False)
class ReleasedView:
    """A view and what was released of it, in roots: `total` is how many roots have a row in it."""

    view: View
    residuals: Residuals


@dataclass(frozen=True, eq=False)
class ReleasedTree:
    """The views, the root's first and parents before children.

    `numbers`: for a child table whose levels do not tell it, noisy parents by the number of their children, from 0 (of
    an implied root too, which has none of 0), in roots; `numbers_std` is the noise of each of them.
    """

    views: tuple[ReleasedView, ...]
    numbers: Mapping[str, FloatArray]
    numbers_std: Mapping[str, float]

    def rows_view(self, table: str) -> ReleasedView:
        return next(each for each in self.views if each.view.table == table and each.view.kind == "rows")

    def order_view(self, table: str) -> ReleasedView | None:
        return next((each for each in self.views if each.view.table == table and each.view.kind == "order"), None)


def residual_name(view: int, place: int) -> str:
    return f"view_{view}_residual_{place}"


def numbers_name(table: str) -> str:
    return f"numbers_{table}"


def tree_facts(
    ticks: int,
    views: Sequence[View],
    measured: Sequence[Sequence[Clique]],
    stds: Sequence[Sequence[float]],
    numbers: Mapping[str, float],
    sampler: str,
) -> dict[str, Any]:
    """What is stored beside the noisy numbers: known before any is drawn. Stds are of G times the ticks, as drawn, and
    of ticks for the numbers of children."""
    told = [
        {**view_facts(view), "measured": [list(clique) for clique in cliques], "stds": list(each)}
        for view, cliques, each in zip(views, measured, stds, strict=True)
    ]
    return {"ticks": ticks, "views": told, "numbers": dict(numbers), "sampler": sampler}


def is_tree(measured: Measurement) -> bool:
    return measured.kind == TREE


def released_tree(measured: Measurement) -> ReleasedTree:
    facts = measured.facts
    one = int(facts["ticks"])
    views = tuple(_view(i, told, measured, one) for i, told in enumerate(facts["views"]))
    numbers = {table: np.asarray(measured.arrays[numbers_name(table)], np.float64) / one for table in facts["numbers"]}
    return ReleasedTree(views, numbers, {table: float(std) / one for table, std in facts["numbers"].items()})


def _view(number: int, told: Mapping[str, Any], measured: Measurement, one: int) -> ReleasedView:
    view = view_from(told)
    found = {}
    for place, (clique, std) in enumerate(zip(told["measured"], told["stds"], strict=True)):
        shape = [view.sizes[column] for column in clique]
        counts = centred_counts(measured.arrays[residual_name(number, place)], shape) / one
        found[tuple(clique)] = Residual(counts, float(std) / math.prod(shape) / one)
    alone = tuple((column,) for column in range(len(view.sizes)))
    return ReleasedView(view, Residuals(tuple(dict.fromkeys([*alone, *view.asked])), view.sizes, found))
