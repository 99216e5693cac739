"""Released numbers of either kind as independent residuals with the noise that they have.

Residuals are what they are. What marginals noised cell by cell say of them, as adaptive rounds and earlier versions
bought them, is told by `counting.lifted`. Where entities were counted, the residuals are of entities: each counts
once, its rows alike.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.released import (
    RESIDUALS,
    WEIGHTS,
    counts_entities,
    released_residuals,
    released_tables,
)
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
    told, total = released_tables(measured, ROUNDING), measured.facts.get("public_total")
    if total is None:
        return told
    return replace(told, by_clique={**told.by_clique, (): Residual(np.array(float(total)), 0.0)})
