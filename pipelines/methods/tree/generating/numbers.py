"""How many children a parent has: from the code of a level to a number.

Within a level numbers are spread as the noisy counts of parents by number say, pulled towards what a usual tail gives
as far as their noise deserves. Post-processing of released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.entity_rows import TAIL
from understudy.pipelines.methods.privpgd.shrinkage import shrink_by_expectation
from understudy.pipelines.methods.privpgd.start import draw

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


def numbers_in(most: Sequence[int]) -> list[range]:
    """The numbers that each code stands for, by the greatest of each; the first code stands for one number alone."""
    return [range(most[0], most[0] + 1), *(range(a + 1, b + 1) for a, b in pairwise(most))]


def shares_within(most: Sequence[int], noisy: FloatArray | None, std: float) -> list[FloatArray]:
    """Of every code, the probabilities of its numbers. `noisy` are parents by number, from 0 on."""
    usual = []
    for numbers in numbers_in(most):
        tail = np.power(np.maximum(np.array(numbers, dtype=np.float64), 1.0), -TAIL)
        usual.append(tail / tail.sum())
    if noisy is None:
        return usual
    found = list(usual)
    for code, numbers in enumerate(numbers_in(most)):
        if len(numbers) < 2:
            continue
        known = noisy[numbers.start : numbers.stop]
        parents = float(known.sum())
        if parents < 1.0:
            continue
        expected = parents * usual[code]
        beside = known - expected
        kept = expected + shrink_by_expectation(beside, expected, max(std, 1e-9) ** 2).interaction
        kept = np.maximum(kept, 0.0)
        if kept.sum() > 0.0:
            found[code] = kept / kept.sum()
    return found


def draw_numbers(
    codes: Int32Array, most: Sequence[int], shares: Sequence[FloatArray], rng: np.random.Generator
) -> Int64Array:
    """A number for every code."""
    numbers = np.empty(len(codes), dtype=np.int64)
    for code, (within, share) in enumerate(zip(numbers_in(most), shares, strict=True)):
        rows = np.flatnonzero(codes == code)
        if len(rows):
            numbers[rows] = within.start + draw(share, len(rows), rng)
    return numbers


def codes_of_numbers(numbers: Int64Array, most: Sequence[int]) -> Int32Array:
    return np.searchsorted(np.array(most), numbers).astype(np.int32)
