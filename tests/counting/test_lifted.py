"""Marginals from residuals: exact without noise, best of all linear estimates, with the noise they say."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.counting.lifted import Residual, Residuals, centred_counts
from understudy.pipelines.counting.residuals import differences
from understudy.pipelines.counting.shares import subsets

SIZES = (2, 3, 4)
ASKED: tuple[tuple[int, ...], ...] = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
STDS = {(): 3.0, (0,): 1.5, (1,): 2.0, (2,): 0.7, (0, 1): 2.5, (0, 2): 1.1, (1, 2): 4.0}


def marginal_of(table: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
    return table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in clique))


def residuals_of(table: np.ndarray, stds: dict[tuple[int, ...], float] = STDS) -> Residuals:
    """Through what would be released of them: differences of G times the counts."""
    found = {}
    for clique, std in stds.items():
        shape = tuple(SIZES[column] for column in clique)
        released = differences(math.prod(shape) * marginal_of(table, clique)).reshape(-1)
        found[clique] = Residual(centred_counts(released, shape), std)
    return Residuals(ASKED, SIZES, found)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 10**12), min_size=24, max_size=24))
def test_without_noise_every_marginal_is_exact(counts: list[int]) -> None:
    table = np.array(counts, dtype=np.int64).reshape(SIZES)
    told = residuals_of(table)
    assert told.total == table.sum()
    for clique in ASKED:
        assert told.marginal(clique) == pytest.approx(marginal_of(table, clique), rel=1e-9, abs=1e-3)


def lifting(clique: tuple[int, ...]) -> np.ndarray:
    """The estimate of a marginal's cells as a matrix on the independent noise of all cells before centring."""
    columns = []
    for measured in STDS:
        shape = tuple(SIZES[column] for column in measured)
        for cell in np.ndindex(*shape):
            unit = np.zeros(shape)
            unit[cell] = 1.0
            for axis in range(len(shape)):
                unit = unit - unit.mean(axis=axis, keepdims=True)
            alone = Residuals(ASKED, SIZES, {measured: Residual(unit, 1.0)})
            columns.append(STDS[measured] * (alone.marginal(clique).ravel() if set(measured) <= set(clique) else 0.0))
    width = math.prod(SIZES[column] for column in clique)
    return np.stack([np.broadcast_to(column, width) for column in columns], axis=1)


@pytest.mark.parametrize("clique", ASKED)
def test_variance_and_ties_of_the_noise_by_brute_force(clique: tuple[int, ...]) -> None:
    told = residuals_of(np.zeros(SIZES, dtype=np.int64))
    covariance = lifting(clique) @ lifting(clique).T
    assert np.diag(covariance) == pytest.approx(told.variance(clique))
    correlation = covariance / covariance[0, 0]
    assert told.noise_cells(clique) == pytest.approx(float(np.square(correlation).sum()))


@pytest.mark.parametrize("clique", ASKED)
def test_no_linear_unbiased_estimate_has_less_noise(clique: tuple[int, ...]) -> None:
    """Generalised least squares over the whole table of 24 cells, the slow way."""
    cells = np.eye(24).reshape(24, *SIZES)
    rows, weights = [], []
    for measured, std in STDS.items():
        answers = np.stack([marginal_of(cell, measured) for cell in cells], axis=-1)
        for axis in range(len(measured)):
            answers = answers - answers.mean(axis=axis, keepdims=True)
        rows.append(answers.reshape(-1, 24) / std)  # centred noise is white in its own space
        weights.append(std)
    information = np.concatenate(rows).T @ np.concatenate(rows)
    wanted = np.stack([marginal_of(cell, clique).ravel() for cell in cells], axis=-1)
    best = wanted @ np.linalg.pinv(information) @ wanted.T
    assert np.diag(best) == pytest.approx(residuals_of(np.zeros(SIZES, dtype=np.int64)).variance(clique))


def test_estimates_agree_wherever_they_overlap() -> None:
    rng = np.random.default_rng(0)
    noisy = {}
    for clique, std in STDS.items():
        shape = tuple(SIZES[column] for column in clique)
        noise = np.rint(1000 * std * rng.normal(size=shape)).astype(np.int64)
        noisy[clique] = Residual(centred_counts(differences(noise).reshape(-1), shape), std)
    told = Residuals(ASKED, SIZES, noisy)
    for a, b in combinations(range(3), 2):
        pair = told.marginal((a, b))
        assert pair.sum(axis=1) == pytest.approx(told.marginal((a,)))
        assert pair.sum(axis=0) == pytest.approx(told.marginal((b,)))
        assert pair.sum() == pytest.approx(told.total)


def test_a_column_of_one_value_adds_nothing() -> None:
    told = Residuals(((0,), (0, 1)), (3, 1), {(): Residual(np.array(30.0), 1.0), (0,): Residual(np.zeros(3), 1.0)})
    assert told.marginal((0, 1)).tolist() == [[10.0], [10.0], [10.0]]
    assert told.variance((0, 1)) == pytest.approx(told.variance((0,)))
    assert subsets((0, 1)) == [(), (0,), (1,), (0, 1)]
