"""Projection step of Algorithm 3: noisy signed marginals in, probability tables for the particles to match
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.problem import GridColumn, NoisyMarginal
from understudy.pipelines.methods.privpgd.reconcile import estimate_closure, estimate_total
from understudy.pipelines.methods.privpgd.shrinkage import shrink_all

# A table is never given less than this share of the best-known table's say: with none it could drift at no
# cost.
LEAST_WEIGHT = 0.05


@dataclass(frozen=True, eq=False)
class Target:
    """What the particles should look like over `columns`; `weight` in (0, 1] is its say where targets
    conflict.

    `noise_variance` is what the noise leaves unknown of a cell's probability, as a mean over cells.
    """

    columns: tuple[int, ...]
    probabilities: npt.NDArray[np.float64]
    weight: float
    noise_variance: float


@dataclass(frozen=True)
class Targets:
    """`joint` are the marginals to fit, `single` one table per column, `pairs` all 2-way tables known."""

    joint: tuple[Target, ...]
    single: tuple[Target, ...]
    pairs: Mapping[tuple[int, int], npt.NDArray[np.float64]]


def build_targets(marginals: Sequence[NoisyMarginal], columns: Sequence[GridColumn], total: float | None) -> Targets:
    """Reconcile, shrink and project the noisy marginals; a column that no marginal covers becomes uniform."""
    sizes = [column.size for column in columns]
    uniform = tuple(Target((c,), np.full(size, 1.0 / size), 1.0, 0.0) for c, size in enumerate(sizes))
    if not marginals:
        return Targets((), uniform, {})
    estimates = estimate_closure(marginals, sizes)
    tables = shrink_all(estimates, estimate_total(marginals) if total is None else float(total))
    measured = sorted({m.columns for m in marginals if len(m.columns) > 1})
    best = min((estimates[s].variance for s in measured), default=1.0)
    joint = tuple(
        Target(s, tables[s].probabilities, max(best / estimates[s].variance, LEAST_WEIGHT), tables[s].variance)
        for s in measured
        if not any(set(s) < set(other) for other in measured)
    )
    single = tuple(
        Target((c,), tables[(c,)].probabilities, 1.0, tables[(c,)].variance) if (c,) in tables else uniform[c]
        for c in range(len(columns))
    )
    pairs = {(s[0], s[1]): table.probabilities for s, table in tables.items() if len(s) == 2}
    return Targets(joint, single, pairs)
