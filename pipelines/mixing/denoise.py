"""From released sums to records: post-processing of released numbers and public facts, free and repeatable.

With `none` a record is its mixture's mean: centre + sum / l. It lies close to the class mean, since mixing
l records shrinks their spread by sqrt(l), and carries all the noise.

With `spectral` each class's spread is rebuilt. The sums of a class have covariance l M + sigma^2 I, M the
second moment of its centred records and sigma known exactly. An eigenvalue of the sample covariance within
the Marchenko-Pastur bulk says nothing and is dropped; one above it is corrected for its known upward bias.
Every released sum is then mapped linearly so that the class has mean `centre + mean sum / l` and covariance
M, as far as M can be told from noise. Directions are first looked for in the average over all classes,
which has the most records.

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
    """Number, sum and sum of outer products of the released sums of one class, in feature units and public basis."""

    count: int
    total: np.ndarray
    square: np.ndarray

    @classmethod
    def empty(cls, width: int) -> ClassMoments:
        return cls(0, np.zeros(width), np.zeros((width, width)))

    @property
    def mean(self) -> np.ndarray:
        return self.total / max(1, self.count)

    @property
    def covariance(self) -> np.ndarray:
        mean = self.mean
        covariance: np.ndarray = self.square / max(1, self.count) - np.outer(mean, mean)
        return covariance


@dataclass(frozen=True)
class Restoration:
    """record = offset + spread @ (basis @ sum - mean), all in feature units."""

    offset: np.ndarray
    mean: np.ndarray
    spread: np.ndarray


def image_basis(height: int, width: int) -> np.ndarray:
    """Orthonormal low-frequency cosines, one a row: public, and where natural images have nearly all their content."""
    rows, columns = (max(1, round(size * IMAGE_FREQUENCIES)) for size in (height, width))
    vertical = scipy.fft.idct(np.eye(height), norm="ortho", axis=0)[:, :rows]
    horizontal = scipy.fft.idct(np.eye(width), norm="ortho", axis=0)[:, :columns]
    return np.einsum("au,bv->uvab", vertical, horizontal).reshape(rows * columns, height * width)


def moments(sums: np.ndarray, unit: float, basis: np.ndarray | None, block: int = 4096) -> ClassMoments:
    """Streamed over blocks of records, so that no second copy of the sums is made."""
    found = ClassMoments.empty(sums.shape[1] if basis is None else len(basis))
    for start in range(0, len(sums), block):
        part = sums[start : start + block] * unit
        part = part if basis is None else part @ basis.T
        found = merged(found, ClassMoments(len(part), part.sum(axis=0), part.T @ part))
    return found


def merged(one: ClassMoments, other: ClassMoments) -> ClassMoments:
    return ClassMoments(one.count + other.count, one.total + other.total, one.square + other.square)


def restorations(
    classes: list[ClassMoments], sigma: float, orders: np.ndarray, basis: np.ndarray | None, *, poisson: bool
) -> list[Restoration]:
    """One linear map a class; `sigma` is the noise of a sum in feature units, `orders` are the divisors.

    The covariance of Poisson sums is l times the second moment of the records, that of fixed-size sums l times their
    covariance; the difference, what the class mean contributes, is taken off.
    """
    everything = max(1, sum(c.count for c in classes))
    corrected = [
        c.covariance - np.outer(c.mean, c.mean) / order if poisson else c.covariance
        for c, order in zip(classes, orders, strict=True)
    ]
    pooled = sum(
        (own * (c.count / everything) for c, own in zip(classes, corrected, strict=True)), np.zeros_like(corrected[0])
    )
    values, vectors = np.linalg.eigh(pooled)
    shared = vectors[:, spiked_signal(values, sigma, len(values) / everything) > 0]
    maps = []
    for found, own, order in zip(classes, corrected, orders, strict=True):
        own_values, own_vectors = np.linalg.eigh(shared.T @ own @ shared)
        own_signal = spiked_signal(own_values, sigma, len(own_values) / max(1, found.count))
        directions = shared @ own_vectors
        whiten = _inverse_root(directions.T @ found.covariance @ directions)
        spread = (directions * np.sqrt(own_signal / order)) @ whiten @ directions.T
        offset = found.mean / order
        if basis is not None:
            spread, offset = basis.T @ spread, offset @ basis
        maps.append(Restoration(offset, found.mean, spread))
    return maps


def _inverse_root(symmetric: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(symmetric)
    root: np.ndarray = (vectors / np.sqrt(np.maximum(values, 1e-12))) @ vectors.T
    return root


def restored(restoration: Restoration, sums: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    """Records in feature units, from sums in feature units."""
    part = sums if basis is None else sums @ basis.T
    records: np.ndarray = restoration.offset + (part - restoration.mean) @ restoration.spread.T
    return records


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
