"""round(H (mu + L z)) with z normal, exactly: correlated records on a public grid, without the marks floats leave.

Theorem. For any doubles mu and L taken as real numbers, each record has the distribution of a true draw of
  N(mu, L L^T) times H rounded to integers: post-processing of the draw that `pseudo_records` accounts for.
How. z_j is first known as a cell: Z_j = round(2^26 z_j), drawn exactly by `noise`. Where every point of the record's
  cells rounds to the same integers (all but about one in 10^5), those are the result. Otherwise z_j is drawn within
  its cell, by rejection from the normal density to 64 bits, and the rounding is decided in rational arithmetic.
  Two approximations remain: the 64 bits of a refined point and the rounding of its acceptance probability, together
  below 2^-40 on an event of probability 10^-5. Every normal draw costs the same steps whatever the data.
Reference. Lazy refinement as in `noise`; Mironov 2012 for what happens without it.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from understudy.pipelines.privacy.noise.rounded import RandomSource, rounded_gaussian

CELLS = 2**26
_FLOAT_ERROR = 2.0**-44  # relative; doubles commit below 2^-48 on sums of a few hundred terms


def rounded_normals(
    rows: int, mean: np.ndarray, factor: np.ndarray, steps: int, randomness: RandomSource
) -> np.ndarray:
    """int64 of shape (rows, d): records of N(mean, factor factor^T) in units of 1/steps, rounded."""
    cells = rounded_gaussian((rows, len(mean)), float(CELLS), randomness)
    position = steps * (mean + cells.astype(np.float64) @ factor.T / CELLS)
    size = steps * (np.abs(mean) + np.abs(cells).astype(np.float64) @ np.abs(factor).T / CELLS)
    reach = steps * np.abs(factor).sum(axis=1) / (2 * CELLS) + _FLOAT_ERROR * (size + 1.0)
    rounded = np.floor(position + 0.5)
    unsure = np.abs(position - rounded) + reach >= 0.5
    records = rounded.astype(np.int64)
    for row in np.flatnonzero(unsure.any(axis=1)):
        records[row] = _refined(cells[row], mean, factor, steps, randomness)
    return records


def _refined(
    cells: np.ndarray, mean: np.ndarray, factor: np.ndarray, steps: int, randomness: RandomSource
) -> list[int]:
    points = [_point_in_cell(int(cell), randomness) for cell in cells]
    record = []
    for i in range(len(mean)):
        value = Fraction(float(mean[i])) + sum(Fraction(float(w)) * z for w, z in zip(factor[i], points, strict=True))
        record.append(math.floor(steps * value + Fraction(1, 2)))
    return record


def _point_in_cell(cell: int, randomness: RandomSource) -> Fraction:
    """A normal z given round(2^26 z) = cell: uniform in the cell, accepted by its density over the cell's largest."""
    nearest = max(abs(cell) - 0.5, 0.0)
    while True:
        place, chance = (int(word) for word in randomness.words(2))
        offset = Fraction(2 * place + 1, 2**65) - Fraction(1, 2)
        away = abs(cell + offset)
        fall = float((away * away - Fraction(nearest) ** 2) / (2 * CELLS * CELLS))
        if chance < math.exp(-fall) * 2.0**64:
            return (cell + offset) / CELLS
