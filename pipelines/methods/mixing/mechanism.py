"""The mixtures and their noise: the only private computation of the method besides its class statistics.

Theorem. For each class k and mixture t, s_t = sum of the records of class k drawn into t + round(N(0,
  sigma^2 I)), on the integer grid where every record has L2 norm at most C. Poisson draws at rate q: the
  T_k mixtures of a class are T_k Poisson-subsampled Gaussians with multiplier sigma/C. Fixed-size draws of
  l from a class filled up to at least M: the Renyi curve of `fixed_size`, T_k times. A record
  belongs to one class and touches only that class's mixtures: classes compose in parallel, and since all
  use one rate, one noise scale and at most one public number of mixtures, one event covers them all.
Relation. ADD_REMOVE of one record. (Under REPLACE_ONE a record may change class and touch two; the method
  refuses it.)
Sensitivity. C (Poisson), up to 2C (fixed size) in L2, of one mixture's exact sum. The divisor is public or
  bought and is applied afterwards; the label of a mixture is its class, a public fact.
Noise unit. `sigma` is a standard deviation in grid units of the *sum*.
Saturation. The exact sum is clamped to +-2^30 before the noise; clamping is 1-Lipschitz, so the sensitivity
  stands.
Proof. docs/proofs/mixtures.md (Poisson), docs/proofs/fixed-size-mixtures.md.
Reference. Saha, Tonoy & Imtiaz, DP-CDA, Algorithm 1 (its rate, divisor and normalisation corrected); Zhu, Dong & Wang
  2022 for dominating pairs; Abadi et al. 2016 for the subsampled Gaussian.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numba
import numpy as np

from understudy.pipelines.methods.mixing.fixed_size import fixed_size_curve
from understudy.pipelines.methods.mixing.grid import MAX_NORM
from understudy.pipelines.privacy.events import Event, Gaussian, PoissonSampled, SelfComposed
from understudy.pipelines.privacy.noise.bulk import (
    MAX_TABLE_SIGMA,
    GaussianTable,
    add_draws,
    gaussian_table,
    table_gaussian,
)
from understudy.pipelines.privacy.noise.rounded import RandomSource, rounded_gaussian
from understudy.pipelines.privacy.noise.sampling import Draw, fixed_draw, poisson_draw
from understudy.pipelines.privacy.rounding import claimed, scaled, up

GRID_SIGMA = 1024.0
MIN_NORM_BOUND = 128
_BLOCK_NUMBERS = 1 << 19
_WORKERS = 2
_SATURATION = 2**30
_LABEL_STEPS = 1024


@dataclass(frozen=True)
class MixtureDesign:
    """What is public about the mixtures. `rate` (Poisson) or `order` of at least `minimum` (fixed) says who enters."""

    sampler: Literal["poisson", "fixed"]
    rate: float
    order: int
    minimum: int
    noise_multiplier: float

    @property
    def norm_bound(self) -> int:
        """C: the grid is as fine as puts the noise at about `GRID_SIGMA` steps, and never so coarse as to matter."""
        return min(MAX_NORM, max(MIN_NORM_BOUND, round(GRID_SIGMA / self.noise_multiplier)))

    @property
    def sigma(self) -> float:
        """What is drawn with."""
        return scaled(self.noise_multiplier, self.norm_bound)

    @property
    def inclusion(self) -> float:
        """The most likely that a record enters one mixture, rounded up."""
        return self.rate if self.sampler == "poisson" else up(Fraction(self.order, self.minimum))

    def expected_order(self, class_size: float) -> float:
        """Records of the class expected in one mixture: what its sum is divided by."""
        if self.sampler == "poisson":
            return self.rate * class_size
        return self.order * class_size / max(class_size, self.minimum)

    def event(self, mixtures: int) -> Event:
        """What `mixtures` of each class cost together."""
        multiplier = claimed(self.sigma, self.norm_bound)
        if self.sampler == "poisson":
            return SelfComposed(PoissonSampled(self.inclusion, Gaussian(multiplier)), mixtures)
        return SelfComposed(fixed_size_curve(self.inclusion, multiplier), mixtures)

    def members(self, records: int, mixtures: int, randomness: RandomSource) -> Draw:
        if self.sampler == "poisson":
            return poisson_draw(records, mixtures, self.rate, randomness)
        return fixed_draw(records, mixtures, self.order, self.minimum, randomness)


@dataclass(frozen=True)
class ClassRecords:
    """Records on the grid, the rows of each class, and how many mixtures are wanted of each. Private."""

    records: np.ndarray
    rows: list[np.ndarray]
    wanted: list[int]


@dataclass(frozen=True)
class SliceNoise:
    """At most so many mixtures of every class; in the paper's mode their labels too, noisy for nothing."""

    design: MixtureDesign
    mixtures: int
    label_noise: float | None = None

    @property
    def event(self) -> Event:
        return self.design.event(self.mixtures)

    def draw(self, exact: ClassRecords, randomness: RandomSource) -> dict[str, np.ndarray]:
        wanted = [min(count, self.mixtures) for count in exact.wanted]  # never more than is charged
        arrays = {"sums": release_mixtures(exact.records, exact.rows, wanted, self.design, randomness)}
        if self.label_noise is not None:
            labels = np.repeat(np.arange(len(wanted)), wanted)
            one_hot = np.zeros((len(labels), len(wanted)), dtype=np.int64)
            one_hot[np.arange(len(labels)), labels] = _LABEL_STEPS
            one_hot += table_gaussian(one_hot.shape, self.label_noise * _LABEL_STEPS, randomness)
            arrays["labels"] = one_hot.argmax(axis=1)
        return arrays


