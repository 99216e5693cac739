"""What a release of several tables will measure and how noisy: decided once, from the spec alone.

Theorem, sensitivity, noise unit. Those of counting/residuals.py for a unit of W rows, W the ticks of a root
  (docs/proofs/trees.md): residuals of all views, and numbers of children beside them, are one Gaussian event.
Relation. Both. How many roots there are is never public: one that is replaced may bring no row that can be read.
Reference. docs/proofs/trees.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.mechanism import noise_multiplier
from understudy.pipelines.counting.residuals import ResidualNoise, residual_noise
from understudy.pipelines.counting.shares import ResidualWorkload, Split, share_out, widest_of
from understudy.pipelines.counting.tree.views import View, levels_tell, number_levels, views_of
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import MethodPlan, NoiseLine
from understudy.pipelines.privacy.mechanism import PlannedCharge
from understudy.pipelines.privacy.relation import Unit, counts_sensitivity
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.options import read_options
from understudy.pipelines.spec.public import Public
from understudy.pipelines.spec.tree import Tree
from understudy.pipelines.table.domain import TableDomain

STAGE = "tree"
NUMBERS_SHARE = 0.01
"""Of the budget, for how many rows lie below each, for every child table whose levels do not tell it."""

ORDER_WORTH = 0.5
"""What a view of rows that follow each other gets of the budget, beside one of rows of which as much is asked.

Chosen by hand on benchmarks/trees.py (diabetes130 and the clinic, epsilon 1), whose figures have therefore seen it.
"""


class TreeOptions(Public):
    """What a spec of several tables may say under `method:`."""

    one_way_share: float | None = None
    split: Split = "equal"


@dataclass(frozen=True)
class TreeDesign:
    """Everything that is measured of a tree, in one charge: residuals of every view, then numbers of children.

    `parts` are the budget's shares by table; `ticks` are those of a root.
    """

    tree: Tree
    views: tuple[View, ...]
    workloads: tuple[ResidualWorkload, ...]
    numbers: tuple[str, ...]
    parts: tuple[tuple[str, float], ...]
    ticks: int
    noise: ResidualNoise

    def counted(self, view: int) -> tuple[Clique, ...]:
        """The marginals of a view that all others are summed out of."""
        return widest_of(self.workloads[view].asked)

    def stds(self, view: int) -> tuple[float, ...]:
        """Those of a view's residuals, as they are drawn."""
        start = sum(len(workload.measured) for workload in self.workloads[:view])
        return self.noise.stds[start : start + len(self.workloads[view].measured)]

    @property
    def number_stds(self) -> dict[str, float]:
        stds = self.noise.beside.stds if self.noise.beside is not None else ()
        return dict(zip(self.numbers, stds, strict=True))


def tree_domains(spec: ReleaseSpec) -> dict[str, TableDomain]:
    """The domain of each table of a tree, parents first."""
    assert spec.tree is not None
    return {name: TableDomain.of(spec.table(name)) for name in spec.tree.names}


def plan_tree(spec: ReleaseSpec, domains: Mapping[str, TableDomain]) -> MethodPlan[TreeDesign]:
    return describe(design_tree(spec, domains), domains)


def design_tree(spec: ReleaseSpec, domains: Mapping[str, TableDomain]) -> TreeDesign:
    tree, privacy = spec.tree, spec.privacy
    assert tree is not None
    options = read_options(spec, TreeOptions)
    views = views_of(tree, domains)
    weights = EntityWeights.of(max(tree.most_rows(name) for name in tree.names))
    unit = Unit(tree.root.name, weights.ticks)
    z = noise_multiplier(privacy.budget, privacy.relation, privacy.noise)
    level = z * counts_sensitivity(privacy.relation, unit.max_rows) / weights.ticks
    workloads = tuple(
        share_out(view.asked, view.sizes, level, one_way_share=options.one_way_share, split=options.split)
        for view in views
    )
    numbers = tuple(
        table.name
        for table in tree.tables
        if table.parent is not None and not levels_tell(number_levels(table.max_rows))
    )
    parts = _parts(tree, views)
    left = 1 - NUMBERS_SHARE * len(numbers)
    shares = [
        share * _of_view(i, views) * parts[view.table] * left
        for i, (view, workload) in enumerate(zip(views, workloads, strict=True))
        for share in workload.shares
    ]
    shapes = [shape for view, each in zip(views, workloads, strict=True) for shape in each.shapes(view.sizes)]
    extra = [NUMBERS_SHARE] * len(numbers)
    noise = residual_noise(shapes, shares, extra, z, privacy.relation, unit, privacy.noise)
    return TreeDesign(tree, views, workloads, numbers, tuple(parts.items()), weights.ticks, noise)


