"""Noisy numbers of a table of codes, bought as the flow buys them, and as it did before there were residuals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support.tables import CodedTable
from understudy.pipelines.counting.groups import GroupedClique, groupings
from understudy.pipelines.counting.lifted import Residual, Residuals, centred_counts
from understudy.pipelines.counting.mechanism import MarginalNoise, noise_multiplier
from understudy.pipelines.counting.released import (
    GROUPED,
    RESIDUALS,
    grouped_by_name,
    grouped_facts,
    marginals_by_name,
    released_residuals,
    residuals_by_name,
)
from understudy.pipelines.counting.residuals import residual_noise
from understudy.pipelines.counting.shares import ResidualWorkload, share_out
from understudy.pipelines.counting.triples import TripleCounts, candidate_triples, triples_noise
from understudy.pipelines.counting.workload import Clique, noise_stds
from understudy.pipelines.inference.grouped import with_groups
from understudy.pipelines.inference.residuals import residuals_of
from understudy.pipelines.methods.privpgd.problem import GridColumn, NoisyMarginal
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

DELTA = 1e-5
MARGINALS_ONE_WAY_SHARE = 0.1
"""What the one-way marginals got of the budget at commit 7b5a274."""


def by_residuals(
    table: CodedTable,
    codes: np.ndarray,
    epsilon: float,
    focus: frozenset[int] = frozenset(),
    order: int = 2,
    *,
    in_groups: bool = True,
) -> Residuals:
    """All pairs, or all triples, ADD_REMOVE, as method privpgd measures them, or without groups of neighbours."""
    z = noise_multiplier(Budget(epsilon, DELTA), Relation.ADD_REMOVE, "rounded")
    workload, sizes = _workload(table, order, z, focus, in_groups), tuple(table.sizes)
    shares = (*workload.shares, *workload.grouped_shares)
    noise = residual_noise(workload.shapes(sizes), shares, (), z, Relation.ADD_REMOVE, Unit(), "rounded")
    drawn = noise.draw(_exact(table, codes, workload), operating_system_randomness()).values()
    found = [
        Residual(centred_counts(noisy, shape), std / int(np.prod(shape, dtype=np.int64)))
        for shape, std, noisy in zip(noise.shapes, noise.stds, drawn, strict=True)
    ]
    own = len(workload.measured)
    return Residuals(
        workload.asked,
        sizes,
        dict(zip(workload.measured, found[:own], strict=True)),
        dict(zip(workload.grouped, found[own:], strict=True)),
    )


def by_triples(table: CodedTable, codes: np.ndarray, epsilon: float) -> Residuals:
    """All pairs and the triples that are worth it, as method privpgd measures them for `marginals: auto`."""
    z = noise_multiplier(Budget(epsilon, DELTA), Relation.ADD_REMOVE, "rounded")
    workload = _workload(table, 2, z)
    candidates, sizes = candidate_triples(table.sizes), tuple(table.sizes)
    noise = triples_noise(candidates, workload, sizes, table.ordered, (), z, Relation.ADD_REMOVE, Unit(), "rounded")
    triples = dict(zip(candidates, count(table, codes, candidates), strict=True))
    exact = TripleCounts(_exact(table, codes, workload), triples, None)
    facts = {"sizes": list(sizes), "public_total": None}
    return released_residuals(Mechanism(noise, exact, RESIDUALS, facts).draw(operating_system_randomness()))


def residual_draws(
    table: CodedTable, codes: np.ndarray, epsilon: float, needed: Collection[Clique] | None = None
) -> Callable[[], Residuals]:
    """All pairs, ADD_REMOVE, as method privpgd measures them: counted once, noised anew by every call.

    Where only some column sets are `needed`, only those are drawn, at the noise they have beside all others: noise is
    independent between sets.
    """
    z = noise_multiplier(Budget(epsilon, DELTA), Relation.ADD_REMOVE, "rounded")
    workload, sizes = _workload(table, 2, z), tuple(table.sizes)
    shares = (*workload.shares, *workload.grouped_shares)
    noise = residual_noise(workload.shapes(sizes), shares, (), z, Relation.ADD_REMOVE, Unit(), "rounded")
    every = [*workload.measured, *workload.grouped]
    kept = [place for place, each in enumerate(every) if needed is None or _columns(each) in needed]
    shapes, stds = ([of[place] for place in kept] for of in (noise.shapes, noise.stds))
    noise = replace(noise, shapes=tuple(shapes), stds=tuple(stds))
    sets = [each for each in (every[place] for place in kept) if not isinstance(each, GroupedClique)]
    grouped = [each for each in (every[place] for place in kept) if isinstance(each, GroupedClique)]
    tables = dict(zip(sets, count(table, codes, sets), strict=True))
    exact = residuals_by_name(list(tables.values()))
    exact |= grouped_by_name([each.summed(tables[each.columns]) for each in grouped])
    facts = {
        "cliques": sets,
        "asked": workload.asked,
        "sizes": table.sizes,
        "stds": stds[: len(sets)],
        "public_total": None,
        GROUPED: grouped_facts(grouped, stds[len(sets) :]),
    }

    def draw() -> Residuals:
        drawn = noise.draw(exact, operating_system_randomness())
        return with_groups(residuals_of(Measurement(RESIDUALS, facts, drawn)))

    return draw


def _columns(each: Clique | GroupedClique) -> Clique:
    return each.columns if isinstance(each, GroupedClique) else each


def _workload(
    table: CodedTable, order: int, z: float, focus: frozenset[int] = frozenset(), in_groups: bool = True
) -> ResidualWorkload:
    ways = {c: groupings(size, table.ordered[c], ()) for c, size in enumerate(table.sizes) if in_groups}
    wide = {c: found for c, found in ways.items() if found is not None}
    asked = list(combinations(range(len(table.sizes)), order))
    return share_out(asked, table.sizes, z, focus=focus, groupings=wide)


def _exact(table: CodedTable, codes: np.ndarray, workload: ResidualWorkload) -> dict[str, np.ndarray]:
    tables = dict(zip(workload.measured, count(table, codes, workload.measured), strict=True))
    in_groups = [each.summed(tables[each.columns]) for each in workload.grouped]
    return residuals_by_name(list(tables.values())) | grouped_by_name(in_groups)


def by_marginals(table: CodedTable, codes: np.ndarray, epsilon: float) -> list[NoisyMarginal]:
    """Every cell of the same pairs, and of the one-way ones for a tenth of the budget, with noise of its own."""
    columns = range(len(table.sizes))
    singles, wide = list(combinations(columns, 1)), list(combinations(columns, 2))
    share = MARGINALS_ONE_WAY_SHARE
    shares = [share / len(singles)] * len(singles) + [(1 - share) / len(wide)] * len(wide)
    z = noise_multiplier(Budget(epsilon, DELTA), Relation.ADD_REMOVE, "rounded")
    noise = MarginalNoise(noise_stds(shares, z, 1.0), Relation.ADD_REMOVE, Unit())
    exact = marginals_by_name(count(table, codes, [*singles, *wide]))
    drawn = noise.draw(exact, operating_system_randomness()).values()
    return [NoisyMarginal(s, noisy, std) for s, noisy, std in zip([*singles, *wide], drawn, noise.stds, strict=True)]


def count(table: CodedTable, codes: np.ndarray, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    return [
        np.rint(len(codes) * metrics.marginal(codes, s, table.sizes)).astype(np.int64) if s else np.array(len(codes))
        for s in cliques
    ]


def grid(table: CodedTable) -> list[GridColumn]:
    return [GridColumn(size, ordered) for size, ordered in zip(table.sizes, table.ordered, strict=True)]
