"""The paper's metrics against brute force that shares no code with them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from benchmarks.papers import privpgd_metrics as metrics

SIZES = [4, 3, 6, 2]


def table(seed: int, rows: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, k, rows) for k in SIZES], axis=1)
    codes[:, 2] = np.minimum(codes[:, 2], codes[:, 0] + 2)
    return codes


REAL, FAKE = table(0, 230), table(1, 170)


def test_total_variation_by_counting_rows() -> None:
    distances = []
    for a, b in combinations(range(4), 2):
        real = [tuple(row) for row in REAL[:, [a, b]]]
        fake = [tuple(row) for row in FAKE[:, [a, b]]]
        cells = set(real) | set(fake)
        distances.append(sum(abs(real.count(c) / 230 - fake.count(c) / 170) for c in cells) / 2)
    assert metrics.average_total_variation(REAL, FAKE, SIZES) == pytest.approx(np.mean(distances))


def test_sliced_w1_by_scipy_on_the_rows() -> None:
    turns = np.random.default_rng(7).normal(size=(9, 2))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    distances = []
    for a, b in combinations(range(4), 2):

        def place(codes: np.ndarray, a: int = a, b: int = b) -> np.ndarray:
            return np.stack([(2 * codes[:, a] + 1) / (2 * SIZES[a]), (2 * codes[:, b] + 1) / (2 * SIZES[b])])

        distances += [wasserstein_distance(t @ place(REAL), t @ place(FAKE)) for t in turns]
    ours = metrics.average_sliced_w1(REAL, FAKE, SIZES, np.random.default_rng(7), directions=9)
    assert ours == pytest.approx(np.mean(distances), rel=1e-9)


def test_covariance_error_by_loops() -> None:
    def covariance(codes: np.ndarray) -> np.ndarray:
        z = [[(2 * v + 1) / (2 * k) for v, k in zip(row, SIZES, strict=True)] for row in codes]
        means = [sum(row[i] for row in z) / len(z) for i in range(4)]
        return np.array(
            [[sum((r[i] - means[i]) * (r[j] - means[j]) for r in z) / len(z) for j in range(4)] for i in range(4)]
        )

    ours, theirs = covariance(FAKE), covariance(REAL)
    expected = np.sqrt(((ours - theirs) ** 2).sum()) / np.sqrt((ours**2).sum())
    assert metrics.covariance_error(REAL, FAKE, SIZES) == pytest.approx(expected)


def test_counting_queries_by_loops() -> None:
    queries = metrics.draw_counting_queries(REAL, SIZES, np.random.default_rng(3), 40)
    assert len(queries) == 40
    for query in queries:
        assert len(set(query.columns)) == 3
        assert 0.05 <= query.answer(REAL) <= 0.95
        inside = sum(
            all(low <= row[c] <= high for c, low, high in zip(query.columns, query.low, query.high, strict=True))
            for row in FAKE
        )
        assert query.answer(FAKE) == pytest.approx(inside / 170)


def test_threshold_queries_by_loops() -> None:
    queries = metrics.draw_threshold_queries(REAL, SIZES, np.random.default_rng(3), 40)
    for query in queries:
        above = sum(
            sum(w * row[c] for w, c in zip(query.weights, query.columns, strict=True)) > query.bound for row in REAL
        )
        assert query.answer(REAL) == pytest.approx(above / 230)
        assert np.linalg.norm(query.weights) == pytest.approx(1.0)
    answers = [query.answer(REAL) for query in queries]
    assert min(answers) < 0.3 < 0.7 < max(answers)


def test_relative_query_error_by_hand() -> None:
    queries = [metrics.CountingQuery((0,), (0,), (1,)), metrics.CountingQuery((1,), (2,), (2,))]
    real = np.array([[0, 2], [3, 0], [1, 1], [2, 2]])
    fake = np.array([[0, 0], [3, 0], [3, 1], [3, 2]])
    # Real answers 1/2 and 1/2, synthetic ones 1/4 and 1/4.
    assert metrics.query_error(queries, real, fake) == pytest.approx(0.5)


def test_downstream_error_tells_a_useful_table_from_a_useless_one() -> None:
    rng = np.random.default_rng(5)
    real = table(6, 1500)
    real[:, 3] = (real[:, 0] >= 2).astype(int)
    useless = real.copy()
    useless[:, 3] = rng.permutation(useless[:, 3])
    held_out = real[1000:]
    assert metrics.downstream_error(real[:1000], held_out, SIZES, 3) == 0.0
    assert metrics.downstream_error(useless[:1000], held_out, SIZES, 3) > 0.25
    assert metrics.downstream_error(real[:1000], held_out, SIZES, 3, regression=True) < 1e-3
    constant = real[:1000].copy()
    constant[:, 3] = 1
    share = np.mean(held_out[:, 3] != 1)
    assert metrics.downstream_error(constant, held_out, SIZES, 3) == pytest.approx(share)


def test_a_table_is_at_distance_zero_from_itself() -> None:
    assert metrics.average_total_variation(REAL, REAL, SIZES) == 0.0
    assert metrics.average_sliced_w1(REAL, REAL, SIZES, np.random.default_rng(0)) == pytest.approx(0.0, abs=1e-12)
    assert metrics.covariance_error(REAL, REAL, SIZES) == 0.0
    assert metrics.covariance_error(REAL, np.zeros((5, 4), dtype=int), SIZES) == float("inf")
