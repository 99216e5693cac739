"""How likely the bin of a value is given that of the sibling before it, as far as gaps between siblings tell.

The pair of the two bins has many cells and is seen through noise; gaps are seen well. So the pair is estimated as what
the gaps lead to: of all distributions of (bin before, gap, bin) with the measured bins and gaps the one of greatest
entropy about siblings that lie evenly within their bins, found by iterative proportional fitting. What was measured of
the pair itself is kept beside it as far as its noise deserves. Post-processing of released numbers.

Reference. Csiszar 1975, I-divergence geometry of probability distributions, for the fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.merging import ROWS_A_CELL
from understudy.pipelines.methods.privpgd.shrinkage import shrink_by_expectation
from understudy.pipelines.methods.privpgd.start import draw
from understudy.pipelines.methods.tree.generating.family_kernel import Families
from understudy.pipelines.methods.tree.generating.fitting import LagTarget
from understudy.pipelines.methods.tree.generating.moments import by_place
from understudy.pipelines.table.columns import DomainColumn

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]

ROUNDS = 60
SHARES = 16
"""Places in a bin from which gaps are followed."""
LEAST = 1e-12
WORTH, RARE = 3.0, 0.001
"""Roots for each factor of e, and a share that every bin has. Chosen on the made rows of the tests, so that as many
neighbours lie far apart after the fit as the table says (tests/methods/tree/test_gap_codes.py)."""


def led_by_gaps(
    before: FloatArray, own: FloatArray, gaps: FloatArray, edges: FloatArray, column: DomainColumn
) -> FloatArray:
    """Probabilities [bin before, bin], given those of the bins and of the gaps between the edges."""
    led = _leads(column, edges)
    joint = led.copy()
    for _ in range(ROUNDS):
        for axis, wanted in enumerate((before, gaps, own)):
            others = tuple(other for other in range(3) if other != axis)
            factor = wanted / np.maximum(joint.sum(axis=others), LEAST)
            joint = joint * np.expand_dims(factor, others)
    found = np.asarray(joint.sum(axis=1))
    return found / max(float(found.sum()), LEAST)


def beside_gaps(led: FloatArray, counts: FloatArray, variance: float, total: float) -> FloatArray:
    """The pair as gaps lead to it, and as much of what was measured otherwise as its noise leaves."""
    expected = led * total
    kept = expected + shrink_by_expectation(counts - expected, np.maximum(expected, LEAST), variance).interaction
    kept = np.maximum(kept, 0.0)
    return np.asarray(kept / max(float(kept.sum()), LEAST))


def surprise_of(table: FloatArray, roots: float) -> FloatArray | None:
    """What each cell costs by itself in the fit, in roots, where the table has too many cells for its gaps to tell."""
    if roots >= ROWS_A_CELL * table.size:
        return None
    given = table / np.maximum(table.sum(axis=1, keepdims=True), LEAST)
    return np.asarray(-WORTH * np.log((1.0 - RARE) * given + RARE / table.shape[1]))


def follow(
    codes: Int32Array,
    ordered: int,
    first: FloatArray | None,
    families: Families,
    lags: Sequence[LagTarget],
    rng: np.random.Generator,
) -> None:
    """Redraw the bins of siblings one after the other, in place, those of the first from their own shares if these are
    given: where the fit starts from."""
    table = next((lag.probabilities for lag in lags if lag.before == lag.own == ordered), None)
    if table is None:
        return
    places, odds = by_place(families), np.cumsum(table, axis=1)
    if first is not None and len(places):
        codes[places[0], ordered] = draw(first, len(places[0]), rng)
    for rows in places[1:]:
        line = odds[codes[rows - 1, ordered]]
        level = rng.random(len(rows)) * line[:, -1]
        drawn = np.minimum((line <= level[:, None]).sum(axis=1), table.shape[1] - 1)
        codes[rows, ordered] = np.where(line[:, -1] > 0.0, drawn, codes[rows - 1, ordered])


def _leads(column: DomainColumn, edges: FloatArray) -> FloatArray:
    """[bin before, gap, bin]: how often a gap of its bin leads from a value of one bin into another."""
    lows, highs = (ends.astype(np.float64) for ends in column.intervals())
    shares = (np.arange(SHARES) + 0.5) / SHARES
    starts = lows[:, None] + (highs - lows)[:, None] * shares
    width = np.maximum(np.diff(edges), LEAST)
    found = np.zeros((len(lows), len(edges) - 1, len(lows)))
    for share in range(SHARES):
        from_ = starts[:, share, None, None]
        least = np.maximum(lows[None, None, :] - from_, edges[None, :-1, None])
        most = np.minimum(highs[None, None, :] - from_, edges[None, 1:, None])
        found += np.maximum(most - least, 0.0) / width[None, :, None]
    return found / SHARES
