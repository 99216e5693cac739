"""The six metrics of the PrivPGD paper (section 4.1) between a real and a synthetic table of codes.

All compare with the real rows themselves, so their values are not private: keep them in the confidential
store. Codes are embedded at (2j+1)/2k, equation 4. Two choices against the paper's text: total variation is
half the L1 distance, as its definition says (the paper's tables print the whole), and a threshold query is
<x, theta> > b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.integer]
FloatArray = npt.NDArray[np.float64]

SPARSITY = 3
QUERIES = 200
DIRECTIONS = 50
COUNTING_RANGE = (0.05, 0.95)
MOST_DRAWS_A_QUERY = 2000


def embed(codes: Codes, sizes: Sequence[int]) -> FloatArray:
    return np.asarray((2.0 * codes + 1.0) / (2.0 * np.asarray(sizes)))


def marginal(codes: Codes, columns: Sequence[int], sizes: Sequence[int]) -> FloatArray:
    """Shares of the rows in the cells of `columns`."""
    shape = [sizes[c] for c in columns]
    cells = np.ravel_multi_index([codes[:, c] for c in columns], shape)
    return np.asarray(np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape) / len(codes))


def downstream_error(
    synthetic: Codes,
    held_out: Codes,
    sizes: Sequence[int],
    label: int,
    *,
    regression: bool = False,
    seed: int = 0,
) -> float:
    """Error on real held-out rows of gradient boosting trained on the synthetic table: 0-1 loss or squared
    error.
    """
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    features = [c for c in range(len(sizes)) if c != label]
    train, test = embed(synthetic, sizes), embed(held_out, sizes)
    if regression:
        model = GradientBoostingRegressor(random_state=seed).fit(train[:, features], train[:, label])
        return float(np.mean((model.predict(test[:, features]) - test[:, label]) ** 2))
    seen = np.unique(synthetic[:, label])
    if len(seen) == 1:
        return float(np.mean(held_out[:, label] != seen[0]))
    model = GradientBoostingClassifier(random_state=seed).fit(train[:, features], synthetic[:, label])
    return float(np.mean(model.predict(test[:, features]) != held_out[:, label]))


def covariance_error(real: Codes, synthetic: Codes, sizes: Sequence[int]) -> float:
    """Frobenius distance of the covariance matrices over the norm of the synthetic one, as in the paper."""
    ours = np.atleast_2d(np.cov(embed(synthetic, sizes), rowvar=False, bias=True))
    theirs = np.atleast_2d(np.cov(embed(real, sizes), rowvar=False, bias=True))
    norm = float(np.linalg.norm(ours))
    return float(np.linalg.norm(ours - theirs)) / norm if norm > 0 else float("inf")


@dataclass(frozen=True)
class CountingQuery:
    """The share of rows with low <= code <= high in each of a few columns."""

    columns: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    def answer(self, codes: Codes) -> float:
        inside = np.ones(len(codes), dtype=bool)
        for column, low, high in zip(self.columns, self.low, self.high, strict=True):
            inside &= (codes[:, column] >= low) & (codes[:, column] <= high)
        return float(inside.mean())


@dataclass(frozen=True)
class ThresholdQuery:
    """The share of rows with sum of weight * code above a bound."""

    columns: tuple[int, ...]
    weights: tuple[float, ...]
    bound: float

    def answer(self, codes: Codes) -> float:
        return float(np.mean(codes[:, self.columns] @ np.asarray(self.weights) > self.bound))


def draw_counting_queries(
    real: Codes, sizes: Sequence[int], rng: np.random.Generator, count: int = QUERIES
) -> list[CountingQuery]:
    """Random boxes in three columns that hold between 5% and 95% of the real rows, by rejection."""
    queries: list[CountingQuery] = []
    for _ in range(count * MOST_DRAWS_A_QUERY):
        columns = _some_columns(len(sizes), rng)
        low = tuple(int(rng.integers(0, sizes[c])) for c in columns)
        high = tuple(int(rng.integers(start, sizes[c])) for c, start in zip(columns, low, strict=True))
        query = CountingQuery(columns, low, high)
        if COUNTING_RANGE[0] <= query.answer(real) <= COUNTING_RANGE[1]:
            queries.append(query)
            if len(queries) == count:
                break
    return queries


def draw_threshold_queries(
    real: Codes, sizes: Sequence[int], rng: np.random.Generator, count: int = QUERIES
) -> list[ThresholdQuery]:
    """Random directions in three columns with a bound uniform over the real rows' range."""
    queries = []
    for _ in range(count):
        columns = _some_columns(len(sizes), rng)
        weights = rng.normal(size=len(columns))
        weights /= np.linalg.norm(weights)
        scores = real[:, columns] @ weights
        bound = float(rng.uniform(scores.min(), scores.max()))
        queries.append(ThresholdQuery(columns, tuple(weights), bound))
    return queries


def query_error(queries: Sequence[CountingQuery | ThresholdQuery], real: Codes, synthetic: Codes) -> float:
    """Mean absolute difference of the answers over the mean real answer (equation 9)."""
    theirs = np.array([query.answer(real) for query in queries])
    ours = np.array([query.answer(synthetic) for query in queries])
    return float(np.mean(np.abs(ours - theirs)) / np.mean(theirs))


def average_sliced_w1(
    real: Codes,
    synthetic: Codes,
    sizes: Sequence[int],
    rng: np.random.Generator,
    directions: int = DIRECTIONS,
) -> float:
    """Mean over all pairs of columns, and over random directions, of W1 between the projected marginals."""
    turns = rng.normal(size=(directions, 2))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    orders: dict[tuple[int, int], tuple[npt.NDArray[np.intp], FloatArray]] = {}
    distances = []
    for a, b in combinations(range(len(sizes)), 2):
        shape = (sizes[a], sizes[b])
        if shape not in orders:
            places = (
                turns[:, :1, None] * embed(np.arange(shape[0]), [shape[0]])[None, :, None]
                + turns[:, 1:, None] * embed(np.arange(shape[1]), [shape[1]])[None, None, :]
            ).reshape(directions, -1)
            order = np.argsort(places, axis=1)
            orders[shape] = order, np.diff(np.take_along_axis(places, order, axis=1), axis=1)
        order, steps = orders[shape]
        gap = (marginal(real, (a, b), sizes) - marginal(synthetic, (a, b), sizes)).ravel()
        # Vallender: W1 is the area between the two distribution functions.
        distances.append(float(np.mean(np.sum(np.abs(np.cumsum(gap[order], axis=1)[:, :-1]) * steps, axis=1))))
    return float(np.mean(distances))


def average_total_variation(real: Codes, synthetic: Codes, sizes: Sequence[int], order: int = 2) -> float:
    """Mean over all marginals of `order` columns of half the L1 distance."""
    return float(
        np.mean(
            [
                0.5 * np.abs(marginal(real, s, sizes) - marginal(synthetic, s, sizes)).sum()
                for s in combinations(range(len(sizes)), order)
            ]
        )
    )


def _some_columns(count: int, rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(c) for c in np.sort(rng.choice(count, size=min(SPARSITY, count), replace=False)))
