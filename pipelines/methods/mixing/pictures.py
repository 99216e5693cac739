"""Restored records of pictures: what the norm bound and the range cut off is given back, texture is laid as pictures'.

`denoise` restores mean and spread of a class. A network that is to read real pictures needs three things more:

- Records were cut to a norm before they were mixed, so what comes back is the spread of cut records. If squared
  norms are a multiple of a chi-square with as many degrees as the spread has directions, the mean of cut ones tells
  that of whole ones.
- Restored records are Gaussian, pixels have a range, and cutting to it takes off a third of the spread. Deviations
  reach further by one factor a class, so that what is left after the cut has the spread looked for.
- Spread without direction was white, and of one size in all records of a class. A network then tells classes by
  how noisy they are, which says nothing of real pictures. It falls off with frequency here, is as large in all classes,
  and of another size in every record: a normal quantile taken by the number of the record, no draw.

All of it from released numbers and public facts (the bounds, the norm bound); free and repeatable.
Reference. Field 1987 for the spectra of natural pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.fft
from scipy.special import gammainc, ndtr, ndtri

from understudy.pipelines.methods.mixing.denoise import ClassMoments, Restoration

FURTHEST = 4.0
"""Deviations reach at most this many times as far."""
MOST_CUT = 2.0
"""A norm bound is taken to have cut off at most this many times what it left: above it, norms tell nothing."""
GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class RestoredPictures:
    """record t = offset + reach (directions @ gain @ u + grain_t texture @ (d - directions @ u)), of one class."""

    base: Restoration
    middle: np.ndarray
    reach: float
    grain: float
    texture: np.ndarray

    def records(self, sums: np.ndarray, first: int) -> np.ndarray:
        """Records in feature units; `first` is the number of the first of them within its class."""
        away = sums - self.middle.astype(np.float32)
        inner = away @ self.base.directions
        rest = away - (inner @ self.base.directions.T).astype(np.float32)
        grains = self.grain * normal_quantiles(first, len(sums))
        deviation = inner @ (self.base.directions @ self.base.gain).T + grains[:, None] * (rest @ self.texture)
        records: np.ndarray = self.base.offset + self.reach * deviation
        return records


def restored_pictures(
    bases: Sequence[Restoration],
    classes: Sequence[ClassMoments],
    sigma: float,
    orders: np.ndarray,
    image: tuple[int, int],
    norm_bound: float,
    ranges: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[RestoredPictures]:
    """One a class; `sigma` is the noise of a sum, `ranges` what each pixel may hold, all in feature units."""
    texture = image_texture(*image)
    unseen = [base.rest * (len(base.offset) - len(base.spread)) for base in bases]
    shared = float(np.mean([rest for rest, found in zip(unseen, classes, strict=True) if found.count] or [0.0]))
    made = []
    for base, found, order, own, (low, high) in zip(bases, classes, orders, unseen, ranges, strict=True):
        laid = np.square(texture - base.directions @ (base.directions.T @ texture)).sum(axis=0)
        grain = np.sqrt(shared / (laid.sum() * (sigma**2 + order * base.rest)))
        variances = np.square(base.directions) @ base.spread + shared * laid / laid.sum()
        energy = float(base.spread.sum()) + own
        directions = energy**2 / max(float(np.square(base.spread).sum()) + own**2 / len(low), 1e-300)
        wanted = whole_energy(energy, norm_bound**2, directions) if energy > 0 else 0.0
        reach = reach_for(wanted, base.offset, np.sqrt(variances), low, high)
        made.append(RestoredPictures(base, found.mean, reach, float(grain), texture.astype(np.float32)))
    return made


def image_texture(height: int, width: int) -> np.ndarray:
    """Symmetric filter that gives white noise a power of 1/f, f counted in half waves across the picture.

    Pictures as a whole fall off as 1/f^2; what is left of them without their leading directions is flatter.
    """
    rows = scipy.fft.idct(np.eye(height), norm="ortho", axis=0)
    columns = scipy.fft.idct(np.eye(width), norm="ortho", axis=0)
    amplitudes = (1.0 + np.square(np.arange(height))[:, None] + np.square(np.arange(width))) ** -0.25
    cosines = np.kron(rows, columns)
    texture: np.ndarray = (cosines * amplitudes.ravel()) @ cosines.T
    return texture


def normal_quantiles(first: int, count: int) -> np.ndarray:
    """As a normal sample would be spread, by number: the same record has the same one, however many are read."""
    fractions = np.modf((np.arange(first, first + count) + 1) * GOLDEN)[0]
    quantiles: np.ndarray = ndtri(np.clip(fractions, 1e-6, 1 - 1e-6))
    return quantiles


def whole_energy(cut: float, bound: float, directions: float) -> float:
    """Mean squared norm before norms were cut, from that after; `bound` is the squared norm they were cut to."""
    low, high = cut, MOST_CUT * cut
    for _ in range(50):
        middle = (low + high) / 2
        at = bound / middle * directions / 2
        left = middle * gammainc(directions / 2 + 1, at) + bound * (1 - gammainc(directions / 2, at))
        low, high = (middle, high) if left < cut else (low, middle)
    return (low + high) / 2


def reach_for(wanted: float, mean: np.ndarray, std: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """The factor on normal deviations after which records cut to their range have the variance wanted in all."""
    smallest, largest = 1.0, FURTHEST
    for _ in range(30):
        middle = (smallest + largest) / 2
        short = cut_variance(mean, middle * std, low, high).sum() < wanted
        smallest, largest = (middle, largest) if short else (smallest, middle)
    return (smallest + largest) / 2


def cut_variance(mean: np.ndarray, std: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Variance of normal numbers cut to [low, high]."""
    std = np.maximum(std, 1e-9)
    a, b = (low - mean) / std, (high - mean) / std
    inside, above, below = ndtr(b) - ndtr(a), ndtr(-b), ndtr(a)
    at_a, at_b = _density(a), _density(b)
    first = np.where(below > 0, a * below, 0.0) + at_a - at_b + np.where(above > 0, b * above, 0.0)
    second = np.where(below > 0, a * a * below, 0.0) + np.where(above > 0, b * b * above, 0.0)
    second = second + inside + a * at_a - b * at_b
    variance: np.ndarray = np.square(std) * np.maximum(second - np.square(first), 0.0)
    return variance


def _density(x: np.ndarray) -> np.ndarray:
    density: np.ndarray = np.exp(-np.square(x) / 2) / np.sqrt(2 * np.pi)
    return density
