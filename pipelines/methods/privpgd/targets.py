"""Projection step of Algorithm 3: noisy signed marginals in, probability tables for the particles to match
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.methods.privpgd.learning import learn, merged_marginal, with_focus
from understudy.pipelines.methods.privpgd.merging import Merged
from understudy.pipelines.methods.privpgd.problem import GridColumn, NoisyMarginal
from understudy.pipelines.methods.privpgd.reconcile import EXACT_VARIANCE, Estimate, estimate_closure, estimate_total
from understudy.pipelines.methods.privpgd.shrinkage import Known, Table, shrink_all

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
    """`joint` are the marginals to fit, `single` one table per column, `pairs` all 2-way tables known.

    All are over merged codes where a column has any.
    """

    joint: tuple[Target, ...]
    single: tuple[Target, ...]
    pairs: Mapping[tuple[int, int], npt.NDArray[np.float64]]
    merged: Mapping[int, Merged] = field(default_factory=dict)


def build_targets(
    noisy: Sequence[NoisyMarginal] | Residuals,
    columns: Sequence[GridColumn],
    total: float | None,
    whole: frozenset[int] = frozenset(),
    focus: frozenset[int] = frozenset(),
) -> Targets:
    """Estimate, shrink and project the marginals; a column that no marginal covers becomes uniform.

    Columns of `whole` are not merged, however wide. Pairs with one of `focus` are told together.
    """
    sizes = [column.size for column in columns]
    merged: dict[int, Merged] = {}
    known = Known()
    if isinstance(noisy, Residuals):
        rows, asked = noisy.total if total is None else float(total), noisy.asked
        if rows >= 1.0:
            merged, known = learn(noisy, columns, rows, whole)
        estimates = lifted_estimates(noisy, merged)
    elif noisy:
        estimates, rows = estimate_closure(noisy, sizes), estimate_total(noisy)
        asked = tuple(marginal.columns for marginal in noisy)
    else:
        return uniform_targets(sizes)
    known = with_focus(known, columns, focus)
    tables = shrink_all(estimates, rows if total is None else float(total), known)
    return assembled(tables, estimates, asked, sizes, merged)


def assembled(
    tables: Mapping[tuple[int, ...], Table],
    estimates: Mapping[tuple[int, ...], Estimate],
    asked: Sequence[tuple[int, ...]],
    sizes: Sequence[int],
    merged: Mapping[int, Merged],
) -> Targets:
    """The tables that were asked for, each with the say that its noise leaves it."""
    measured = sorted({columns for columns in asked if len(columns) > 1})
    best = min((estimates[s].variance for s in measured), default=1.0)
    joint = tuple(
        Target(s, tables[s].probabilities, max(best / estimates[s].variance, LEAST_WEIGHT), tables[s].variance)
        for s in measured
        if not any(set(s) < set(other) for other in measured)
    )
    single = tuple(
        Target((c,), tables[(c,)].probabilities, 1.0, tables[(c,)].variance) if (c,) in tables else _uniform(c, size)
        for c, size in enumerate(sizes)
    )
    pairs = {(s[0], s[1]): table.probabilities for s, table in tables.items() if len(s) == 2}
    return Targets(joint, single, pairs, merged)


def uniform_targets(sizes: Sequence[int]) -> Targets:
    """Where nothing is known."""
    return Targets((), tuple(_uniform(c, size) for c, size in enumerate(sizes)), {})


def _uniform(column: int, size: int) -> Target:
    return Target((column,), np.full(size, 1.0 / size), 1.0, 0.0)


def lifted_estimates(
    residuals: Residuals, merged: Mapping[int, Merged] = MappingProxyType({})
) -> dict[tuple[int, ...], Estimate]:
    """An estimate for every nonempty subset of the marginals, smallest first, over merged codes where there are any.

    A wide one's variance is that of its own residual, a single cell's, since shrinkage sets apart what its
    sub-marginals say.
    """
    wanted = {subset for clique in residuals.asked for subset in subsets(clique)[1:]}
    own = residuals.by_clique
    return {
        s: Estimate(
            s,
            residuals.marginal(s) if not any(c in merged for c in s) else merged_marginal(residuals, s, merged),
            own[s].std ** 2 if len(s) > 1 and s in own else max(residuals.variance(s), EXACT_VARIANCE),
        )
        for s in sorted(wanted, key=lambda subset: (len(subset), subset))
    }
