"""Embedding of codes into a box, and the way back (PrivPGD section 3.1 and the finalisation step of section
3.3).

An ordered column of k codes lies on a line at (2j+1)/2k. Codes off its axis (null, other) are lifted to
height 1 along a second coordinate, so that no path between two numbers passes a null. A nominal column gets
centres with no order: two points on a line, a triangle, a tetrahedron, and from five codes on points spread
evenly over a sphere (equidistant centres need k-1 coordinates, which would cost k times the memory; nearly
even distances do not).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
import numpy.typing as npt
from numba import njit

from understudy.pipelines.methods.privpgd.problem import GridColumn

Float32Array = npt.NDArray[np.float32]
Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Embedding:
    """`centres[c]` has one row per code of column c; `slots[c]` are its coordinates among all coordinates."""

    centres: tuple[Float32Array, ...]
    slots: tuple[tuple[int, ...], ...]

    @property
    def width(self) -> int:
        return sum(len(slots) for slots in self.slots)

    def coordinates(self, columns: Sequence[int]) -> tuple[int, ...]:
        return tuple(slot for column in columns for slot in self.slots[column])

    def cell_positions(self, columns: Sequence[int]) -> npt.NDArray[np.float64]:
        """Positions of all cells over `columns`, in row-major order of the cells: [cells, coordinates]."""
        grids = np.meshgrid(*(np.arange(len(self.centres[c])) for c in columns), indexing="ij")
        parts = [self.centres[c][grid.ravel()] for c, grid in zip(columns, grids, strict=True)]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def place(self, codes: Int32Array) -> Float32Array:
        """Particles [coordinates, rows] at their codes' centres."""
        points = np.empty((self.width, codes.shape[0]), dtype=np.float32)
        for column, (centres, slots) in enumerate(zip(self.centres, self.slots, strict=True)):
            points[list(slots)] = centres[codes[:, column]].T
        return points

    def snap(self, points: Float32Array) -> Int32Array:
        """The codes of the nearest centres: [rows, columns]."""
        codes = np.empty((points.shape[1], len(self.centres)), dtype=np.int32)
        for column, (centres, slots) in enumerate(zip(self.centres, self.slots, strict=True)):
            if len(slots) == 1:
                size = len(centres)
                codes[:, column] = np.clip(np.floor(points[slots[0]] * np.float32(size)), 0, size - 1)
            else:
                codes[:, column] = _nearest(np.ascontiguousarray(points[list(slots)]), centres)
        return codes


def build_embedding(columns: Sequence[GridColumn]) -> Embedding:
    centres = tuple(_centres(column).astype(np.float32) for column in columns)
    slots, start = [], 0
    for table in centres:
        slots.append(tuple(range(start, start + table.shape[1])))
        start += table.shape[1]
    return Embedding(centres, tuple(slots))


def _centres(column: GridColumn) -> npt.NDArray[np.float64]:
    size = column.size
    off_axis = sorted(set(column.unordered_codes))
    if size <= 2 or (column.ordered and not off_axis):
        return _line(size)[:, None]
    if not column.ordered or size - len(off_axis) <= 1:
        return _scattered(size)
    on_axis = [code for code in range(size) if code not in off_axis]
    centres = np.zeros((size, 2))
    centres[on_axis, 0] = _line(len(on_axis))
    centres[off_axis, 0] = _line(len(off_axis))
    centres[off_axis, 1] = 1.0
    return centres


def _line(size: int) -> npt.NDArray[np.float64]:
    return np.asarray((2.0 * np.arange(size) + 1.0) / (2.0 * size), dtype=np.float64)


def _scattered(size: int) -> npt.NDArray[np.float64]:
    """`size` >= 3 points of [0,1]^2 or [0,1]^3 without an order: simplex corners, or a Fibonacci sphere."""
    if size == 3:
        turns = 2.0 * pi * np.arange(3) / 3.0
        return 0.5 + 0.5 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    if size == 4:
        return np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=np.float64)
    height = 1.0 - (2.0 * np.arange(size) + 1.0) / size
    turns = pi * (3.0 - sqrt(5.0)) * np.arange(size)
    radius = np.sqrt(1.0 - height**2)
    return 0.5 + 0.5 * np.stack([radius * np.cos(turns), radius * np.sin(turns), height], axis=1)


@njit(cache=True, nogil=True)
def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    width, rows = points.shape
    codes = np.empty(rows, dtype=np.int32)
    for row in range(rows):
        best, best_distance = 0, np.float32(np.inf)
        for code in range(centres.shape[0]):
            distance = np.float32(0.0)
            for axis in range(width):
                gap = points[axis, row] - centres[code, axis]
                distance += gap * gap
            if distance < best_distance:
                best, best_distance = code, distance
        codes[row] = best
    return codes
