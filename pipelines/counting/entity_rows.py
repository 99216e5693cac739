"""From counted entities back to rows: what released ticks (weights.py) say of the rows there are.

An entity of m rows adds m floor(W/m) ticks, so a tick in the cell of m stands for 1 / floor(W/m) rows, exactly: what
rounding down loses is given back. Levels join several m; how many rows an entity counted in a level stands for is the
mean over the noisy numbers of entities by m, pulled towards what a usual tail gives as far as its noise deserves. So
rows over some columns are the released entities over those columns and the level, each level times its rows, where
that was measured. Everything here is post-processing of released numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.counting.workload import Clique

FloatArray = npt.NDArray[np.float64]

TAIL = 2.0
"""Numbers of rows are taken to fall as this power, within a level, before anything is known."""

TAIL_TRUST = 0.1
"""How far the mean of a level may lie from that, as a part of it (a standard deviation)."""


@dataclass(frozen=True, eq=False)
class EntityResiduals:
    """What was released of entities, in entities: `residuals` have the level as their last column.

    `numbers` are noisy entities by their number of rows, each with noise of `numbers_std`; None where levels tell it.
    """

    residuals: Residuals
    weights: EntityWeights
    numbers: FloatArray | None = None
    numbers_std: float = 0.0

    @property
    def level(self) -> int:
        return len(self.residuals.sizes) - 1

    @property
    def entities(self) -> float:
        return self.residuals.total

    @property
    def asked(self) -> tuple[Clique, ...]:
        """The marginals over columns, without the level."""
        return tuple(clique for clique in self.residuals.asked if self.level not in clique)

    @property
    def rows(self) -> float:
        """How many rows there are, by the levels."""
        return float(np.maximum(self.residuals.marginal((self.level,)), 0.0) @ self.rows_each)

    @cached_property
    def rows_each(self) -> FloatArray:
        """The rows that an entity counted in each level stands for."""
        found = [self._rows_in(level, numbers) for level, numbers in enumerate(self.weights.numbers_in)]
        return np.array(found)

    def _rows_in(self, level: int, numbers: range) -> float:
        m = np.array(numbers)
        rows = self.weights.ticks / self.weights.ticks_of(m)
        tail = np.power(m, -TAIL)
        usual = float(rows @ tail / tail.sum())
        if self.numbers is None or len(m) == 1:
            return usual
        known = self.numbers[m - 1]
        entities = max(float(known.sum()), float(self.residuals.marginal((self.level,))[level]), 1.0)
        measured = usual + float(known @ (rows - usual)) / entities
        noise = self.numbers_std * math.sqrt(float(np.square(rows - usual).sum())) / entities
        trust = (TAIL_TRUST * usual) ** 2
        mean = (measured * trust + usual * noise**2) / (trust + noise**2)
        return float(np.clip(mean, rows[0], rows[-1]))

    def row_counts(self, clique: Clique) -> FloatArray:
        """Estimated rows over columns that were measured with the level; unbiased but for the rows of a level."""
        return self.residuals.marginal((*clique, self.level)) @ self.rows_each

    def row_variance(self, clique: Clique) -> float:
        """Of the noise in each of those cells.

        A residual without the level is spread evenly over it and counts the mean of the levels' rows; one with it is
        centred along it and counts how far they lie from their mean.
        """
        each = self.rows_each
        mean, spread = float(each.mean()), float(np.square(each - each.mean()).sum())
        return math.fsum(
            times * self._lifted(subset, clique, with_level)
            for subset in subsets(clique)
            for with_level, times in ((False, mean**2), (True, spread))
        )

    def _lifted(self, subset: Clique, clique: Clique, with_level: bool) -> float:
        residual = self.residuals.by_clique.get((*subset, self.level) if with_level else subset)
        if residual is None:
            return 0.0
        sizes = self.residuals.sizes
        kept = math.prod(1 - 1 / sizes[column] for column in subset)
        return residual.std**2 * kept / math.prod(sizes[column] ** 2 for column in clique if column not in subset)