def release_mixtures(
    records: np.ndarray,
    class_rows: list[np.ndarray],
    mixtures: list[int],
    design: MixtureDesign,
    randomness: RandomSource,
) -> np.ndarray:
    """Noisy sums (int32), class after class, `mixtures[k]` of class k.

    `records` is the int32 matrix already clipped to `design.norm_bound`; `class_rows[k]` lists the rows of class k.
    Random words are drawn here, in one fixed order; threads only do arithmetic, so their number changes nothing.
    """
    width = records.shape[1]
    out = np.empty((sum(mixtures), width), dtype=np.int32)
    block = max(1, _BLOCK_NUMBERS // max(1, width))
    if design.sigma > MAX_TABLE_SIGMA:
        return _release_with_large_noise(records, class_rows, mixtures, design, randomness, out, block)
    table = gaussian_table(design.sigma)
    unsure: list[tuple[int, np.ndarray, np.ndarray]] = []
    with ThreadPoolExecutor(_WORKERS) as pool:
        waiting: deque[Future[tuple[int, np.ndarray, np.ndarray]]] = deque()
        start = 0
        for rows, wanted in zip(class_rows, mixtures, strict=True):
            for done in range(0, wanted, block):
                size = min(block, wanted - done)
                draw = design.members(len(rows), size, randomness)
                words = randomness.words(table.words_for(size * width))
                waiting.append(pool.submit(_fill, records, rows, draw, table, words, out, start))
                start += size
                while len(waiting) > _WORKERS:
                    unsure.append(waiting.popleft().result())
        unsure.extend(future.result() for future in waiting)
    flat = out.reshape(-1)
    for offset, positions, word_halves in unsure:
        flat[offset + positions] += table.resolve(word_halves, randomness).astype(np.int32)
    return out


def _release_with_large_noise(
    records: np.ndarray,
    class_rows: list[np.ndarray],
    mixtures: list[int],
    design: MixtureDesign,
    randomness: RandomSource,
    out: np.ndarray,
    block: int,
) -> np.ndarray:
    """The same release where no table serves: one thread, the general sampler."""
    start = 0
    for rows, wanted in zip(class_rows, mixtures, strict=True):
        for done in range(0, wanted, block):
            size = min(block, wanted - done)
            sums = exact_sums(records, rows, design.members(len(rows), size, randomness)).astype(np.int64)
            noisy = sums + rounded_gaussian(sums.shape, design.sigma, randomness)
            out[start : start + size] = np.clip(noisy, -(2**31), 2**31 - 1)
            start += size
    return out


def exact_sums(records: np.ndarray, rows: np.ndarray, draw: Draw) -> np.ndarray:
    """What the noise is added to: the saturated sums of one block of mixtures."""
    sums = np.empty((len(draw.starts) - 1, records.shape[1]), dtype=np.int32)
    _sum_kernel(records, rows, draw.starts, draw.members, sums)
    return sums


def _fill(
    records: np.ndarray,
    rows: np.ndarray,
    draw: Draw,
    table: GaussianTable,
    words: np.ndarray,
    out: np.ndarray,
    start: int,
) -> tuple[int, np.ndarray, np.ndarray]:
    view = out[start : start + len(draw.starts) - 1]
    unsure = np.empty(view.size, dtype=np.int64)  # pages that are never written are never allocated
    found = _fill_kernel(
        *(records, rows, draw.starts, draw.members),
        *(table.cells, table.guide, table.cut, words.view(np.uint32), view, unsure),
    )
    positions = unsure[:found].copy()
    return start * out.shape[1], positions, table.halves(words, positions)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _fill_kernel(
    records: np.ndarray,
    rows: np.ndarray,
    starts: np.ndarray,
    members: np.ndarray,
    cells: np.ndarray,
    guide: np.ndarray,
    cut: np.ndarray,
    halves: np.ndarray,
    out: np.ndarray,
    unsure: np.ndarray,
) -> int:
    """Sum and noise of one mixture after the other, each while it is still in the cache."""
    width = out.shape[1]
    found = 0
    for t in range(starts.size - 1):
        _sum_one(records, rows, members[starts[t] : starts[t + 1]], out[t])
        found = add_draws(out[t], halves, t * width, cells, guide, cut, unsure, found)
    return found


@numba.njit(nogil=True, cache=True)
def _sum_kernel(
    records: np.ndarray, rows: np.ndarray, starts: np.ndarray, members: np.ndarray, sums: np.ndarray
) -> None:
    for t in range(starts.size - 1):
        _sum_one(records, rows, members[starts[t] : starts[t + 1]], sums[t])


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _sum_one(records: np.ndarray, rows: np.ndarray, members: np.ndarray, total: np.ndarray) -> None:
    if members.size <= _SATURATION // MAX_NORM:  # no number of theirs can reach saturation
        total[:] = 0
        for member in members:
            if member < rows.size:  # a fixed-size draw may name a zero record
                record = records[rows[member]]
                for j in range(total.size):
                    total[j] += record[j]
        return
    wide = np.zeros(total.size, dtype=np.int64)
    for member in members:
        if member < rows.size:
            record = records[rows[member]]
            for j in range(total.size):
                wide[j] += record[j]
    for j in range(total.size):
        total[j] = min(max(wide[j], -_SATURATION), _SATURATION)
