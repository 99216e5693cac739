"""Optimisation step of Algorithm 3 on a CPU: particles move along directions by sort-free optimal transport.

Method: the gradient of W2^2 between projected particles y and a target (equation 8) is 2/m (y - T(y)), T(y)
the target quantile at the particle's rank. Ranks come from a histogram: a particle's rank is the mass of
the lower bins plus its turn within its bin, so ties are split and the cost is O(m) without a sort. Averaged
over directions, one step at rate 1 moves a particle by (coordinates x mean displacement), which for one
direction alone is exact transport. Cost is linear in particles x marginals x directions; memory in
particles x batch, not x marginals.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit, prange
from understudy.pipelines.privpgd.directions import TransportPlan

Float32Array = npt.NDArray[np.float32]


class CpuParticles:
    """Particles [coordinates, rows] in main memory, moved by the compiled kernel."""

    def __init__(self, points: Float32Array, plan: TransportPlan, bins: int) -> None:
        self._points = np.ascontiguousarray(points)
        self._plan = plan
        self._bins = bins

    def step(self, chosen: npt.NDArray[np.intp], slices: npt.NDArray[np.intp], rate: float) -> float:
        """Move all particles for the marginals `chosen`, along pool directions `slices` [marginals,
        directions].

        Returns the mean squared displacement, an estimate of the chosen marginals' mean SW2^2 before the
        move.
        """
        plan = self._plan
        moves, losses = _displace(
            self._points,
            chosen,
            slices,
            plan.axes,
            plan.width,
            plan.directions,
            plan.low,
            plan.span,
            plan.quantiles,
            self._bins,
        )
        _apply(self._points, moves, chosen, plan.axes, plan.width, plan.weight, np.float32(rate))
        return float(losses.mean())

    def points(self) -> Float32Array:
        return self._points


@njit(cache=True, parallel=True, fastmath=True)
def _displace(points, chosen, slices, axes, width, directions, low, span, quantiles, bins):
    rows = points.shape[1]
    levels = quantiles.shape[2]
    marginals, count = slices.shape
    moves = np.zeros((marginals, axes.shape[1], rows), dtype=np.float32)
    projected = np.empty((marginals, rows), dtype=np.float32)
    losses = np.zeros(marginals, dtype=np.float64)
    to_level = levels / rows
    for k in prange(marginals):
        s = chosen[k]
        turn = np.empty(bins + 1, dtype=np.int64)
        y = projected[k]
        for slice_ in range(count):
            r = slices[k, slice_]
            per_unit = np.float32(bins) / span[s, r]
            least = low[s, r]
            y[:] = -least
            for j in range(width[s]):
                theta = directions[s, r, j]
                along = points[axes[s, j]]
                for i in range(rows):
                    y[i] += theta * along[i]
            turn[:] = 0
            for i in range(rows):
                turn[min(max(int(y[i] * per_unit), 0), bins - 1) + 1] += 1
            for b in range(bins):
                turn[b + 1] += turn[b]
            table = quantiles[s, r]
            loss = 0.0
            for i in range(rows):
                b = min(max(int(y[i] * per_unit), 0), bins - 1)
                rank = turn[b]
                turn[b] = rank + 1
                gap = table[int((rank + 0.5) * to_level)] - least - y[i]
                loss += gap * gap
                y[i] = gap
            for j in range(width[s]):
                theta = directions[s, r, j]
                move = moves[k, j]
                for i in range(rows):
                    move[i] += theta * y[i]
            losses[k] += loss / (rows * count)
        scale = np.float32(width[s]) / np.float32(count)
        for j in range(width[s]):
            moves[k, j] *= scale
    return moves, losses


@njit(cache=True, parallel=True, fastmath=True)
def _apply(points, moves, chosen, axes, width, weight, rate):
    for axis in prange(points.shape[0]):
        total = np.float32(0.0)
        for k in range(len(chosen)):
            for j in range(width[chosen[k]]):
                if axes[chosen[k], j] == axis:
                    total += weight[chosen[k]]
        if total == 0.0:
            continue
        along = points[axis]
        for k in range(len(chosen)):
            for j in range(width[chosen[k]]):
                if axes[chosen[k], j] == axis:
                    along += (rate * weight[chosen[k]] / total) * moves[k, j]
        for i in range(along.shape[0]):
            along[i] = min(max(along[i], np.float32(0.0)), np.float32(1.0))
