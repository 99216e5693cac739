"""Values of the column that orders siblings: within the bins of their codes, one after the other, with honest gaps.

Codes tell the bin of each value, and they never fall along siblings. Where in it a value lies is drawn from the first
sibling on: the next one lies a gap later, and of the gaps that lead into its bin one is drawn in proportion to f_k
times the length of gap bin k that leads there. Of some such values the one is taken from which gaps lead on to the next
sibling's bin, in proportion to how well they do. The f_k are scaled until gaps are as often in every bin as was
released: the distribution of greatest entropy about a uniform one. So every table of codes is kept, no value leaves the
domain, and none piles up at its end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.tree.generating.family_kernel import Families
from understudy.pipelines.table.coding.placing import place, tilts
from understudy.pipelines.table.columns import DomainColumn

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

ROUNDS = 12
MOST_STEP = 4.0
MOST_TRIED = 50_000
"""Rows that the scaling looks at."""
CANDIDATES = 6
FEW = 1.0
"""Roots by which a bin may be off before its factor follows."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Probabilities of the bins of gaps, between these edges in the column's units."""

    edges: FloatArray
    probabilities: FloatArray

    @property
    def density(self) -> FloatArray:
        return np.asarray(self.probabilities / np.maximum(np.diff(self.edges), 1e-300))


def draw_values(
    codes: Int32Array, column: DomainColumn, families: Families, gaps: Gaps | None, rng: np.random.Generator
) -> FloatArray:
    """The value of each row, in the units of the column; nan where a code is `other` or null."""
    known = codes < column.value_codes
    bins = np.where(known, codes, 0).astype(np.int64)
    tilt = tilts(bins[known], column)
    if gaps is None:
        values = place(bins, column, tilt, rng).astype(np.float64)
        values[~known] = np.nan
        return _ascending(values, families)
    chain = _Chain(bins, known, column, families, gaps.edges)
    alone = np.stack([place(bins, column, tilt, rng) for _ in range(CANDIDATES)]).astype(np.float64)
    alone[:, ~known] = np.nan
    positions = _positions(families)
    tried = positions if len(codes) <= MOST_TRIED else [rows[rows < MOST_TRIED] for rows in positions]
    factors = gaps.density
    for _ in range(ROUNDS):
        seen = chain.drawn(alone, tried, factors, rng)[1]
        wanted = float(seen.sum()) * gaps.probabilities
        step = (wanted + FEW) / (seen + FEW)
        factors = factors * np.clip(step, 1.0 / MOST_STEP, MOST_STEP)
    values, _ = chain.drawn(alone, positions, factors, rng)
    return values


class _Chain:
    """Draws values along siblings. Of some candidates that one is taken which leads well to the next sibling's bin."""

    def __init__(
        self,
        bins: Int64Array,
        known: npt.NDArray[np.bool_],
        column: DomainColumn,
        families: Families,
        edges: FloatArray,
    ) -> None:
        lows, highs = (ends.astype(np.float64) for ends in column.intervals())
        self._lows, self._highs = lows[bins], highs[bins]
        self._whole, self._edges = column.kind != "number", edges
        last = highs - 1.0 if self._whole else lows + (highs - lows) * (1.0 - 1e-12)
        self._lasts = np.maximum(last, lows)[bins]
        self._moves = np.append(known & families.follows[:-1] & (self._highs > self._lows), False)  # spikes stay
        self._moves[1:-1] &= known[:-1]
        self._weights = families.pair_weight.astype(np.float64)

    def drawn(
        self, alone: FloatArray, positions: list[Int64Array], factors: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Values of all rows, and the weight of gaps in each bin. `alone` are candidates by row alone."""
        values, seen = alone[0].copy(), np.zeros(len(factors))
        for place_, rows in enumerate(positions):
            candidates = alone[:, rows]
            if place_:
                follow = self._moves[rows]
                later = rows[follow]
                from_, reach, odds, total = self._odds(values[later - 1], later, factors)
                candidates[:, follow] = [
                    self._drawn_gap(values[later - 1], later, from_, reach, odds, total, rng) for _ in candidates
                ]
            values[rows] = self._chosen(candidates, rows, factors, rng)
            if place_:
                bins = np.searchsorted(self._edges[1:-1], values[later] - values[later - 1], side="right")
                seen += np.bincount(bins, self._weights[later], minlength=len(factors))
        return values, seen

    def _odds(
        self, before: FloatArray, rows: Int64Array, factors: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Of each bin of gaps that leads from the value before into the row's own bin: from where, how far, how likely;
        and the sum of the last."""
        least = np.maximum(self._lows[rows] - before, 0.0)
        most = np.maximum(self._highs[rows] - before, least)
        from_ = np.maximum(least[:, None], self._edges[:-1])
        reach = np.maximum(np.minimum(most[:, None], self._edges[1:]) - from_, 0.0)
        odds = reach * factors
        stuck = odds.sum(axis=1) <= 0.0  # nothing that was seen leads there: any gap does
        odds[stuck] = reach[stuck] * 1e-30
        return from_, reach, odds, np.maximum(odds.sum(axis=1), 1e-300)

    def _drawn_gap(
        self,
        before: FloatArray,
        rows: Int64Array,
        from_: FloatArray,
        reach: FloatArray,
        odds: FloatArray,
        total: FloatArray,
        rng: np.random.Generator,
    ) -> FloatArray:
        level = rng.random(len(rows)) * total
        chosen = np.minimum((np.cumsum(odds, axis=1) <= level[:, None]).sum(axis=1), odds.shape[1] - 1)
        index = np.arange(len(rows))
        gap = from_[index, chosen] + rng.random(len(rows)) * reach[index, chosen]
        value = before + (np.floor(gap) if self._whole else gap)
        return np.asarray(np.maximum(np.clip(value, self._lows[rows], self._lasts[rows]), before))

    def _chosen(
        self, candidates: FloatArray, rows: Int64Array, factors: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """One candidate of each row, in proportion to what leads from it into the next sibling's bin."""
        found: FloatArray = candidates[0].copy()
        leads = np.flatnonzero(self._moves[rows + 1])
        later = rows[leads] + 1
        weights = np.stack([self._odds(each[leads], later, factors)[3] for each in candidates])
        level = rng.random(len(leads)) * weights.sum(axis=0)
        pick = np.minimum((np.cumsum(weights, axis=0) <= level).sum(axis=0), len(candidates) - 1)
        found[leads] = candidates[pick, leads]
        return found


def _positions(families: Families) -> list[Int64Array]:
    """Rows by their place among siblings."""
    follows = families.follows[:-1]
    firsts = np.flatnonzero(~follows)
    index = np.arange(len(follows))
    place_ = index - firsts[np.cumsum(~follows) - 1] if len(follows) else index
    order = np.argsort(place_, kind="stable")
    ends = np.cumsum(np.bincount(place_)) if len(follows) else np.zeros(0, dtype=np.int64)
    return [np.sort(each) for each in np.split(order, ends[:-1])] if len(follows) else []


def _ascending(values: FloatArray, families: Families) -> FloatArray:
    """Values of the same siblings, sorted; nan comes last, as its codes do."""
    family = np.cumsum(~families.follows[:-1])
    order = np.lexsort((values, family))
    return np.asarray(values[order])
