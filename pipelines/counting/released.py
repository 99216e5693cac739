"""Noisy marginals as a measurement: how they are stored, read back and summed up.

Two kinds. Residuals (counting/residuals.py) answer every marginal of their workload. Marginals noised cell by cell are
what adaptive rounds buy, and what every release bought before there were residuals: those stay readable. Either may
have tables over groups of neighbouring codes (groups.py) beside. Residuals with the fact `weights` count entities and
not rows: so many ticks are one entity (counting/weights.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.pipelines.counting.entity_rows import EntityResiduals
from understudy.pipelines.counting.groups import GroupedClique
from understudy.pipelines.counting.lifted import Residual, Residuals, centred_counts, residuals_of_tables
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.counting.shares import ResidualWorkload
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.table.domain import TableDomain

KIND = "marginals"
RESIDUALS = "residuals"
GROUPED = "grouped"
WEIGHTS = "weights"
NUMBERS = "entity_rows"
"""Ticks by the number of rows of an entity, where levels do not tell it."""

LEVEL = "rows of the entity"
_PUBLISHED = ("cliques", "columns", "sizes", "stds", "sampler", "public_total", "asked", WEIGHTS)
Released = tuple[Clique, np.ndarray, float]
"""Column indices, noisy counts, and the standard deviation of each count."""


def marginal_facts(
    cliques: Sequence[Clique], stds: Sequence[float], sampler: str, domain: TableDomain, public_total: int | None
) -> dict[str, Any]:
    """What is stored beside noisy marginals: known before any of them is drawn."""
    return {
        "cliques": [list(clique) for clique in cliques],
        "columns": list(domain.names),
        "sizes": list(domain.sizes),
        "stds": list(stds),
        "sampler": sampler,
        "public_total": public_total,
    }


def residual_facts(
    workload: ResidualWorkload,
    noise: ResidualNoise,
    domain: TableDomain,
    public_total: int | None,
    weights: EntityWeights | None = None,
) -> dict[str, Any]:
    """What is stored beside noisy residuals. Their stds are of G times a count, as they were drawn.

    With weights the counts are of ticks, so many to an entity, and one more column is the level of its rows.
    """
    own = len(workload.measured)
    facts = marginal_facts(workload.measured, noise.stds[:own], noise.sampler, domain, public_total)
    facts["asked"] = [list(clique) for clique in workload.asked]
    if workload.grouped:
        facts[GROUPED] = grouped_facts(workload.grouped, noise.stds[own:])
    if weights is None:
        return facts
    beside = noise.beside.stds[0] if noise.beside is not None and not weights.are_exact else None
    return {
        **facts,
        "columns": [*domain.names, LEVEL],
        "sizes": [*domain.sizes, len(weights.levels)],
        WEIGHTS: {**weights.facts(), "numbers_std": beside},
    }


def published_facts(measured: Measurement) -> dict[str, Any]:
    """Those that travel with a release: what a reader of the noisy numbers needs, and no address."""
    return {key: measured.facts[key] for key in _PUBLISHED if key in measured.facts}


def array_name(kind: str, place: int) -> str:
    return f"{'residual' if kind == RESIDUALS else 'marginal'}_{place}"


def marginals_by_name(marginals: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {array_name(KIND, i): marginal for i, marginal in enumerate(marginals)}


def residuals_by_name(tables: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {array_name(RESIDUALS, i): table for i, table in enumerate(tables)}


def grouped_facts(grouped: Sequence[GroupedClique], stds: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {"columns": list(each.columns), "starts": [s if s is None else list(s) for s in each.starts], "std": std}
        for each, std in zip(grouped, stds, strict=True)
    ]


def grouped_by_name(tables: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{GROUPED}_{i}": table for i, table in enumerate(tables)}


def released_residuals(measured: Measurement) -> Residuals:
    """In rows; of a measurement that counts entities, in entities, with the level of their rows as the last column."""
    facts, sizes = measured.facts, tuple(measured.facts["sizes"])
    one = facts[WEIGHTS]["ticks"] if counts_entities(measured) else 1
    found = {}
    for i, (clique, std) in enumerate(zip(facts["cliques"], facts["stds"], strict=True)):
        shape = [sizes[column] for column in clique]
        counts = centred_counts(measured.arrays[f"residual_{i}"], shape) / one
        found[tuple(clique)] = Residual(counts, std / math.prod(shape) / one)
    if facts["public_total"] is not None:
        found[()] = Residual(np.array(float(facts["public_total"])), 0.0)
    grouped = {}
    for i, told in enumerate(facts.get(GROUPED, ())):
        starts = tuple(None if each is None else tuple(each) for each in told["starts"])
        each = GroupedClique(tuple(told["columns"]), starts)
        counts = centred_counts(measured.arrays[f"{GROUPED}_{i}"], each.shape(sizes)) / one
        grouped[each] = Residual(counts, told["std"] / counts.size / one)
    return Residuals(tuple(tuple(clique) for clique in facts["asked"]), sizes, found, grouped)


def released_tables(measured: Measurement, rounding: float = 0.0) -> Residuals:
    """What marginals noised cell by cell, and their groups where there are any, say: in rows."""
    sizes, grouped = tuple(measured.facts["sizes"]), []
    for i, told in enumerate(measured.facts.get(GROUPED, ())):
        starts = tuple(None if each is None else tuple(each) for each in told["starts"])
        grouped.append((GroupedClique(tuple(told["columns"]), starts), measured.arrays[f"{GROUPED}_{i}"], told["std"]))
    return residuals_of_tables(released_marginals(measured), grouped, sizes, rounding)


def counts_entities(measured: Measurement) -> bool:
    """Whether rows were weighed so that every entity counts once (weights.py)."""
    return WEIGHTS in measured.facts


def released_entities(measured: Measurement) -> EntityResiduals:
    weights = EntityWeights.from_facts(measured.facts[WEIGHTS])
    std = measured.facts[WEIGHTS]["numbers_std"]
    if std is None:
        return EntityResiduals(released_residuals(measured), weights)
    numbers = np.asarray(measured.arrays[NUMBERS], dtype=np.float64) / weights.ticks
    return EntityResiduals(released_residuals(measured), weights, numbers, float(std) / weights.ticks)


def released_marginals(measured: Measurement) -> list[Released]:
    """The marginals that were asked for, in rows, as they were drawn or as the residuals tell them.

    Where entities were counted: those of which rows were told, which are the columns by themselves.
    """
    if counts_entities(measured):
        counted = released_entities(measured)
        return [
            (clique, counted.row_counts(clique), math.sqrt(counted.row_variance(clique)))
            for clique in counted.asked
            if (*clique, counted.level) in counted.residuals.asked
        ]
    if measured.kind == RESIDUALS:
        told = released_residuals(measured)
        return [(clique, told.marginal(clique), math.sqrt(told.variance(clique))) for clique in told.asked]
    return [
        (tuple(clique), measured.arrays[f"marginal_{i}"], std)
        for i, (clique, std) in enumerate(zip(measured.facts["cliques"], measured.facts["stds"], strict=True))
    ]


def noise_cells(measured: Measurement) -> list[float]:
    """For each released marginal: as many cells of independent noise would vary as much as its own do in L1."""
    if measured.kind == RESIDUALS:
        told = released_residuals(measured)
        return [told.noise_cells(clique) for clique in told.asked]
    return [float(noisy.size) for _, noisy, _ in released_marginals(measured)]


def noisy_total(measured: Measurement) -> int:
    """The number of rows to publish: the public total, or what the noisy numbers say of it."""
    total = measured.facts["public_total"]
    return max(1, int(total) if total is not None else round(_estimated(measured)))


def counted_total(measured: Measurement) -> float:
    """What the shares of plain tables are of, in their own units: rows, or the ticks of all entities."""
    if counts_entities(measured):
        return max(1.0, released_residuals(measured).total) * float(measured.facts[WEIGHTS]["ticks"])
    return float(noisy_total(measured))


def _estimated(measured: Measurement) -> float:
    if counts_entities(measured):
        return released_entities(measured).rows
    if measured.kind == RESIDUALS:
        return released_residuals(measured).total
    return estimated_total(released_marginals(measured))


def estimated_total(released: Sequence[Released]) -> float:
    """The inverse-variance mean of the noisy marginals' sums."""
    estimates = [(float(noisy.sum()), noisy.size * std**2) for _, noisy, std in released]
    weight = math.fsum(1 / variance for _, variance in estimates)
    return math.fsum(value / variance for value, variance in estimates) / weight


def title(clique: Clique, domain: TableDomain) -> str:
    return " x ".join(domain.names[index] for index in clique)
