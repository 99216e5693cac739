"""Noisy residuals: of every marginal only what its sub-marginals do not tell, so that no sum is paid for twice.

Theorem. Let v_A be the integer counts over the columns A, of sizes n_i, and G_A = prod_(i in A) n_i. Release, for every
  A of some column sets, D(G_A v_A + Z_A), Z_A = round(N(0, std_A^2)) independent per cell, where D takes differences
  along each axis. D does not see what is constant along an axis, so a unit moves a release as if G_A v_A had moved by
  the *integer* tensor w_A = G_A (the unit's rows, centred along every axis). Hence all of them together are
  post-processing of one Gaussian mechanism, Gaussian(z) with z = 1 / sqrt(sum_A |w_A|^2 / std_A^2), exactly, for any
  number of column sets. The event claims z rounded down, computed from the stds that are drawn with.
Relation, sensitivity. |w_A|^2 is at most `moved_square`. For a unit of k rows: k^2 G_A^2 prod (1 - 1/n_i) (ADD_REMOVE);
  k^2 times the largest 2 G_A^2 (prod (1 - 1/n_i) - prod (a_i - 1/n_i)) over the 0/1 patterns a of columns in which two
  rows agree (REPLACE_ONE; a unit may bring no row at all, so it is at least the number before).
Noise unit. `stds` are standard deviations of G_A times a count, per cell, before differences are taken.
Beside. Plain tables of disjoint cells (charged statistics) may be released in the same event: counting/mechanism.py.
Proof. docs/proofs/residuals.md.
Reference. Xiao, He, Zhang & Kifer 2023 (ResidualPlanner), which residuals answer which marginals; in integers here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from understudy.pipelines.counting.mechanism import MarginalNoise, event_at
from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.noise.rounded import RandomSource, discrete_gaussian, rounded_gaussian
from understudy.pipelines.privacy.relation import Relation, Unit, counts_sensitivity
from understudy.pipelines.privacy.rounding import CLAIMED_BITS, Number, root_down, root_up, sum_of_ratios

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ResidualNoise:
    """How residuals over axes of the sizes in `shapes` are noised, and the plain tables released beside them."""

    shapes: tuple[Shape, ...]
    stds: tuple[float, ...]
    relation: Relation
    unit: Unit
    sampler: str = "rounded"
    beside: MarginalNoise | None = None

    @property
    def event(self) -> Event:
        square = sum_of_ratios(self._moves())
        return event_at(root_down(1 / square, CLAIMED_BITS), self.sampler)

    def _moves(self) -> Iterator[tuple[Number, Number]]:
        """What a unit moves, squared, and the std of the noise: of every table."""
        for shape, std in zip(self.shapes, self.stds, strict=True):
            yield moved_square(shape, self.relation, self.unit), std
        if self.beside is not None:
            sensitivity = Fraction(counts_sensitivity(self.beside.relation, self.beside.unit.max_rows))
            yield from ((self.beside.stacked * sensitivity**2, std) for std in self.beside.stds)

    def draw(self, exact: Mapping[str, np.ndarray], randomness: RandomSource) -> dict[str, np.ndarray]:
        """Noisy int64 differences of each table in the order of `shapes`, then the noisy counts of those beside.

        Sums beyond 64 bits wrap around, which is post-processing too: no table can make this fail.
        """
        tables = list(exact.items())
        sample = rounded_gaussian if self.sampler == "rounded" else discrete_gaussian
        drawn = {}
        for (name, counts), shape, std in zip(tables[: len(self.shapes)], self.shapes, self.stds, strict=True):
            noisy = math.prod(shape) * counts.astype(np.int64).reshape(shape) + sample(shape, std, randomness)
            drawn[name] = differences(noisy).reshape(-1)
        if self.beside is not None:
            drawn |= self.beside.draw(dict(tables[len(self.shapes) :]), randomness)
        return drawn


def differences(table: np.ndarray) -> np.ndarray:
    """Differences along every axis: all that is released of a noisy table. One without axes is released as it is."""
    for axis in range(table.ndim):
        table = np.diff(table, axis=axis)
    return table


def moved_square(shape: Shape, relation: Relation, unit: Unit) -> int:
    """The most that one unit moves G times the centred counts, as a squared L2 norm; a whole number.

    A row in cell c moves them by w_c = G prod (e_c - 1/n), and <w_c, w_d> = G^2 prod (a_i - 1/n_i) where a_i says
    whether c and d agree along axis i. A unit's rows lie in k times the convex hull of the w_c and of 0, so that single
    cells are the worst case.
    """
    alone = _inner(shape, (1,) * len(shape))
    worst = alone
    if relation is Relation.REPLACE_ONE:
        patterns = product((0, 1), repeat=len(shape))
        possible = (p for p in patterns if all(agree or size > 1 for agree, size in zip(p, shape, strict=True)))
        replaced = max(2 * (alone - _inner(shape, pattern)) for pattern in possible)
        worst = max(alone, replaced)  # a replaced unit may bring no row at all; without axes that is all it can move
    return unit.max_rows**2 * worst


def _inner(shape: Shape, agree: Sequence[int]) -> int:
    """<w_c, w_d> of two cells that agree along these axes: G^2 prod (a_i - 1/n_i) = prod n_i (n_i a_i - 1)."""
    return math.prod(size * (size * same - 1) for size, same in zip(shape, agree, strict=True))


def residual_noise(
    shapes: Sequence[Shape],
    shares: Sequence[float],
    beside: Sequence[float],
    noise_multiplier: float,
    relation: Relation,
    unit: Unit,
    sampler: str,
) -> ResidualNoise:
    """The noise at which residuals and tables beside them, with these shares of the budget, are together Gaussian(z).

    With std_A^2 = z^2 |w_A|^2 / share_A, rounded up, sum |w_A|^2 / std_A^2 <= (sum of the shares) / z^2. Shares sum to
    1 but for rounding, and are divided by their sum.
    """
    total = sum((Fraction(share) for share in (*shares, *beside)), Fraction(0))
    square = Fraction(noise_multiplier) ** 2 * total
    stds = tuple(
        root_up(square * moved_square(shape, relation, unit) / Fraction(share))
        for shape, share in zip(shapes, shares, strict=True)
    )
    plain = square * Fraction(counts_sensitivity(relation, unit.max_rows)) ** 2
    others = MarginalNoise(tuple(root_up(plain / Fraction(share)) for share in beside), relation, unit, sampler)
    return ResidualNoise(tuple(shapes), stds, relation, unit, sampler, others if beside else None)
