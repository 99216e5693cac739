"""Released numbers of either kind as independent residuals with the noise that they have.

Residuals are what they are. A marginal noised cell by cell, as adaptive rounds and earlier versions bought them, tells
the residual of each of its subsets A too: summed over the other columns W - A it has noise of variance s_W^2 times
their number of cells, and white noise is independent in orthogonal spaces. What several marginals say of one residual
is averaged by inverse variance, which is the best linear estimate there is. Where entities were counted, the residuals
are of entities: each counts once, its rows alike.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.released import (
    RESIDUALS,
    WEIGHTS,
    counts_entities,
    released_marginals,
    released_residuals,
)
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.privacy.measurement import Measurement

ROUNDING = 1 / 12
"""Variance that rounding to whole numbers adds to that of the normal noise it rounds."""


def residuals_of(measured: Measurement) -> Residuals:
    if measured.kind != RESIDUALS:
        return _from_marginals(measured)
    told = _without_level(released_residuals(measured)) if counts_entities(measured) else released_residuals(measured)
    one, found = measured.facts[WEIGHTS]["ticks"] if counts_entities(measured) else 1, {}
    for clique, residual in told.by_clique.items():
        cells = one * math.prod(told.sizes[column] for column in clique)
        exact = residual.std == 0  # a public number of rows
        std = 0.0 if exact else math.sqrt(residual.std**2 + ROUNDING / cells**2)
        found[clique] = Residual(residual.counts, std)
    grouped = {
        each: Residual(residual.counts, math.sqrt(residual.std**2 + ROUNDING / (one * residual.counts.size) ** 2))
        for each, residual in told.grouped.items()
    }
    return Residuals(told.asked, told.sizes, found, grouped)


def _without_level(told: Residuals) -> Residuals:
    """What is known of entities by their columns alone."""
    level = len(told.sizes) - 1
    kept = {clique: residual for clique, residual in told.by_clique.items() if level not in clique}
    grouped = {each: residual for each, residual in told.grouped.items() if level not in each.columns}
    return Residuals(tuple(clique for clique in told.asked if level not in clique), told.sizes[:-1], kept, grouped)


def _from_marginals(measured: Measurement) -> Residuals:
    sizes = tuple(measured.facts["sizes"])
    said: dict[Clique, list[tuple[np.ndarray, float]]] = defaultdict(list)
    released = released_marginals(measured)
    for clique, counts, std in released:
        table = np.asarray(counts, dtype=np.float64).reshape([sizes[column] for column in clique])
        for subset in subsets(clique):
            lacked = tuple(place for place, column in enumerate(clique) if column not in subset)
            spread = math.prod(sizes[clique[place]] for place in lacked)
            part = table.sum(axis=lacked) if lacked else table
            for axis in range(part.ndim):
                part = part - part.mean(axis=axis, keepdims=True)
            said[subset].append((np.asarray(part), (std**2 + ROUNDING) * spread))
    found = {}
    for clique, parts in said.items():
        weight = math.fsum(1 / variance for _, variance in parts)
        mean = sum((part / variance for part, variance in parts), np.zeros(parts[0][0].shape)) / weight
        found[clique] = Residual(mean, math.sqrt(1 / weight))
    total = measured.facts.get("public_total")
    if total is not None:
        found[()] = Residual(np.array(float(total)), 0.0)
    return Residuals(tuple(clique for clique, _, _ in released), sizes, found)
