"""Noisy marginals as a measurement: how they are stored, read back and summed up.

Two kinds. Residuals (counting/residuals.py) answer every marginal of their workload. Marginals noised cell by cell are
what adaptive rounds buy, and what every release bought before there were residuals: those stay readable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.pipelines.counting.lifted import Residual, Residuals, centred_counts
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.counting.shares import ResidualWorkload
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.table.domain import TableDomain

KIND = "marginals"
RESIDUALS = "residuals"
_PUBLISHED = ("cliques", "columns", "sizes", "stds", "sampler", "public_total", "asked")
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
    workload: ResidualWorkload, noise: ResidualNoise, domain: TableDomain, public_total: int | None
) -> dict[str, Any]:
    """What is stored beside noisy residuals. Their stds are of G times a count, as they were drawn."""
    facts = marginal_facts(workload.measured, noise.stds, noise.sampler, domain, public_total)
    return {**facts, "asked": [list(clique) for clique in workload.asked]}


def published_facts(measured: Measurement) -> dict[str, Any]:
    """Those that travel with a release: what a reader of the noisy numbers needs, and no address."""
    return {key: measured.facts[key] for key in _PUBLISHED if key in measured.facts}


def array_name(kind: str, place: int) -> str:
    return f"{'residual' if kind == RESIDUALS else 'marginal'}_{place}"


def marginals_by_name(marginals: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {array_name(KIND, i): marginal for i, marginal in enumerate(marginals)}


def residuals_by_name(tables: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {array_name(RESIDUALS, i): table for i, table in enumerate(tables)}


def released_residuals(measured: Measurement) -> Residuals:
    facts, sizes = measured.facts, tuple(measured.facts["sizes"])
    found = {}
    for i, (clique, std) in enumerate(zip(facts["cliques"], facts["stds"], strict=True)):
        shape = [sizes[column] for column in clique]
        counts = centred_counts(measured.arrays[f"residual_{i}"], shape)
        found[tuple(clique)] = Residual(counts, std / math.prod(shape))
    if facts["public_total"] is not None:
        found[()] = Residual(np.array(float(facts["public_total"])), 0.0)
    return Residuals(tuple(tuple(clique) for clique in facts["asked"]), sizes, found)


def released_marginals(measured: Measurement) -> list[Released]:
    """The marginals that were asked for, as they were drawn or as the residuals tell them."""
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


def _estimated(measured: Measurement) -> float:
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
