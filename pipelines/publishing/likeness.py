"""How much synthetic pictures vary within a class, which of them are nearly the same, and how sharp they are.

All of it is computed from published rows and public bounds, and compares synthetic pictures with each other alone: it
shows a generator that repeats itself or blurs. How near the pictures are to real ones it cannot say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from understudy.pipelines.publishing.samples import THUMBNAIL, PictureClass, picture_numbers, thumbnails
from understudy.pipelines.table.domain import TensorDomain

MOST_LOOKED_AT = 200
"""Pictures of each class, the first ones."""

PAIRS = 5
RANKED = 5
NEAR = 0.1
"""Nearer than this part of what two pictures of the class usually differ by counts as nearly the same."""

FINE = 0.25
"""Waves a pixel, from which on a detail is fine: shorter than four pixels."""


@dataclass(frozen=True)
class Pair:
    """Two rows of a class and how far their pictures are apart."""

    one: int
    other: int
    apart: float


@dataclass(frozen=True)
class Likeness:
    """Of the pictures of one class. A distance is the root mean square difference of a number, as a part of its range;
    None where there is nothing to compare with."""

    label: str
    looked_at: int
    within: float | None
    """Of two pictures of the class."""
    between: float | None
    """Of one of the class and one of another."""
    nearest: float | None
    """Of a picture and its nearest neighbour in the class; the median."""
    repeated: float | None
    """The share of pictures that have one nearly the same in the class."""
    pairs: tuple[Pair, ...]
    """The nearest, from the nearest on; no picture is in two."""
    fine: float
    """The share of a picture's variation that is fine detail, on average. Noise has about 0.8, a blurred one none."""
    ranked: tuple[int, ...]
    """Rows from the least fine detail to the most."""
    fine_ends: tuple[float, float]

    @property
    def variety(self) -> float | None:
        """What pictures of the class differ by, as a part of what they differ by from other classes."""
        return None if self.within is None or not self.between else self.within / self.between


def likenesses(
    pictures: pa.ChunkedArray, tensor: TensorDomain, classes: Sequence[PictureClass]
) -> tuple[Likeness, ...]:
    seen = [_Seen.of(pictures, tensor, one.rows[:MOST_LOOKED_AT]) for one in classes]
    return tuple(_likeness(one.label, seen, place) for place, one in enumerate(classes))


@dataclass(frozen=True, eq=False)
class _Seen:
    """Of the pictures of a class what is needed of them, as they are large. Sums of bytes are exact, and so is a
    distance of nothing."""

    rows: np.ndarray
    total: np.ndarray
    squares: float
    scale: float
    """What turns squared differences of bytes, summed over a picture, into parts of the range."""
    near: np.ndarray
    """How far each picture's nearest neighbour is; empty for one that is alone."""
    pairs: tuple[Pair, ...]
    fine: np.ndarray

    @classmethod
    def of(cls, pictures: pa.ChunkedArray, tensor: TensorDomain, rows: np.ndarray) -> _Seen:
        numbers = picture_numbers(pictures, rows, tensor)
        flat = thumbnails(numbers, THUMBNAIL).reshape(len(rows), -1).astype(np.float64)
        scale = 1 / (flat.shape[1] * 255**2)
        near, pairs = _nearest(flat, rows, scale)
        squares = float((flat**2).sum())
        return cls(rows, flat.sum(axis=0), squares, scale, near, tuple(pairs), fine_shares(numbers))

    @property
    def within(self) -> float | None:
        many = len(self.rows)
        apart = many * self.squares - float(self.total @ self.total)
        return math.sqrt(2 * apart / (many * (many - 1)) * self.scale) if many > 1 else None

    def apart_from(self, other: _Seen) -> float:
        """The mean square distance of a picture of this class and one of the other."""
        mine, theirs = len(self.rows), len(other.rows)
        across = 2 * float(self.total @ other.total) / (mine * theirs)
        return max(0.0, self.squares / mine + other.squares / theirs - across) * self.scale


def fine_shares(numbers: np.ndarray) -> np.ndarray:
    """Of each picture (rows, height, width, channels) the share of its variation in waves shorter than four pixels."""
    from scipy.fft import dctn

    waves = dctn(np.asarray(numbers, np.float64), axes=(1, 2), norm="ortho") ** 2
    high, wide = numbers.shape[1:3]
    frequency = np.hypot(np.arange(high)[:, None] / (2 * high), np.arange(wide)[None, :] / (2 * wide))
    power = waves.sum(axis=3)
    power[:, 0, 0] = 0.0  # the mean varies nowhere
    whole = power.sum(axis=(1, 2))
    shares: np.ndarray = power[:, frequency > FINE].sum(axis=1) / np.where(whole > 1e-9, whole, np.inf)
    return shares


def _likeness(label: str, seen: Sequence[_Seen], place: int) -> Likeness:
    own, within = seen[place], seen[place].within
    squares = [own.apart_from(other) for number, other in enumerate(seen) if number != place]
    order = np.argsort(own.fine, kind="stable")
    steps = np.unique(np.linspace(0, len(order) - 1, RANKED).round().astype(int))
    return Likeness(
        label=label,
        looked_at=len(own.rows),
        within=within,
        between=math.sqrt(float(np.mean(squares))) if squares else None,
        nearest=None if within is None else float(np.median(own.near)),
        repeated=None if within is None else float((own.near <= NEAR * within).mean()),
        pairs=own.pairs,
        fine=float(own.fine.mean()),
        ranked=tuple(int(own.rows[order[step]]) for step in steps),
        fine_ends=(float(own.fine.min()), float(own.fine.max())),
    )


def _nearest(flat: np.ndarray, rows: np.ndarray, scale: float) -> tuple[np.ndarray, list[Pair]]:
    """How far each picture's nearest neighbour is, and the nearest pairs."""
    if len(rows) < 2:
        return np.zeros(0), []
    norms = (flat**2).sum(axis=1)
    apart = np.sqrt((norms[:, None] + norms[None, :] - 2 * flat @ flat.T) * scale)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.min(axis=1)
    left, pairs = np.where(np.tri(len(rows), dtype=bool), np.inf, apart), list[Pair]()
    while len(pairs) < PAIRS and math.isfinite(left.min()):
        one, other = np.unravel_index(int(np.argmin(left)), left.shape)
        pairs.append(Pair(int(rows[one]), int(rows[other]), float(apart[one, other])))
        for taken in (one, other):
            left[taken, :] = left[:, taken] = np.inf
    return nearest, pairs
