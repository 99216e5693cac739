"""The one purchase of a release of several tables: exact ticks of every view, and their noisy residuals.

Theorem. With W ticks to a root, a root has at most W of them in every table of every view (counting/tree/tally.py), so
  the residuals of all views and the tables beside them are `ResidualNoise` of a unit of W rows: one Gaussian event.
Relation, sensitivity, noise unit. Those of counting/residuals.py with k = W; stds are in G times ticks.
Proof. docs/proofs/trees.md.
Reference. docs/proofs/residuals.md, docs/proofs/weights.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from understudy.pipelines.counting.shares import summed_out
from understudy.pipelines.counting.tree.views import View
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.methods.tree.plan import TreeDesign
from understudy.pipelines.methods.tree.released import TREE, numbers_name, residual_name, tree_facts
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase


class PrivateTree(Protocol):
    """The bounded private tables of a tree. Values leave it only through `purchase`."""

    def counts(self, view: View, cliques: Sequence[Clique], ticks: int) -> list[np.ndarray]:
        """Exact ticks of cliques of a view's columns and, numbered after them, of the numbers of rows below."""
        ...


def measure_tree(tree: PrivateTree, design: TreeDesign, charge: PlannedCharge, purchase: Purchase) -> Measurement:
    return purchase(charge, Mechanism(design.noise, exact_tables(tree, design), TREE, facts_of(design)))


def facts_of(design: TreeDesign) -> dict[str, object]:
    """What is stored beside the noisy numbers."""
    return tree_facts(
        design.ticks,
        design.views,
        [workload.measured for workload in design.workloads],
        [design.stds(i) for i in range(len(design.views))],
        design.number_stds,
        design.noise.sampler,
    )


def exact_tables(tree: PrivateTree, design: TreeDesign) -> dict[str, np.ndarray]:
    """Ticks of everything that is measured, in the order of the noise: views, then numbers of children."""
    residuals: dict[str, np.ndarray] = {}
    numbers: dict[str, np.ndarray] = {}
    for i, view in enumerate(design.views):
        counted = design.counted(i)
        children = [child.name for child in design.tree.children(view.table)] if view.kind == "rows" else []
        below = {name: (len(view.columns) + place,) for place, name in enumerate(children) if name in design.numbers}
        found = tree.counts(view, [*counted, *below.values()], design.ticks)
        summed = summed_out(design.workloads[i].measured, counted, found[: len(counted)])
        residuals |= {residual_name(i, place): table for place, table in enumerate(summed)}
        numbers |= {numbers_name(name): table for name, table in zip(below, found[len(counted) :], strict=True)}
    return residuals | {numbers_name(name): numbers[numbers_name(name)] for name in design.numbers}
