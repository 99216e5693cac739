"""round(H (mu + L z)) with z normal, exactly: correlated records on a public grid, without the marks floats leave.

Theorem. For any doubles mu and L taken as real numbers, each record has exactly the distribution of a true draw of
  N(mu, L L^T) times H rounded to integers: post-processing of the draw that `pseudo_records` accounts for. Nothing is
  truncated or approximated, so no term is owed to delta.
How. z_j is first known as a cell: Z_j = round(2^26 z_j), drawn exactly by `noise`. Where every point of the record's
  cells rounds to the same integers, with the error of the doubles allowed for (all but about one in 10^5), those are
  the result. Otherwise z_j is drawn within its cell, by rejection from the normal density, as a number whose bits are
  drawn when they are needed: a candidate is kept or thrown away, and a coordinate rounded, only when every
  continuation of the bits known so far gives the same answer; until then more are drawn.
Relation, sensitivity, noise unit. None: the randomness is that of the draw (`pseudo_records`).
Proof. docs/proofs/sampling-noise.md, section 5.
Reference. Lazy refinement as in `noise` (Knuth & Yao 1976); error of inner products: Higham 2002, section 3.1; Mironov
  2012 for what happens without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from mpmath import iv

from understudy.pipelines.privacy.noise.rounded import RandomSource, rounded_gaussian

CELLS = 2**26
_DOUBLE = 2.0**-53
_WORD = 64


def rounded_normals(
    rows: int, mean: np.ndarray, factor: np.ndarray, steps: int, randomness: RandomSource
) -> np.ndarray:
    """int64 of shape (rows, d): records of N(mean, factor factor^T) in units of 1/steps, rounded."""
    cells = rounded_gaussian((rows, len(mean)), float(CELLS), randomness)
    position = steps * (mean + cells.astype(np.float64) @ factor.T / CELLS)
    size = steps * (np.abs(mean) + np.abs(cells).astype(np.float64) @ np.abs(factor).T / CELLS)
    # An inner product of d terms, summed in any order, errs by at most d u / (1 - d u) of the sum of sizes, u = 2^-53;
    # the few operations around it, here and in `size`, add less than 8 u. Twice that is allowed for.
    float_error = 2 * (len(mean) + 8) * _DOUBLE
    reach = steps * np.abs(factor).sum(axis=1) / (2 * CELLS) * (1 + float_error) + float_error * (size + 1.0)
    rounded = np.floor(position + 0.5)
    unsure = np.abs(position - rounded) + reach >= 0.5
    records: np.ndarray = rounded.astype(np.int64)
    for row in np.flatnonzero(unsure.any(axis=1)):
        records[row] = _refined(cells[row], mean, factor, steps, randomness)
    return records


@dataclass
class _Bits:
    """A uniform number of [0, 1) known to `count` bits: it lies in [low, low + width]."""

    value: int = 0
    count: int = 0

    def more(self, randomness: RandomSource) -> None:
        self.value = (self.value << _WORD) | int(randomness.words(1)[0])
        self.count += _WORD

    @property
    def low(self) -> Fraction:
        return Fraction(self.value, 1 << self.count)

    @property
    def width(self) -> Fraction:
        return Fraction(1, 1 << self.count)


@dataclass(frozen=True)
class _Point:
    """A normal number in its cell: (cell - 1/2 + offset) / CELLS, the offset uniform given the bits known so far."""

    cell: int
    offset: _Bits

    def between(self) -> tuple[Fraction, Fraction]:
        low = self.cell - Fraction(1, 2) + self.offset.low
        return low / CELLS, (low + self.offset.width) / CELLS


def _refined(
    cells: np.ndarray, mean: np.ndarray, factor: np.ndarray, steps: int, randomness: RandomSource
) -> list[int]:
    points = [_point_in_cell(int(cell), randomness) for cell in cells]
    record: list[int] = []
    while len(record) < len(mean):
        row = factor[len(record)]
        low = high = Fraction(float(mean[len(record)]))
        for weight, point in zip(row, points, strict=True):
            ends = [Fraction(float(weight)) * end for end in point.between()]
            low, high = low + min(ends), high + max(ends)
        # The point itself lies below the upper end of its interval almost surely, so a boundary there belongs below.
        first, last = math.floor(steps * low + Fraction(1, 2)), math.ceil(steps * high + Fraction(1, 2)) - 1
        if low == high or first == last:
            record.append(first)
        else:
            for point, weight in zip(points, row, strict=True):
                if weight:
                    point.offset.more(randomness)
    return record


def _point_in_cell(cell: int, randomness: RandomSource) -> _Point:
    """A normal z given round(2^26 z) = cell: uniform in the cell, accepted by its density over the cell's largest."""
    while True:
        point, chance = _Point(cell, _Bits()), _Bits()
        while True:
            point.offset.more(randomness)
            chance.more(randomness)
            least, most = _acceptance(point)
            if chance.low + chance.width <= least:
                return point
            if chance.low >= most:
                break


def _acceptance(point: _Point) -> tuple[Fraction, Fraction]:
    """Bounds of exp(-(z^2 - nearest^2) / 2) over the point's interval, by interval arithmetic."""
    nearest = Fraction(max(abs(point.cell) - Fraction(1, 2), Fraction(0)), CELLS)
    ends = point.between()
    low = Fraction(0) if ends[0] <= 0 <= ends[1] else min(abs(end) for end in ends)
    high = max(abs(end) for end in ends)
    # 64 bits beyond those known, so that it is never the exponential that keeps a decision open.
    iv.prec = point.offset.count + 64
    return _exp(-(high**2 - nearest**2) / 2)[0], min(_exp(-(low**2 - nearest**2) / 2)[1], Fraction(1))


def _exp(exponent: Fraction) -> tuple[Fraction, Fraction]:
    interval = iv.exp(iv.mpf(exponent.numerator) / iv.mpf(exponent.denominator))
    return _fraction(interval.a), _fraction(interval.b)


def _fraction(end: object) -> Fraction:
    """An end of an mpmath interval as the dyadic number it is."""
    sign, mantissa, exponent, _ = end._mpi_[0]  # type: ignore[attr-defined]
    value = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -value if sign else value
