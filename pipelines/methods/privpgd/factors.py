"""What all pairs say together: the factors that their interactions share.

Method: the interactions of all pairs of columns are the blocks of one symmetric matrix (Burt's matrix of multiple
correspondence analysis, less what independence explains). A few latent factors, such as age or wealth, show in many
blocks at once and stand out from the noise of the whole matrix where no single block shows them. Eigenvalues x
within the bulk of the noise, |x| <= 2 s with s^2 = variance x dimension, are dropped and the others shrunk to
sqrt(x^2 - 4 s^2), which is optimal for squared error in symmetric white noise (Donoho, Gavish and Johnstone 2018).
Blocks without a measurement, the diagonal ones among them, are filled in from the fit itself, round by round; blocks
with more noise than the best-known one count for less.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.stein import Shrunk

FloatArray = npt.NDArray[np.float64]
Pair = tuple[int, ...]

ROUNDS = 10
# An eigendecomposition costs the cube of this. The widest columns are left out first: their noise hides any factor.
MOST_CODES = 1000
FEWEST_COLUMNS = 3


def shared_interactions(residuals: Mapping[Pair, FloatArray], variances: Mapping[Pair, float]) -> dict[Pair, Shrunk]:
    """The part of each interaction that follows the factors of all, for pairs of the columns that fit in.

    A residual sums to zero along both axes and holds what that leaves of noise of the given variance per cell.
    """
    places = _places(residuals)
    inside = {pair: table for pair, table in residuals.items() if all(column in places for column in pair)}
    if len(places) < FEWEST_COLUMNS or not inside:
        return {}
    least = min(variances[pair] for pair in inside)
    codes = sum(place.stop - place.start for place in places.values())
    observed, trust = np.zeros((codes, codes)), np.zeros((codes, codes))
    for pair, table in inside.items():
        row, column = (places[c] for c in pair)
        observed[row, column], observed[column, row] = table, table.T
        trust[row, column] = trust[column, row] = least / variances[pair]
    # Each column's codes sum to zero, which takes one dimension of the noise away.
    noise = float(np.sqrt(least * (codes - len(places))))
    fit, factors = np.zeros_like(observed), np.zeros((codes, 0))
    for _ in range(ROUNDS):
        fit, factors = _leading_part(fit + trust * (observed - fit), noise)
    shared = {}
    for pair, table in inside.items():
        row, column = (places[c] for c in pair)
        freedom = _freedom(table.shape, np.square(factors[row]).sum(), np.square(factors[column]).sum())
        shared[pair] = Shrunk(fit[row, column], least / variances[pair] * freedom)
    return shared


def _places(residuals: Mapping[Pair, FloatArray]) -> dict[int, slice]:
    """Where each column's codes lie in the matrix, narrowest columns first, as far as they fit."""
    sizes = {c: size for pair, table in residuals.items() for c, size in zip(pair, table.shape, strict=True)}
    places, start = {}, 0
    for column, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        if size > 1 and start + size <= MOST_CODES:
            places[column] = slice(start, start + size)
            start += size
    return places


def _leading_part(matrix: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
    """The matrix with its eigenvalues shrunk, and the eigenvectors that are left."""
    values, vectors = np.linalg.eigh(matrix)
    kept = np.abs(values) > 2.0 * noise
    values, vectors = values[kept], vectors[:, kept]
    shrunk = np.sign(values) * np.sqrt(np.square(values) - 4.0 * noise * noise)
    return (vectors * shrunk) @ vectors.T, vectors


def _freedom(shape: tuple[int, ...], rows_followed: float, columns_followed: float) -> float:
    """Of the dimensions of a block, those along a factor of its rows or columns: how far projecting diverges."""
    rows, columns = (size - 1 for size in shape)
    return rows_followed * columns + columns_followed * rows - rows_followed * columns_followed
