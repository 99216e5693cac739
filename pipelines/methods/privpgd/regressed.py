"""The pairs of one column told together: by what each of the others says of it *beside* the rest of them.

Method: the interactions of a column y with columns j are B_j = sum_k C_jk b_k, where C_jk are the covariances of the
codes of j and k, and b the coefficients of the best linear prediction of y's codes from all others (normal equations:
an identity, whatever the distribution). Denoising pair by pair asks of each B_j alone what it can be. Here b has the
prior: independent normals for each column, of neighbouring codes correlated as exp(-distance in ranks / length) where
there is an order, and between the codes of y by a matrix that starts as their covariance. So noise along directions in
which columns hardly vary, which a classifier would blow up, is not taken for a signal. The estimate is the posterior
mean, which is linear; strength, length and the part of columns without order are those of greatest likelihood, and the
matrix of a y of more than two codes is fitted by EM (Dempster, Laird and Rubin 1977). Covariances are those of tables
that were denoised before. How far the estimate is used beside the others is for `stein` to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.stein import Shrunk

FloatArray = npt.NDArray[np.float64]
Pair = tuple[int, ...]

LENGTHS = (0.1, 0.3, 1.0, 3.0)
UNORDERED = (0.05, 0.2, 1.0, 5.0)
"""Variance of a coefficient of a column without order, beside one with."""
STRENGTHS = np.geomspace(1e-4, 1e3, 43)
EM_ROUNDS = 20
MOST_CODES = 600  # of all predictors; an eigendecomposition costs the cube, and there are sixteen
FEWEST_PREDICTORS = 2
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False)
class Seen:
    """One predictor: its probabilities, how many of its first codes are in order (None: it has no order), and the noisy
    interaction [its codes, codes of y] with noise of `std` a cell before it was centred.
    """

    probabilities: FloatArray
    on_axis: int | None
    interaction: FloatArray
    std: float


def told_together(column: FloatArray, seen: Mapping[int, Seen], pairs: Mapping[Pair, FloatArray]) -> dict[int, Shrunk]:
    """Of each predictor, its interaction with the column of these probabilities, as far as all of them fit in.

    `pairs` are tables of the predictors; two of which there is none are taken for independent.
    """
    chosen = _that_fit(seen)
    if len(column) < 2 or len(chosen) < FEWEST_PREDICTORS:
        return {}
    parts = [seen[c] for c in chosen]
    ends = np.cumsum([len(part.probabilities) for part in parts])
    places = [slice(end - len(part.probabilities), end) for part, end in zip(parts, ends, strict=True)]
    std = np.concatenate([np.full(len(part.probabilities), part.std) for part in parts])
    free = _blocks([_centred_basis(len(part.probabilities)) for part in parts])
    free_of_column = _centred_basis(len(column))
    # In white noise: `white` = reach^T b + N(0, 1), codes of the column centred as well.
    white = free.T @ (np.concatenate([part.interaction for part in parts]) / std[:, None]) @ free_of_column
    reach = (_covariances(chosen, parts, places, pairs) / std[:, None]).T @ free
    alike = free_of_column.T @ (np.diag(column) - np.outer(column, column)) @ free_of_column
    values, vectors, alike = _likeliest(white, reach, parts, alike)
    along = vectors.T @ white
    if len(column) > 2:
        alike = _fitted(along, values, alike)
    strengths, turned = np.linalg.eigh(alike)
    signal = values[:, None] * np.maximum(strengths, 0.0)[None, :]
    kept = signal / (signal + 1.0)
    back = free @ vectors
    found = std[:, None] * (back @ (kept * (along @ turned)) @ turned.T @ free_of_column.T)
    freedom = np.square(back) @ kept.sum(axis=1)
    return {c: Shrunk(found[p], float(freedom[p].sum())) for c, p in zip(chosen, places, strict=True)}


def _that_fit(seen: Mapping[int, Seen]) -> list[int]:
    """The narrowest predictors: noise hides what the widest say."""
    chosen, codes = [], 0
    for c in sorted(seen, key=lambda c: (len(seen[c].probabilities), c)):
        size = len(seen[c].probabilities)
        if size > 1 and seen[c].std > 0.0 and codes + size <= MOST_CODES:
            chosen.append(c)
            codes += size
    return chosen


def _covariances(
    chosen: list[int], parts: list[Seen], places: list[slice], pairs: Mapping[Pair, FloatArray]
) -> FloatArray:
    found = np.zeros((places[-1].stop, places[-1].stop))
    for c, one, here in zip(chosen, parts, places, strict=True):
        found[here, here] = np.diag(one.probabilities) - np.outer(one.probabilities, one.probabilities)
        for d, other, there in zip(chosen, parts, places, strict=True):
            if c < d and (c, d) in pairs:
                block = pairs[c, d] - np.outer(one.probabilities, other.probabilities)
                found[here, there], found[there, here] = block, block.T
    return found


def _likeliest(
    white: FloatArray, reach: FloatArray, parts: list[Seen], alike: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Eigenvalues and vectors of what coefficients make of `white` a priori, and `alike` times their strength."""
    strengths, turned = np.linalg.eigh(alike)
    orders = {part.on_axis is not None for part in parts}
    least, best = np.inf, None
    for length in LENGTHS if True in orders else LENGTHS[:1]:
        for ratio in UNORDERED if len(orders) == 2 else (1.0,):
            prior = _blocks([_prior(part, length, ratio) for part in parts])
            values, vectors = np.linalg.eigh(reach.T @ prior @ reach)
            values = np.maximum(values, NEGLIGIBLE * max(values[-1], NEGLIGIBLE))
            signal = values[:, None] * np.maximum(strengths, 0.0)[None, :]
            squares = np.square(vectors.T @ white @ turned)
            for strength in STRENGTHS:
                spread = strength * signal + 1.0
                misfit = float(np.sum(np.log(spread) + squares / spread))
                if misfit < least:
                    least, best = misfit, (values, vectors, strength * alike)
    assert best is not None
    return best


