"""The rounded Gaussian in bulk: the same exact distribution as `noise.rounded_gaussian`, some forty times
faster.

Theorem. As `noise`: for an integer query x, x + round(N(0, sigma^2)) is post-processing of the Gaussian
  mechanism.
Noise unit. `sigma` is a standard deviation in the units of the integer query.
Exactness. Each draw takes half a random word: a sign and 31 bits w that put the tail probability p = P(|N|
  > t)/2 into [w, w + 1) / 2^32. The magnitude is k when theta_k <= 2^32 p < theta_(k-1), theta_k = 2^32
  Q((k + 1/2)/sigma). A table of the theta_k, known to a relative 1e-12, decides every w whose whole
  interval lies between two of them, with that error to spare. The rest (about one in 10^5 at sigma 4096)
  are given 32 further random bits, then decided by `noise`'s certified inversion, and at last by its exact
  arithmetic. No tail is cut, no probability is approximated: the table only saves time.
Reference. Inverse-CDF sampling with lazy bits (Knuth & Yao 1976); guide tables (Chen & Asau 1974).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numba
import numpy as np
from scipy.special import ndtr

from understudy.pipelines.privacy.noise import (
    RandomSource,
    _certified_magnitudes,
    _exact_magnitude,
    rounded_gaussian,
)

MAX_TABLE_SIGMA = 16384.0
"""Above this the table outgrows the cache and `rounded_gaussian` is used instead."""
_WINDOW = 1  # in units of 2^-32 around each threshold; a test compares the thresholds with mpmath
_GUIDE_SHIFT = 16


@dataclass(frozen=True)
class GaussianTable:
    """Thresholds for one sigma: `cut` falls with the magnitude, `guide` says where to start for w's leading bits."""

    sigma: float
    guide: np.ndarray
    cut: np.ndarray

    @staticmethod
    def words_for(draws: int) -> int:
        return (draws + 1) // 2

    def add(self, into: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Add one draw to each number of the flat int32 array; return the positions that need more bits."""
        positions = np.empty(len(into), dtype=np.int64)  # pages that are never written are never allocated
        return positions[: _add_kernel(into, words, self.guide, self.cut, positions)].copy()

    @staticmethod
    def halves(words: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """The 32 bits that each of these draws has used so far."""
        shift = np.uint64(32) * (positions & 1).astype(np.uint64)
        return words[positions >> 1] >> shift & np.uint64(2**32 - 1)

    def resolve(self, halves: np.ndarray, randomness: RandomSource) -> np.ndarray:
        """The draws that begin with these bits, decided with 32 more each and, if need be, with as many as it takes."""
        further = randomness.words(len(halves)) >> np.uint64(32)
        tails = ((halves & np.uint64(2**31 - 1)) << np.uint64(32)) | further
        magnitude, certain = _certified_magnitudes(tails, self.sigma)
        for index in np.flatnonzero(~certain):
            magnitude[index] = _exact_magnitude(int(tails[index]), self.sigma, randomness)
        return np.where(halves >> np.uint64(31), -magnitude, magnitude)


@lru_cache(maxsize=16)
def gaussian_table(sigma: float) -> GaussianTable:
    if not 0 < sigma <= MAX_TABLE_SIGMA:
        raise ValueError(f"a table serves sigma in (0, {MAX_TABLE_SIGMA:g}]")
    magnitudes = np.arange(int(6.7 * sigma) + 2)  # Q(6.7) < 2^-32: no 31-bit w lies beyond
    theta = 2.0**32 * ndtr(-(magnitudes + 0.5) / sigma)
    # A double's relative error of 1e-12 moves theta by at most 0.002, so |w - floor(theta)| > 1 is decided for sure.
    cut = np.floor(theta).astype(np.int32)
    highest = (np.arange(2 ** (31 - _GUIDE_SHIFT), dtype=np.int64) + 1) * 2**_GUIDE_SHIFT - 1
    return GaussianTable(sigma, _first_not_above(cut, highest).astype(np.int32), cut)


def _first_not_above(cut: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The least k with w >= cut_k - 1: every smaller k is surely too small a magnitude. `cut` falls with k."""
    first: np.ndarray = np.searchsorted(-(cut.astype(np.int64) - _WINDOW), -w, side="left")
    return first


def table_gaussian(shape: int | tuple[int, ...], sigma: float, randomness: RandomSource) -> np.ndarray:
    """Independent draws of round(N(0, sigma^2)) as int64; a drop-in for `rounded_gaussian`."""
    if sigma > MAX_TABLE_SIGMA:
        return rounded_gaussian(shape, sigma, randomness)
    table = gaussian_table(float(sigma))
    flat = np.zeros(int(np.prod(shape)), dtype=np.int32)
    words = randomness.words(table.words_for(len(flat)))
    positions = table.add(flat, words)
    draws = flat.astype(np.int64)
    draws[positions] = table.resolve(table.halves(words, positions), randomness)
    return draws.reshape(shape)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _add_kernel(
    into: np.ndarray,
    words: np.ndarray,
    guide: np.ndarray,
    cut: np.ndarray,
    unsure: np.ndarray,
) -> int:
    found = 0
    for index in range(into.size):
        half = np.int64((words[index >> 1] >> np.uint64(32 * (index & 1))) & np.uint64(0xFFFFFFFF))
        w = half & 0x7FFFFFFF
        k = np.int64(guide[w >> _GUIDE_SHIFT])
        k += w < cut[k] - _WINDOW  # most draws need at most one step: taken without a branch
        while w < cut[k] - _WINDOW:
            k += 1
        if w <= cut[k] + _WINDOW:
            unsure[found] = index
            found += 1
        else:
            sign = half >> 31
            into[index] += (k ^ -sign) + sign
    return found
