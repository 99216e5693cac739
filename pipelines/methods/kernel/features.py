"""Random features of a kernel, in integers: what a record adds to a released embedding, bounded exactly.

A record is a vector x in [0, 1]^d on a public grid. A block holds F public frequencies w_1..w_F drawn from the
spectral density of a mixture of Gaussian kernels; its features are the 2F numbers A cos(w_f.x), A sin(w_f.x),
rounded. Their inner product estimates A^2 F k(x, y), k(x, y) = mean over bandwidths b of exp(-|x - y|^2 / (2 b^2)),
and they *are* the feature map of a kernel of their own whose RKHS is finite and public.

Theorem. Every record's feature vector of a block has squared L2 norm at most F m, m the largest value of c_i^2 +
  s_i^2 in the integer tables below. Frequencies and values are integers, so a phase is an integer dot product below
  2^53, exact in double precision in whatever order it is summed; its leading bits choose a table entry. Features of
  a record depend on that record alone: not on its neighbours in a block, on threads or on the vector unit.
Relation. Any: features of a record are a function of that record.
Sensitivity. sqrt(F m) a block and record, in L2; `mechanism` puts it to use.
Noise unit. None is added here.
Why not cosines in floats. A matrix product may round one row differently when another is added to its block, which
  moves *other* records' features and breaks the bound that the noise rests on.
Reference. Rahimi & Recht 2007 (random features); Harder et al. 2021 (private mean embeddings);
  docs/proofs/kernel.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import numba
import numpy as np
from scipy.ndimage import gaussian_filter1d

from understudy.pipelines.methods.kernel.edges import Edges

LEVELS = 4096
"""Steps of the value grid on [0, 1]."""
AMPLITUDE = 512
_TURN_BITS = 28
_TABLE_BITS = 16
_MOST_FREQUENCY = 2**24  # with 65,536 values of 12 bits a phase stays below 2^53
_BLOCK_ROWS = 2048


@dataclass(frozen=True)
class FeatureBlocks:
    """Public frequencies by number of block, made from a public key when they are needed.

    `bandwidths` are in units of [0, 1]-scaled values. With `smoothing` s the kernel compares pictures blurred by s
    pixels: neighbouring pixels vary together, so this spends the noise where pictures differ. With `windows` half of a
    block's frequencies see the whole picture so, and the others in equal shares a small part of it, unblurred: a
    Gaussian window of that standard deviation in pixels, at a random place. Bandwidths shrink there with the root of
    the number of pixels seen. With `edges` half of a block's frequencies see the edges of a picture instead of its
    pixels; these are their bandwidths. Frequencies are public and may be known in advance: privacy rests on the noise
    alone, and the norm of a record's features does not depend on what the frequencies are.
    """

    key: str
    width: int
    frequencies: int
    bandwidths: tuple[float, ...]
    picture: tuple[int, int, int] | None = None
    smoothing: float = 0.0
    windows: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()

    @property
    def edges_seen(self) -> Edges | None:
        return Edges(*self.picture) if self.picture is not None and self.edges else None

    @property
    def frequencies_of_edges(self) -> int:
        return self.frequencies // 2 if self.edges_seen is not None else 0

    @property
    def frequencies_of_pixels(self) -> int:
        return self.frequencies - self.frequencies_of_edges

    def integer_frequencies(self, block: int) -> np.ndarray:
        """Of pixels: whole numbers (as float64, width x frequencies), 2^-28 turns per grid step."""
        random, frequencies = _random(f"{self.key}:{block}"), self.frequencies_of_pixels
        normals = random.standard_normal((self.width, frequencies))
        scales = np.resize(np.array(self.bandwidths), frequencies)
        seen = self.seen_through
        whole_pictures = seen == 0
        if self.picture is not None and self.smoothing > 0:
            normals[:, whole_pictures] = _blurred(normals[:, whole_pictures], self.picture, self.smoothing)
        if self.picture is not None and self.windows:
            centres = random.random((2, frequencies)) * np.array(self.picture[:2])[:, None]
            for window in self.windows:
                of_it = seen == window
                normals[:, of_it] *= _envelopes(self.picture, centres[:, of_it], window)
                scales[of_it] *= math.sqrt(min(1.0, math.pi * window**2 / (self.picture[0] * self.picture[1])))
        return _whole(normals, scales)

    def integer_edge_frequencies(self, block: int) -> np.ndarray:
        """The same of edges: numbers of edges x frequencies."""
        numbers = self.edges_seen.numbers if self.edges_seen is not None else 0
        normals = _random(f"{self.key}:{block}:edges").standard_normal((numbers, self.frequencies_of_edges))
        return _whole(normals, np.resize(np.array(self.edges or (1.0,)), self.frequencies_of_edges))

    @property
    def seen_through(self) -> np.ndarray:
        """The window of each of a block's frequencies of pixels, in pixels; 0 is the whole picture."""
        parts = [0.0] * max(1, len(self.windows)) + list(self.windows)
        with_every_bandwidth = np.repeat(parts, len(self.bandwidths))
        seen: np.ndarray = np.resize(with_every_bandwidth, self.frequencies_of_pixels)
        return seen

    def float_frequencies(self, block: int) -> np.ndarray:
        """Of pixels, in radians per unit of [0, 1], for generated records (post-processing)."""
        return _radians(self.integer_frequencies(block))

    def float_edge_frequencies(self, block: int) -> np.ndarray:
        return _radians(self.integer_edge_frequencies(block))

    @property
    def largest_square(self) -> int:
        """F m: the exact bound on the squared norm of one record's features."""
        cosines, sines = tables()
        return self.frequencies * int((cosines.astype(np.int64) ** 2 + sines.astype(np.int64) ** 2).max())

    def add(self, block: int, records: np.ndarray, labels: np.ndarray, totals: np.ndarray) -> None:
        """Add the features of grid records (n x width) to the int64 totals (classes x 2F) of their classes."""
        of_pixels, of_edges = self.integer_frequencies(block), self.integer_edge_frequencies(block)
        cosines, sines = tables()
        for start in range(0, len(records), _BLOCK_ROWS):
            part = slice(start, start + _BLOCK_ROWS)
            phases = records[part].astype(np.float64) @ of_pixels
            if self.edges_seen is not None:
                edges = self.edges_seen.of(records[part]).astype(np.float64)
                phases = np.concatenate([phases, edges @ of_edges], axis=1)
            _add_kernel(phases, labels[part], cosines, sines, totals)