def _prior(part: Seen, length: float, unordered: float) -> FloatArray:
    """Covariance of the coefficients of one predictor; codes off its axis have nothing to do with any other."""
    size = len(part.probabilities)
    if part.on_axis is None:
        return unordered * np.eye(size)
    found, on_axis = np.eye(size), part.on_axis
    ranks = np.cumsum(part.probabilities[:on_axis]) - part.probabilities[:on_axis] / 2
    found[:on_axis, :on_axis] = np.exp(-np.abs(ranks[:, None] - ranks[None, :]) / length)
    return found


def _fitted(along: FloatArray, values: FloatArray, alike: FloatArray) -> FloatArray:
    """The covariance between codes of y: rows of `along` are N(0, value x alike + 1)."""
    for _ in range(EM_ROUNDS):
        strengths, turned = np.linalg.eigh(alike)
        strengths = np.maximum(strengths, 0.0)
        spread = values[:, None] * strengths[None, :] + 1.0
        means = strengths[None, :] / spread * (along @ turned)
        unknown = (strengths[None, :] / spread).sum(axis=0)
        alike = turned @ ((means * values[:, None]).T @ means + np.diag(unknown)) @ turned.T / len(values)
    return alike


def _centred_basis(size: int) -> FloatArray:
    """Orthonormal columns that sum to zero."""
    basis, _ = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, 1:]]))
    return np.asarray(basis[:, 1:])


def _blocks(parts: list[FloatArray]) -> FloatArray:
    rows, columns = (np.cumsum([0, *(part.shape[axis] for part in parts)]) for axis in (0, 1))
    found = np.zeros((rows[-1], columns[-1]))
    for place, part in enumerate(parts):
        found[rows[place] : rows[place + 1], columns[place] : columns[place + 1]] = part
    return found
