"""Which records enter which mixture, drawn exactly from uniform words.

Poisson. Theorem: each of the n records enters each of the m mixtures independently with probability exactly
  `rate`. The n*m coins are laid out record after record; the gaps between successive heads are geometric,
  P(gap >= g) = (1 - rate)^g, so gap = floor(log U / log(1 - rate)) for uniform U. A 64-bit word gives U up
  to an interval; the gap is accepted when every U in it, with the logarithms' error bounded a hundredfold,
  has the same floor. The rest is decided with more bits in exact arithmetic. Record order makes neighbours
  comparable: a further record at the end leaves the coins of all others as they were.
Fixed size. Theorem: each mixture is a uniform `order`-subset of a population of public minimum size: a
  class below the minimum is filled up with zero records, so the inclusion probability never exceeds
  order/minimum, whatever the data. Floyd's algorithm; uniform integers by multiplication with rejection,
  unbiased.
Relation, sensitivity, noise unit. No noise is added here; `mixing.mechanism` and `kernel.mechanism` say what a record
  that is drawn or not does to what they release, under their relation.
Proof. docs/proofs/sampling.md.
Reference. Devroye 1986, II.2 and X.2; Bentley & Floyd 1987; Lemire 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
import numba
import numpy as np

from understudy.pipelines.privacy.noise.rounded import GUARD_BITS, MPMATH_SLACK, RandomSource

_RELATIVE_ERROR = 1e-13  # of the quotient of two logarithms in doubles; libm is within a few ulp


@dataclass(frozen=True)
class Draw:
    """Members of mixture t are `members[starts[t]:starts[t + 1]]`, positions within the class."""

    starts: np.ndarray
    members: np.ndarray


def poisson_draw(records: int, mixtures: int, rate: float, randomness: RandomSource) -> Draw:
    if not 0 < rate <= 1:
        raise ValueError("a sampling rate lies in (0, 1]")
    heads = _heads(records * mixtures, rate, randomness)
    mixture = heads % mixtures
    starts = np.zeros(mixtures + 1, dtype=np.int64)
    np.cumsum(np.bincount(mixture, minlength=mixtures), out=starts[1:])
    members = np.empty(len(heads), dtype=np.int64)
    _group(heads, mixtures, starts[:-1].copy(), members)
    return Draw(starts, members)


def fixed_draw(records: int, mixtures: int, order: int, minimum: int, randomness: RandomSource) -> Draw:
    """Positions at or above `records` are the zero records that fill a small class up."""
    population = max(records, minimum)
    if not 1 <= order <= minimum:
        raise ValueError("the order must lie between 1 and the minimum class size")
    words = randomness.words(mixtures * order)
    members = np.empty(mixtures * order, dtype=np.int64)
    rejected = _floyd(words, mixtures, order, population, members)
    while len(rejected):  # about one word in 10^15
        words = words.copy()
        words[rejected] = randomness.words(len(rejected))
        rejected = _floyd(words, mixtures, order, population, members)
    return Draw(np.arange(mixtures + 1, dtype=np.int64) * order, members)


def _heads(coins: int, rate: float, randomness: RandomSource) -> np.ndarray:
    """Positions of the heads among `coins` independent coins, ascending."""
    if rate == 1.0:
        return np.arange(coins, dtype=np.int64)
    found: list[np.ndarray] = []
    position = -1
    while True:
        expected = (coins - 1 - position) * rate
        words = randomness.words(int(expected + 6 * expected**0.5) + 16)
        gaps, certain = _certified_gaps(words, rate)
        for index in np.flatnonzero(~certain):
            gaps[index] = _exact_gap(int(words[index]), rate, coins, randomness)
        heads = position + np.cumsum(np.minimum(gaps, coins) + 1)
        stop = int(np.searchsorted(heads, coins))
        found.append(heads[:stop])
        if stop < len(heads):
            return np.concatenate(found)
        position = int(heads[-1])


def _certified_gaps(words: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """floor(log U / log(1 - rate)) for U in [w, w+1)/2^64, and whether the whole interval is known to give it."""
    w = words.astype(np.float64)
    positive = w >= 2.0**12
    safe = np.where(positive, w, 2.0**12)
    quotient = (np.log(safe) - 64 * np.log(2.0)) / np.log1p(-rate)
    margin = (1.0 / safe + 2.0**-51 + 1e-14) / -np.log1p(-rate) + quotient * _RELATIVE_ERROR
    gap = np.floor(quotient)
    certain = positive & (quotient - gap > margin) & (gap + 1 - quotient > margin)
    return gap.astype(np.int64), certain


def _exact_gap(word: int, rate: float, coins: int, randomness: RandomSource) -> int:
    """The same floor in exact arithmetic, with further bits until one integer is left; beyond `coins` none matters."""
    bits, value = 64, word
    while True:
        value = (value << 64) | int(randomness.words(1)[0])
        bits += 64
        with mpmath.workprec(bits + GUARD_BITS):
            base = mpmath.log1p(-mpmath.mpf(rate))
            slack = mpmath.mpf(MPMATH_SLACK)
            most = mpmath.log((value - slack) / mpmath.mpf(2) ** bits) / base if value else mpmath.inf
            least = mpmath.log(min(value + 1 + slack, mpmath.mpf(2) ** bits) / mpmath.mpf(2) ** bits) / base
            if least >= coins:
                return coins
            if most < mpmath.inf and mpmath.floor(most) == mpmath.floor(least):
                return int(mpmath.floor(least))


@numba.njit(nogil=True, cache=True)
def _group(heads: np.ndarray, mixtures: int, slots: np.ndarray, members: np.ndarray) -> None:
    """Counting sort of the heads by mixture; within a mixture in record order."""
    for index in range(heads.size):
        record = heads[index] // mixtures
        mixture = heads[index] - record * mixtures
        members[slots[mixture]] = record
        slots[mixture] += 1


@numba.njit(nogil=True, cache=True)
def _floyd(words: np.ndarray, mixtures: int, order: int, population: int, members: np.ndarray) -> np.ndarray:
    """Floyd's subsets, one word a draw; returns the indices of words whose product fell into the biased remainder."""
    chosen = np.zeros(population, dtype=np.uint8)
    rejected = np.empty(words.size, dtype=np.int64)
    rejections = 0
    low_mask = np.uint64(0xFFFFFFFF)
    for t in range(mixtures):
        for s in range(order):
            index = t * order + s
            top = population - order + s
            bound = np.uint64(top + 1)
            word = words[index]
            # high and low half of the 128-bit product word * bound, for bound < 2^32
            low_part = (word & low_mask) * bound
            high_part = (word >> np.uint64(32)) * bound + (low_part >> np.uint64(32))
            low = (high_part << np.uint64(32)) | (low_part & low_mask)
            if low < bound and low < (np.uint64(0) - bound) % bound:
                rejected[rejections] = index
                rejections += 1
            drawn = np.int64(high_part >> np.uint64(32))
            pick = np.int64(top) if chosen[drawn] else drawn
            chosen[pick] = 1
            members[index] = pick
        for s in range(order):
            chosen[members[t * order + s]] = 0
    return rejected[:rejections].copy()