def _parts(tree: Tree, views: tuple[View, ...]) -> dict[str, float]:
    """The budget by table: what the spec says, and the rest in proportion to the root of what is asked of each."""
    given = {table.name: table.share for table in tree.tables if table.share is not None}
    asked = {name: math.fsum(_worth(view) for view in views if view.table == name) for name in tree.names}
    others = math.fsum(worth for name, worth in asked.items() if name not in given)
    left = 1 - math.fsum(given.values())
    if others and left <= 0:
        raise SpecError("the tables' shares leave nothing of the budget for the others", "lower them")
    return {name: given[name] if name in given else left * asked[name] / others for name in tree.names}


def _worth(view: View) -> float:
    return (ORDER_WORTH if view.kind == "order" else 1.0) * math.sqrt(len(view.asked) + len(view.columns))


def _of_view(number: int, views: tuple[View, ...]) -> float:
    """A view's part of what its table has."""
    table = views[number].table
    return _worth(views[number]) / math.fsum(_worth(view) for view in views if view.table == table)


def describe(design: TreeDesign, domains: Mapping[str, TableDomain]) -> MethodPlan[TreeDesign]:
    lines: list[NoiseLine] = []
    for i, view in enumerate(design.views):
        told = noise_of(design, i)
        lines += [
            NoiseLine(
                view.title(clique, domains),
                math.prod(view.sizes[column] for column in clique),
                math.sqrt(told.variance(clique)),
                "in order" if view.kind == "order" else "",
            )
            for clique in told.asked
        ]
    for name, std in design.number_stds.items():
        size = design.tree.table(name).max_rows + 1
        lines.append(NoiseLine(f"numbers of {name}", size, std / design.ticks))
    marginals = sum(len(view.asked) for view in design.views)
    root = design.tree.root
    return MethodPlan(
        method="privpgd",
        charges=(PlannedCharge(STAGE, design.noise.event),),
        noise=tuple(lines),
        steps=(
            f"attribute every row of {len(design.tree.tables)} tables to one row of {root.name}, and bound them",
            f"weigh rows so that each of {root.name} counts once in every table",
            f"count {marginals} marginals exactly: of columns, with those above, of rows that follow each other",
            "add rounded Gaussian noise, once",
            f"make {root.name}, then the tables below, row under row, until their marginals fit the noisy ones",
        ),
        design=design,
        details={
            "tables": [_row(design, name) for name in design.tree.names],
            "marginals": marginals,
            "cells": sum(line.numbers for line in lines),
        },
    )


def noise_of(design: TreeDesign, view: int) -> Residuals:
    """What is known of a view's release before it is made: its noise, in roots."""
    workload, seen, nothing = design.workloads[view], design.views[view], np.zeros(0)
    shapes = workload.shapes(seen.sizes)
    return Residuals(
        workload.asked,
        seen.sizes,
        {
            clique: Residual(nothing, std / math.prod(shape) / design.ticks)
            for clique, shape, std in zip(workload.measured, shapes, design.stds(view), strict=True)
        },
    )


def _row(design: TreeDesign, name: str) -> dict[str, str]:
    table, parts = design.tree.table(name), dict(design.parts)
    found = [i for i, view in enumerate(design.views) if view.table == name]
    stds = [math.sqrt(noise_of(design, i).variance(pair)) for i in found for pair in design.views[i].asked]
    return {
        "table": name if table.parent is None else f"{name} of {table.parent}",
        "max rows": "" if table.parent is None else f"{table.max_rows:,}",
        "of one root": f"{design.tree.most_rows(name):,}",
        "order": table.order_by or "",
        "share": f"{parts[name]:.1%}",
        "pairs": f"{len(stds):,}",
        "noise std": f"{min(stds):.1f} to {max(stds):.1f}" if stds else "",
    }
