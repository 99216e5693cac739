"""From released sums to records: post-processing of released numbers and public facts, free and repeatable.

With `none` a record is its mixture's mean: centre + sum / l. It lies close to the class mean, since mixing
l records shrinks their spread by sqrt(l), and carries all the noise.

With `spectral` each class's spread is rebuilt. The sums of a class have covariance l M + sigma^2 I, M the
second moment of its centred records and sigma known exactly. An eigenvalue of the sample covariance within
the Marchenko-Pastur bulk says nothing and is dropped; one above it is corrected for its known upward bias.
Every released sum is then mapped linearly so that the class has mean `centre + mean sum / l` and covariance
M, as far as M can be told from noise. Directions are first looked for in the average over all classes,
which has the most records.
What spread remains (its sum is known well even where no direction is) is laid evenly over the other directions:
records as smooth as the class mean would teach a classifier that real ones do not exist.

Reference. Baik & Silverstein 2006 and Donoho, Gavish & Johnstone 2018 for spiked covariances; DCT-II for
  images.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft

IMAGE_FREQUENCIES = 0.45
"""Part of the lower frequencies, in each direction, in which the content of an image is looked for."""


@dataclass(frozen=True)
class ClassMoments:
    """Of the released sums of one class, in feature units: number, sum, squared length; outer products in the basis."""

    count: int
    total: np.ndarray
    energy: float
    square: np.ndarray

    @classmethod
    def empty(cls, width: int, basis: np.ndarray | None) -> ClassMoments:
        size = width if basis is None else len(basis)
        return cls(0, np.zeros(width), 0.0, np.zeros((size, size)))

    @property
    def mean(self) -> np.ndarray:
        return self.total / max(1, self.count)

    @property
    def variance(self) -> float:
        """Of a sum, over all features together."""
        return self.energy / max(1, self.count) - float(self.mean @ self.mean)

    def covariance(self, basis: np.ndarray | None) -> np.ndarray:
        mean = self.mean if basis is None else basis @ self.mean
        covariance: np.ndarray = self.square / max(1, self.count) - np.outer(mean, mean)
        return covariance


@dataclass(frozen=True)
class Restoration:
    """record = offset + directions @ gain @ u + fill * (d - directions @ u), d = sum - mean, u = directions' d.

    `spread` is the variance of a record along each direction, `rest` along any other.
    """

    offset: np.ndarray
    mean: np.ndarray
    directions: np.ndarray
    gain: np.ndarray
    fill: float
    spread: np.ndarray
    rest: float


def image_basis(height: int, width: int) -> np.ndarray:
    """Orthonormal low-frequency cosines, one a row: public, and where natural images have nearly all their content."""
    rows, columns = (max(1, round(size * IMAGE_FREQUENCIES)) for size in (height, width))
    vertical = scipy.fft.idct(np.eye(height), norm="ortho", axis=0)[:, :rows]
    horizontal = scipy.fft.idct(np.eye(width), norm="ortho", axis=0)[:, :columns]
    cosines: np.ndarray = np.einsum("au,bv->uvab", vertical, horizontal).reshape(rows * columns, height * width)
    return cosines


def moments(sums: np.ndarray, unit: float, basis: np.ndarray | None, block: int = 4096) -> ClassMoments:
    """Streamed over blocks of records, so that no second copy of the sums is made."""
    found = ClassMoments.empty(sums.shape[1], basis)
    for start in range(0, len(sums), block):
        part = sums[start : start + block] * unit
        inner = part if basis is None else part @ basis.T
        energy = float(np.square(part).sum())
        found = merged(found, ClassMoments(len(part), part.sum(axis=0), energy, inner.T @ inner))
    return found


def merged(one: ClassMoments, other: ClassMoments) -> ClassMoments:
    return ClassMoments(
        one.count + other.count, one.total + other.total, one.energy + other.energy, one.square + other.square
    )


def restorations(
    classes: list[ClassMoments], sigma: float, orders: np.ndarray, basis: np.ndarray | None, *, poisson: bool
) -> list[Restoration]:
    """One linear map a class; `sigma` is the noise of a sum in feature units, `orders` are the divisors.

    The covariance of Poisson sums is l times the second moment of the records, that of fixed-size sums l times their
    covariance; the difference, what the class mean contributes, is taken off.
    """
    everything = max(1, sum(c.count for c in classes))
    corrected = []
    for found, order in zip(classes, orders, strict=True):
        mean = found.mean if basis is None else basis @ found.mean
        corrected.append(found.covariance(basis) - (np.outer(mean, mean) / order if poisson else 0.0))
    shares = [found.count / everything for found in classes]
    pooled = np.sum([share * own for share, own in zip(shares, corrected, strict=True)], axis=0)
    values, vectors = np.linalg.eigh(pooled)
    shared = vectors[:, spiked_signal(values, sigma, len(values) / everything) > 0]
    return [
        _restoration(found, own, shared, sigma, float(order), basis, poisson)
        for found, own, order in zip(classes, corrected, orders, strict=True)
    ]


def _restoration(
    found: ClassMoments,
    corrected: np.ndarray,
    shared: np.ndarray,
    sigma: float,
    order: float,
    basis: np.ndarray | None,
    poisson: bool,
) -> Restoration:
    values, vectors = np.linalg.eigh(shared.T @ corrected @ shared)
    signal = spiked_signal(values, sigma, len(values) / max(1, found.count))
    inner = (shared @ vectors)[:, signal > 0]
    signal = signal[signal > 0]
    whiten = _inverse_root(inner.T @ found.covariance(basis) @ inner)
    width = len(found.mean)
    mean_part = float(found.mean @ found.mean) / order if poisson else 0.0
    spread_left = found.variance - mean_part - width * sigma**2 - float(signal.sum())
    left_each = max(0.0, spread_left) / max(1, width - len(signal))
    directions = inner if basis is None else basis.T @ inner
    mean = found.mean if basis is None else basis.T @ (basis @ found.mean)
    return Restoration(
        offset=mean / order,
        mean=found.mean,
        directions=directions,
        gain=np.sqrt(signal / order)[:, None] * whiten,
        fill=float(np.sqrt(left_each / order / (sigma**2 + left_each))),
        spread=signal / order,
        rest=left_each / order,
    )


def restored(restoration: Restoration, sums: np.ndarray) -> np.ndarray:
    """Records in feature units, from sums in feature units."""
    away = sums - restoration.mean
    inner = away @ restoration.directions
    along = inner @ (restoration.gain - restoration.fill * np.eye(len(restoration.gain))).T
    records: np.ndarray = restoration.offset + restoration.fill * away + along @ restoration.directions.T
    return records


def _inverse_root(symmetric: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(symmetric)
    root: np.ndarray = (vectors / np.sqrt(np.maximum(values, 1e-12))) @ vectors.T
    return root


def spiked_signal(eigenvalues: np.ndarray, sigma: float, aspect: float) -> np.ndarray:
    """Signal variance behind each sample eigenvalue: 0 inside the noise bulk, bias removed above it.

    In units of sigma^2 a population eigenvalue s > 1 + sqrt(aspect) shows up at s (1 + aspect / (s - 1)).
    """
    scaled = eigenvalues / sigma**2
    edge = (1 + np.sqrt(aspect)) ** 2
    above = np.maximum(scaled, edge)
    half = above + 1 - aspect
    population = (half + np.sqrt(np.maximum(half**2 - 4 * above, 0.0))) / 2
    signal: np.ndarray = np.where(scaled > edge, (population - 1) * sigma**2, 0.0)
    return signal
