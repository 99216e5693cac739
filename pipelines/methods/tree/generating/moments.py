"""Values of the column that orders siblings: within the bins of their codes, one after the other, with honest gaps.

Codes tell the bin of each value, and they never fall along siblings. Where in it a value lies is drawn from the first
sibling on: the next one lies a gap later, and of the gaps that lead into its bin one is drawn in proportion to f_k
times the length of gap bin k that leads there, where f_k depends on the columns that tell most of the gap. Of some such
values the one is taken from which gaps lead on to the next sibling's bin, in proportion to how well they do. The f_k
are scaled until gaps are as often in every bin, and by those columns, as was released: the distribution of greatest
entropy about a uniform one. So every table of codes is kept, no value leaves the domain, and none piles up at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.tree.generating.family_kernel import Families
from understudy.pipelines.table.coding.placing import place, tilts
from understudy.pipelines.table.columns import DomainColumn

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

ROUNDS = 16
DAMPING = 0.5
MOST_STEP = 4.0
MOST_TRIED = 50_000
"""Rows that the scaling looks at."""
CANDIDATES = 6
FEW = 1.0
"""Roots by which a bin may be off before its factor follows."""


@dataclass(frozen=True, eq=False)
class GapTarget:
    """Probabilities [codes, bins] of gaps by the code that the later sibling has in a column, or by none: [1, bins].

    Bins of gaps lie between the edges, in the units of the column that orders.
    """

    column: int | None
    edges: FloatArray
    probabilities: FloatArray

    def codes(self, codes: Int32Array) -> Int32Array:
        return np.zeros(len(codes), dtype=np.int32) if self.column is None else codes[:, self.column]


def draw_values(
    codes: Int32Array,
    ordered: int,
    column: DomainColumn,
    families: Families,
    gaps: Sequence[GapTarget],
    rng: np.random.Generator,
) -> FloatArray:
    """The value of each row, in the units of the column; nan where a code is `other` or null.

    `ordered` is the place of the column among `codes`; the first of `gaps` is of gaps by themselves.
    """
    own = codes[:, ordered]
    known = own < column.value_codes
    bins = np.where(known, own, 0).astype(np.int64)
    tilt = tilts(bins[known], column)
    if not gaps:
        values = place(bins, column, tilt, rng).astype(np.float64)
        values[~known] = np.nan
        return _ascending(values, families)
    chain = _Chain(bins, known, column, families, gaps[0].edges)
    alone = np.stack([place(bins, column, tilt, rng) for _ in range(CANDIDATES)]).astype(np.float64)
    alone[:, ~known] = np.nan
    positions = by_place(families)
    tried = positions if len(codes) <= MOST_TRIED else [rows[rows < MOST_TRIED] for rows in positions]
    factors = _Factors(gaps, codes)
    for _ in range(ROUNDS):
        factors.follow(*chain.gaps(chain.drawn(alone, tried, factors, rng), min(len(codes), MOST_TRIED)))
    return chain.drawn(alone, positions, factors, rng)


class _Factors:
    """How much likelier gaps of each bin are than by their length alone: a product over the tables of gaps."""

    def __init__(self, gaps: Sequence[GapTarget], codes: Int32Array) -> None:
        self._codes = [each.codes(codes) for each in gaps]
        wanted = [each.probabilities for each in gaps]
        self._wanted = [each / np.maximum(each.sum(axis=1, keepdims=True), 1e-300) for each in wanted]
        widths = np.maximum(np.diff(gaps[0].edges), 1e-300)
        self._tables = [self._wanted[0] / widths, *(np.ones_like(each) for each in self._wanted[1:])]

    @property
    def bins(self) -> int:
        return int(self._tables[0].shape[1])

    def of(self, rows: Int64Array) -> FloatArray:
        """For every row, those of the bins of the gap before it."""
        found: FloatArray = self._tables[0][np.zeros(len(rows), dtype=np.intp)]
        for codes, table in zip(self._codes[1:], self._tables[1:], strict=True):
            found = found * table[codes[rows]]
        return found

    def follow(self, rows: Int64Array, bins: Int64Array, weights: FloatArray) -> None:
        """Scale them by what is missing, table by table, given the gaps that they led to."""
        for place_, (codes, wanted) in enumerate(zip(self._codes, self._wanted, strict=True)):
            cells = codes[rows].astype(np.int64) * self.bins + bins
            seen = np.bincount(cells, weights, minlength=wanted.size).reshape(wanted.shape)
            missing = (seen.sum(axis=1, keepdims=True) * wanted + FEW) / (seen + FEW)
            step = np.clip(missing, 1.0 / MOST_STEP, MOST_STEP)
            self._tables[place_] = self._tables[place_] * np.power(step, DAMPING)


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
        self, alone: FloatArray, positions: list[Int64Array], factors: _Factors, rng: np.random.Generator
    ) -> FloatArray:
        """Values of the rows at these positions, of which `alone` are candidates by row alone."""
        values: FloatArray = alone[0].copy()
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
        return values

    def gaps(self, values: FloatArray, first: int) -> tuple[Int64Array, Int64Array, FloatArray]:
        """Of the first rows those that follow, the bins of the gaps before them, and what these weigh."""
        rows = np.flatnonzero(self._moves[:first])
        bins = np.searchsorted(self._edges[1:-1], values[rows] - values[rows - 1], side="right")
        return rows, bins, self._weights[rows]

    def _odds(
        self, before: FloatArray, rows: Int64Array, factors: _Factors
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Of each bin of gaps that leads from the value before into the row's own bin: from where, how far, how likely;
        and the sum of the last."""
        least = np.maximum(self._lows[rows] - before, 0.0)
        most = np.maximum(self._highs[rows] - before, least)
        from_ = np.maximum(least[:, None], self._edges[:-1])
        reach = np.maximum(np.minimum(most[:, None], self._edges[1:]) - from_, 0.0)
        odds = reach * factors.of(rows)
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
        self, candidates: FloatArray, rows: Int64Array, factors: _Factors, rng: np.random.Generator
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


def by_place(families: Families) -> list[Int64Array]:
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