def _random(name: str) -> np.random.Generator:
    """Public: whoever knows the name has the same numbers."""
    return np.random.Generator(np.random.Philox(int.from_bytes(sha256(name.encode()).digest(), "big") % 2**128))


def _whole(normals: np.ndarray, bandwidths: np.ndarray) -> np.ndarray:
    """Frequencies of these bandwidths (one a column) on the integer grid."""
    turns = normals / (2 * math.pi * bandwidths) * (2**_TURN_BITS / LEVELS)
    whole: np.ndarray = np.clip(np.rint(turns), -_MOST_FREQUENCY, _MOST_FREQUENCY)
    return whole


def _radians(whole: np.ndarray) -> np.ndarray:
    radians: np.ndarray = (whole * (2 * math.pi * LEVELS / 2**_TURN_BITS)).astype(np.float32)
    return radians


def _blurred(normals: np.ndarray, picture: tuple[int, int, int], pixels: float) -> np.ndarray:
    """w for which w.x = v.(x blurred): the blur is symmetric, so it is applied to v."""
    grid = normals.reshape(*picture, -1)
    for axis in (0, 1):
        grid = gaussian_filter1d(grid, pixels, axis=axis, mode="constant")
    blurred: np.ndarray = grid.reshape(normals.shape)
    return blurred


def _envelopes(picture: tuple[int, int, int], centres: np.ndarray, window: float) -> np.ndarray:
    """Gaussian windows around these places (2 x frequencies), for every value of a picture (width x frequencies)."""
    height, width, channels = picture
    down = np.exp(-np.square((np.arange(height) + 0.5)[:, None] - centres[0]) / (2 * window**2))
    across = np.exp(-np.square((np.arange(width) + 0.5)[:, None] - centres[1]) / (2 * window**2))
    places = (down[:, None] * across[None]).reshape(height * width, -1)
    return np.repeat(places, channels, axis=0)


@lru_cache(maxsize=1)
def tables() -> tuple[np.ndarray, np.ndarray]:
    """Rounded cosines and sines of 2^16 equal steps of a turn."""
    angles = (np.arange(2**_TABLE_BITS) + 0.5) * (2 * math.pi / 2**_TABLE_BITS)
    return np.rint(AMPLITUDE * np.cos(angles)).astype(np.int32), np.rint(AMPLITUDE * np.sin(angles)).astype(np.int32)


def on_levels(values: np.ndarray) -> np.ndarray:
    """Values in [0, 1] on the public grid; NaN becomes the middle, whatever lies outside the nearest end."""
    known = np.where(np.isnan(values), np.float32(0.5), values)
    levels: np.ndarray = np.rint(np.clip(known, 0.0, 1.0) * LEVELS).astype(np.uint16)
    return levels


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _add_kernel(
    phases: np.ndarray, labels: np.ndarray, cosines: np.ndarray, sines: np.ndarray, totals: np.ndarray
) -> None:
    frequencies = phases.shape[1]
    for i in range(phases.shape[0]):
        total = totals[labels[i]]
        for f in range(frequencies):
            step = (np.int64(phases[i, f]) >> 12) & 0xFFFF  # 28 bits of a turn, of which the table uses 16
            total[f] += cosines[step]
            total[frequencies + f] += sines[step]
