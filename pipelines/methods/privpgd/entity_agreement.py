"""How far a synthetic table of rows lies from released counts of entities, and how far their noise lets it lie.

Noisy entities over some columns are carried over to rows by the ratio of the fitted tables (row_targets.py), cell by
cell, and so is their noise. Post-processing of released numbers.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.pipelines.counting.copies import counts_of
from understudy.pipelines.counting.entity_rows import EntityResiduals
from understudy.pipelines.counting.released import title
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.methods.privpgd.problem import grid_of
from understudy.pipelines.methods.privpgd.row_targets import row_tables
from understudy.pipelines.table.synthetic import Synthetic


def entity_agreement(synthetic: Synthetic, counted: EntityResiduals, slack: float, deviations: int) -> list[Agreement]:
    """Of every marginal that was asked for. `deviations` of the noise are allowed, and `slack` beside."""
    domain, rows = synthetic.domain, max(1, synthetic.rows)
    tables, merged = row_tables(counted, grid_of(domain))
    residuals, entities = counted.residuals, max(1.0, counted.entities)
    found = []
    for clique, fitted in zip(counted.asked, counts_of(synthetic, list(counted.asked)), strict=True):
        ratio, std = tables[clique].over_entities, math.sqrt(residuals.variance(clique))
        for axis, column in enumerate(clique):
            if column in merged:
                ratio = np.take(ratio, merged[column].of, axis=axis)
        noisy = residuals.marginal(clique) / entities * ratio
        independent = residuals.noise_cells(clique) * float(np.square(ratio).mean())
        mean, deviation = ratio.sum() * math.sqrt(2 / math.pi), math.sqrt(independent * (1 - 2 / math.pi))
        allowed = std * (mean + deviations * deviation) / 2 / entities + slack
        distance = float(np.abs(fitted / rows - noisy).sum() / 2)
        found.append(Agreement(title(clique, domain), distance, float(allowed)))
    return found
