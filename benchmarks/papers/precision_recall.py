"""Precision and recall of samples: how many look real, and how many of the real ones are matched.

Internal evaluation only: what is compared with real rows is itself an output of the private data, never published or
gating.

Theorem (definition). The support of a set is estimated by balls around each of its points that reach to its k-th
  nearest neighbour in the same set. Precision is the share of made points within the support of the real ones, recall
  the share of real points within the support of the made ones. Two samples of one distribution do not give 1, so a
  second real sample is the figure to compare with.
Reference. Kynkaanniemi et al. 2019 (improved precision and recall), in the features of `frechet`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NEIGHBOURS = 3
_BLOCK_ROWS = 1000


@dataclass(frozen=True)
class PrecisionRecall:
    precision: float
    recall: float


def precision_recall(real: np.ndarray, made: np.ndarray, neighbours: int = NEIGHBOURS) -> PrecisionRecall:
    """Of two sets of features (n x width)."""
    if min(len(real), len(made)) <= neighbours:
        raise ValueError(f"a support needs more than {neighbours} points")
    return PrecisionRecall(_covered(made, real, neighbours), _covered(real, made, neighbours))


def _covered(points: np.ndarray, support: np.ndarray, neighbours: int) -> float:
    reach = np.concatenate(
        [np.partition(near, neighbours, axis=1)[:, neighbours] for near in _square_distances(support, support)]
    )  # the nearest is the point itself
    return float(np.mean(np.concatenate([(near <= reach).any(axis=1) for near in _square_distances(points, support)])))


def _square_distances(points: np.ndarray, others: np.ndarray):  # type: ignore[no-untyped-def]
    """A block of points at a time."""
    points, others = points.astype(np.float64), others.astype(np.float64)
    squares = np.square(others).sum(axis=1)
    for start in range(0, len(points), _BLOCK_ROWS):
        part = points[start : start + _BLOCK_ROWS]
        yield np.maximum(np.square(part).sum(axis=1)[:, None] + squares - 2 * part @ others.T, 0.0)
