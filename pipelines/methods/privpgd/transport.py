"""Optimisation step of Algorithm 3 on a CPU: particles move along directions by sort-free optimal transport.

Method: the gradient of W2^2 between projected particles y and a target (equation 8) is 2/m (y - T(y)), T(y)
the target quantile at the particle's rank. Ranks come from a histogram: a particle's rank is the mass of
the lower bins plus its turn within its bin, so ties are split and the cost is O(m) without a sort. Averaged
over directions, one step at rate 1 moves a particle by (coordinates x mean displacement), which for one
direction alone is exact transport. Cost is linear in particles x marginals x directions; memory in
particles x batch, not x marginals.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from numba import njit

from understudy.pipelines.methods.privpgd.directions import TransportPlan

Float32Array = npt.NDArray[np.float32]


class CpuParticles:
    """Particles [coordinates, rows] in main memory, moved by the compiled kernel, one thread per marginal.

    Plain threads, because numba's own wait for each other by spinning, which on a busy machine costs
    several times the work itself. The marginals of a batch do not see each other's moves, so the result
    does not depend on them.
    """

    def __init__(self, points: Float32Array, plan: TransportPlan, bins: int) -> None:
        self._points = np.ascontiguousarray(points)
        self._plan = plan
        self._bins = bins
        self._threads = ThreadPoolExecutor(max_workers=os.cpu_count())
        self._moves: list[Float32Array] = []
        self._projected: list[Float32Array] = []

    def step(self, chosen: npt.NDArray[np.intp], slices: npt.NDArray[np.intp], rate: float) -> float:
        """Move all particles for the marginals `chosen`, along pool directions `slices` [marginals,
        directions].

        Returns the mean squared displacement, an estimate of the chosen marginals' mean SW2^2 before the
        move.
        """
        plan = self._plan
        while len(self._moves) < len(chosen):
            self._moves.append(np.empty((plan.axes.shape[1], self._points.shape[1]), dtype=np.float32))
            self._projected.append(np.empty(self._points.shape[1], dtype=np.float32))
        losses = list(self._threads.map(self._displace, range(len(chosen)), chosen, slices))
        for axis in range(len(self._points)):
            terms = [
                (float(plan.weight[s]), self._moves[k][j])
                for k, s in enumerate(chosen)
                for j in range(plan.width[s])
                if plan.axes[s, j] == axis
            ]
            say = sum(weight for weight, _ in terms)
            for weight, move in terms:
                _move(self._points[axis], move, np.float32(rate * weight / say))
            if terms:
                np.clip(self._points[axis], 0.0, 1.0, out=self._points[axis])
        return float(np.mean(losses))

    def points(self) -> Float32Array:
        self._threads.shutdown()
        return self._points

    def _displace(self, k: int, s: int, slices: npt.NDArray[np.intp]) -> float:
        plan, width = self._plan, self._plan.width[s]
        return float(
            _displace(
                self._points,
                plan.axes[s, :width],
                plan.directions[s, slices, :width],
                plan.low[s, slices],
                plan.span[s, slices],
                plan.quantiles[s],
                slices,
                self._bins,
                self._moves[k],
                self._projected[k],
            )
        )


@njit(cache=True, nogil=True, fastmath=True)
def _displace(
    points: np.ndarray,
    axes: np.ndarray,
    directions: np.ndarray,
    low: np.ndarray,
    span: np.ndarray,
    tables: np.ndarray,
    slices: np.ndarray,
    bins: int,
    moves: np.ndarray,
    gaps: np.ndarray,
) -> float:
    """Fill `moves` [coordinates, rows] with width times the mean displacement over the directions."""
    rows = points.shape[1]
    width = len(axes)
    to_level = tables.shape[1] / rows
    turn = np.empty(bins + 1, dtype=np.int64)
    loss = 0.0
    for d in range(len(slices)):
        per_unit = np.float32(bins) / span[d]
        least = low[d]
        gaps[:] = -least
        for j in range(width):
            theta, along = directions[d, j], points[axes[j]]
            for i in range(rows):
                gaps[i] += theta * along[i]
        turn[:] = 0
        for i in range(rows):
            turn[min(max(int(gaps[i] * per_unit), 0), bins - 1) + 1] += 1
        for b in range(bins):
            turn[b + 1] += turn[b]
        table = tables[slices[d]]
        for i in range(rows):
            b = min(max(int(gaps[i] * per_unit), 0), bins - 1)
            rank = turn[b]
            turn[b] = rank + 1
            gap = table[int((rank + 0.5) * to_level)] - least - gaps[i]
            loss += gap * gap
            gaps[i] = gap
        for j in range(width):
            share, move = directions[d, j] * np.float32(width) / np.float32(len(slices)), moves[j]
            if d == 0:
                for i in range(rows):
                    move[i] = share * gaps[i]
            else:
                for i in range(rows):
                    move[i] += share * gaps[i]
    return float(loss / (rows * len(slices)))


@njit(cache=True, nogil=True, fastmath=True)
def _move(along: np.ndarray, move: np.ndarray, rate: np.float32) -> None:
    for i in range(len(along)):
        along[i] += rate * move[i]
