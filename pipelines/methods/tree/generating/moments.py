"""Values of the column that orders siblings: within the bins of their codes, one after the other, with honest gaps.

Codes tell the bin of each value, and they never fall along siblings. Where in it a value lies is drawn from the first
sibling on: the next one lies a gap later, and of the gaps that lead into its bin one is drawn in proportion to f_k
times the length of gap bin k that leads there. The f_k are scaled until gaps are as often in every bin as was released
(iterative proportional fitting, on the expected numbers): the distribution of greatest entropy about a uniform one. So
every table of codes is kept, no value leaves the domain, and none piles up at its end.
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
MOST_TRIED = 100_000
"""Rows that the scaling looks at."""


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
    first = place(bins, column, tilts(bins[known], column), rng).astype(np.float64)
    first[~known] = np.nan
    positions = _positions(families)
    if gaps is None:
        return _ascending(first, families)
    chain = _Chain(bins, known, column, families, gaps.edges)
    factors = gaps.density
    tried = positions if len(codes) <= MOST_TRIED else [rows[rows < MOST_TRIED] for rows in positions]
    for _ in range(ROUNDS):
        expected = chain.drawn(first.copy(), tried, factors, rng)
        total = float(expected.sum())
        if total <= 0.0:
            break
        wanted = total * gaps.probabilities
        step = np.divide(wanted, expected, out=np.ones_like(wanted), where=expected > 0.0)
        factors = factors * np.clip(step, 1.0 / MOST_STEP, MOST_STEP)
    chain.drawn(first, positions, factors, rng)
    return first


class _Chain:
    """Draws values along siblings, given those of the first ones."""

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
        self._moves = known & families.follows[:-1] & (self._highs > self._lows)  # spikes stay where they are
        self._moves[1:] &= known[:-1]
        self._weights = families.pair_weight.astype(np.float64)

    def drawn(
        self, values: FloatArray, positions: list[Int64Array], factors: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Set the values of all rows that follow, in place; returns the expected weight of gaps in each bin."""
        expected = np.zeros(len(factors))
        for rows in positions[1:]:
            rows = rows[self._moves[rows]]
            before = values[rows - 1]
            least = np.maximum(self._lows[rows] - before, 0.0)
            most = np.maximum(self._highs[rows] - before, least)
            from_ = np.maximum(least[:, None], self._edges[:-1])
            reach = np.maximum(np.minimum(most[:, None], self._edges[1:]) - from_, 0.0)
            odds = reach * factors
            total = odds.sum(axis=1)
            stuck = total <= 0.0  # nothing that was seen leads there: any gap does
            odds[stuck], total[stuck] = reach[stuck], np.maximum(reach[stuck].sum(axis=1), 1e-300)
            expected += self._weights[rows] @ (odds / total[:, None])
            level = rng.random(len(rows)) * total
            chosen = np.minimum((np.cumsum(odds, axis=1) <= level[:, None]).sum(axis=1), len(factors) - 1)
            index = np.arange(len(rows))
            gap = from_[index, chosen] + rng.random(len(rows)) * reach[index, chosen]
            value = before + (np.floor(gap) if self._whole else gap)
            last = self._highs[rows] - 1.0 if self._whole else np.nextafter(self._highs[rows], -np.inf)
            values[rows] = np.maximum(np.clip(value, self._lows[rows], last), before)
        return expected


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
