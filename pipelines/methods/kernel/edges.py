"""Edges of a picture in whole numbers: how much it brightens in each of eight directions, by small squares.

Pictures of one class differ by thickness, slant and place of their strokes, or by a pattern; pixels change with all of
these at once, sums of one-sided slopes over small squares hardly do, so a mean of them tells more at the same noise.

Theorem. The edges of a record are whole numbers from 0 to LEVELS and a function of that record alone: differences,
  products with public whole numbers, sums and floor divisions of 64-bit integers that stay below 2^53. So they are a
  record on the value grid, and whatever `features` proves of a record's features holds for those of its edges.
Relation. Any: a function of one record.
Sensitivity. None of its own; cosines of edges have the same exact norm as cosines of pixels.
Noise unit. None is added here.
Reference. Dalal & Triggs 2005 (histograms of oriented gradients, here without normalisation); docs/proofs/kernel.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

DIRECTIONS = 8
SQUARES_A_SIDE = 7
"""About as many squares along a picture's shorter side: of four pixels, where it has 28."""
_UNIT = 1024
_COSINES = np.rint(_UNIT * np.cos(2 * math.pi * np.arange(DIRECTIONS) / DIRECTIONS)).astype(np.int64)
_SINES = np.rint(_UNIT * np.sin(2 * math.pi * np.arange(DIRECTIONS) / DIRECTIONS)).astype(np.int64)


@dataclass(frozen=True)
class Edges:
    """Of pictures of this height, width and number of channels, whose channels are summed first."""

    height: int
    width: int
    channels: int

    @property
    def square(self) -> int:
        """Pixels a side of the squares; what is left over at the right and below has none."""
        return max(1, min(self.height, self.width) // SQUARES_A_SIDE)

    @property
    def numbers(self) -> int:
        return DIRECTIONS * (self.height // self.square) * (self.width // self.square)

    def of(self, records: np.ndarray) -> np.ndarray:
        """Edges (n x numbers) of grid records, on the same grid."""
        pixels = records.reshape(-1, self.height, self.width, self.channels).sum(axis=3, dtype=np.int64)
        around = np.pad(pixels, ((0, 0), (1, 1), (1, 1)), mode="edge")
        across = around[:, 1:-1, 2:] - around[:, 1:-1, :-2]
        down = around[:, 2:, 1:-1] - around[:, :-2, 1:-1]
        slopes = (across * cosine + down * sine for cosine, sine in zip(_COSINES, _SINES, strict=True))
        found = [self._averaged(np.maximum(slope, 0)) for slope in slopes]
        edges: np.ndarray = np.stack(found, axis=1).reshape(len(records), self.numbers)
        return edges

    def _averaged(self, slopes: np.ndarray) -> np.ndarray:
        side, rows, columns = self.square, self.height // self.square, self.width // self.square
        whole = slopes[:, : rows * side, : columns * side].reshape(-1, rows, side, columns, side)
        # A slope is that over two pixels, and cosine and sine together are less than 3/2: at most LEVELS.
        average: np.ndarray = whole.sum(axis=(2, 4)) // (2 * _UNIT * self.channels * side**2)
        return average
