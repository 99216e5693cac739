"""Whether the intervals that a release gives hold what the private table itself counts: for the owner's eyes alone."""

from __future__ import annotations

import math

import numpy as np

from understudy.pipelines.counting.released import WEIGHTS, counts_entities
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.inference.answers import LEVEL
from understudy.pipelines.inference.intervals import deviations
from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.publishing.measured import read_measured, told_of
from understudy.pipelines.publishing.stored import StoredRelease

MOST_CELLS = 2_000_000


def intervals_held(stored: StoredRelease, table: PrivateTable) -> str | None:
    """Over the cells of all measured columns and pairs, narrow ones first; None where a release has no measurements."""
    measured = read_measured(stored.trusted)
    if measured is None:
        return None
    told = told_of(measured).residuals
    cells = {clique: math.prod(told.sizes[c] for c in clique) for clique in told.by_clique if len(clique) in (1, 2)}
    cliques = sorted(cells, key=lambda clique: (cells[clique], clique))
    cliques = [clique for clique, total in zip(cliques, np.cumsum([cells[c] for c in cliques]), strict=True)
               if total <= MOST_CELLS]  # fmt: skip
    if counts_entities(measured.measurement):
        weights = EntityWeights.from_facts(measured.measurement.facts[WEIGHTS])
        exact = [counts / weights.ticks for counts in table.counts(cliques, weights)]
    else:
        exact = [counts.astype(float) for counts in table.counts(cliques)]
    held = many = 0
    for clique, counts in zip(cliques, exact, strict=True):
        off = deviations(LEVEL) * math.sqrt(told.variance(clique))
        held += int((np.abs(told.marginal(clique) - counts.reshape(told.marginal(clique).shape)) <= off).sum())
        many += counts.size
    share = f"{held / many:.1%} of {many:,} cells" if many else "no cell"
    return f"{LEVEL:.0%} intervals of counts held what the table counts in {share} of its columns and pairs"
