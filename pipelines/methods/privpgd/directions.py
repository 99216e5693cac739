"""What sliced transport needs to know once: fixed directions, target quantile functions and noise floors.

Grids and directions are fixed, so the order of the cells along each direction and the quantile function of
each target are computed once and never sorted again (docs/privpgd.md). Tables share the orders
of their shape. The floor of a marginal is the squared W1 that its remaining noise alone puts between target
and truth, by Vallender's identity (equation 3) with the CDF's error at mass c of C equal cells taken as
N(0, v c (C - c) / C).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.embedding import Embedding
from understudy.pipelines.methods.privpgd.targets import Target

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TransportPlan:
    """Per marginal s and direction r of the pool; axes beyond a marginal's own are padded with zero
    directions.
    """

    axes: npt.NDArray[np.int32]  # [marginals, widest] coordinates of the embedding
    width: npt.NDArray[np.int32]  # [marginals] how many of them count
    directions: Float32Array  # [marginals, pool, widest]
    low: Float32Array  # [marginals, pool] least projection of the unit box
    span: Float32Array  # [marginals, pool] its greatest minus its least projection
    quantiles: Float32Array  # [marginals, pool, quantiles]
    weight: Float32Array  # [marginals]
    floor: float  # mean squared W1 of the noise left in the targets

    @property
    def marginals(self) -> int:
        return len(self.width)


def build_plan(
    targets: Sequence[Target], embedding: Embedding, pool: int, quantiles: int, rng: np.random.Generator
) -> TransportPlan:
    axes = [embedding.coordinates(target.columns) for target in targets]
    widest = max(len(a) for a in axes)
    pools = {width: _sphere(pool, width, rng) for width in sorted({len(a) for a in axes})}
    shape = (len(targets), pool)
    directions = np.zeros((*shape, widest), dtype=np.float32)
    low, span = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
    tables = np.empty((*shape, quantiles), dtype=np.float32)
    levels = (np.arange(quantiles) + 0.5) / quantiles
    floors = np.empty(len(targets))
    orders: dict[tuple[object, ...], tuple[npt.NDArray[np.intp], Float64Array]] = {}
    for s, target in enumerate(targets):
        thetas = pools[len(axes[s])]
        directions[s, :, : thetas.shape[1]] = thetas
        low[s] = np.minimum(thetas, 0.0).sum(axis=1)
        span[s] = np.abs(thetas).sum(axis=1)
        key = tuple(embedding.centres[c].tobytes() for c in target.columns)
        if key not in orders:
            projected = thetas @ embedding.cell_positions(target.columns).T
            order = np.argsort(projected, axis=1)
            orders[key] = order, np.take_along_axis(projected, order, axis=1)
        order, places = orders[key]
        masses = np.cumsum(target.probabilities.ravel()[order], axis=1)
        for r in range(pool):
            reached = np.searchsorted(masses[r], levels * masses[r, -1])
            tables[s, r] = places[r, np.minimum(reached, masses.shape[1] - 1)]
        floors[s] = _noise_floor(places, target.noise_variance)
    padded = np.array([[*a, *[0] * (widest - len(a))] for a in axes], dtype=np.int32)
    return TransportPlan(
        axes=padded,
        width=np.array([len(a) for a in axes], dtype=np.int32),
        directions=directions,
        low=low,
        span=np.maximum(span, np.float32(1e-6)),
        quantiles=tables,
        weight=np.array([target.weight for target in targets], dtype=np.float32),
        floor=float(floors.mean()),
    )


def _sphere(count: int, width: int, rng: np.random.Generator) -> Float64Array:
    """Unit directions, antithetic in none: a direction and its opposite carry the same transport."""
    if width == 1:
        return np.ones((count, 1))
    if width == 2:
        turns = pi * (np.arange(count) + rng.random()) / count
        return np.stack([np.cos(turns), np.sin(turns)], axis=1)
    raw = rng.normal(size=(count, width))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def _noise_floor(places: Float64Array, variance: float) -> float:
    cells = places.shape[1]
    below = np.arange(1, cells)
    error = np.sqrt(2.0 / pi * variance * below * (cells - below) / cells)
    return float(np.mean(np.square(np.diff(places, axis=1) @ error))) if cells > 1 else 0.0
