"""Noisy marginals as a measurement: how they are stored, read back and summed up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.table.domain import TableDomain

KIND = "marginals"
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


def marginals_by_name(marginals: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"marginal_{i}": marginal for i, marginal in enumerate(marginals)}


def released_marginals(measured: Measurement) -> list[Released]:
    return [
        (tuple(clique), measured.arrays[f"marginal_{i}"], std)
        for i, (clique, std) in enumerate(zip(measured.facts["cliques"], measured.facts["stds"], strict=True))
    ]


def noisy_total(measured: Measurement) -> int:
    """The number of rows to publish: the public total, or the inverse-variance mean of the noisy marginals' sums."""
    total = measured.facts["public_total"]
    return max(1, int(total) if total is not None else round(estimated_total(released_marginals(measured))))


def estimated_total(released: Sequence[Released]) -> float:
    estimates = [(float(noisy.sum()), noisy.size * std**2) for _, noisy, std in released]
    weight = math.fsum(1 / variance for _, variance in estimates)
    return math.fsum(value / variance for value, variance in estimates) / weight


def title(clique: Clique, domain: TableDomain) -> str:
    return " x ".join(domain.names[index] for index in clique)
