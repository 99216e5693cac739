"""Sums from residuals: unbiased estimates, and the covariance of their noise to the last digit, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inference.tables import (
    COLUMNS,
    PAIRS,
    SIZES,
    TRIPLE,
    closure,
    counts_of,
    noise_of_cells,
    some_codes,
    told_of,
    uneven,
)
from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.released import KIND, RESIDUALS, marginal_facts
from understudy.pipelines.counting.residuals import differences
from understudy.pipelines.inference.residuals import ROUNDING, residuals_of
from understudy.pipelines.inference.sums import Grouping, NotMeasured, sums
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.table.domain import TableDomain

EVERYTHING = (*PAIRS, TRIPLE)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([*PAIRS, TRIPLE]),
    st.integers(0, 10_000),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_values_and_covariances_are_those_of_the_dense_covariance(
    columns: tuple[int, ...], seed: int, outer: int, inner: int
) -> None:
    """Whatever the functions, and however columns are shared out between outer groups, inner groups and the rest."""
    rng = np.random.default_rng(seed)
    told = told_of(some_codes(60, seed), EVERYTHING, uneven(EVERYTHING), seed)
    shuffled = tuple(int(column) for column in rng.permutation(columns))
    grouping = Grouping(shuffled[: min(outer, 1)], shuffled[min(outer, 1) : min(outer, 1) + min(inner, 2)])
    shape = [SIZES[column] for column in columns]
    functions = rng.normal(size=(2, *shape))
    found = sums(told.residuals, columns, functions, grouping)
    estimated, covariance = told.residuals.marginal(columns), noise_of_cells(told, columns)
    grid = np.indices(shape)

    def chosen(number: int, out: tuple[int, ...], inn: tuple[int, ...]) -> np.ndarray:
        inside = np.ones(shape, bool)
        for column, code in zip(grouping.columns, (*out, *inn), strict=True):
            inside &= grid[columns.index(column)] == code
        return functions[number] * inside

    outers = list(np.ndindex(*(SIZES[column] for column in grouping.outer)))
    inners = list(np.ndindex(*(SIZES[column] for column in grouping.inner)))
    for o, out in enumerate(outers):
        rows = np.stack([chosen(number, out, inn).ravel() for inn in inners for number in range(2)])
        np.testing.assert_allclose(found.values[o].ravel(), rows @ estimated.ravel(), atol=1e-9)
        expected = rows @ covariance @ rows.T
        np.testing.assert_allclose(found.noise[o].reshape(expected.shape), expected, atol=1e-9)


def test_without_noise_the_sums_are_those_of_the_table() -> None:
    codes = some_codes(200, 4)
    told = told_of(codes, EVERYTHING)
    weights = np.random.default_rng(1).normal(size=(1, *[SIZES[column] for column in TRIPLE]))
    found = sums(told.residuals, TRIPLE, weights, Grouping())
    assert found.values.item() == pytest.approx(float((weights[0] * counts_of(codes, TRIPLE)).sum()), abs=1e-5)


def test_what_was_not_measured_together_is_refused_and_only_what_is_needed_is_asked_for() -> None:
    told = told_of(some_codes(50, 1), PAIRS)
    full = np.random.default_rng(1).normal(size=(1, *[SIZES[column] for column in TRIPLE]))
    with pytest.raises(NotMeasured) as refused:
        sums(told.residuals, TRIPLE, full, Grouping())
    assert refused.value.columns == TRIPLE
    # A sum of functions of pairs, written over three columns, needs pairs only.
    pairs = full.mean(axis=3, keepdims=True) + full.mean(axis=1, keepdims=True)
    found = sums(told.residuals, TRIPLE, np.broadcast_to(pairs, full.shape).copy(), Grouping())
    assert np.isfinite(found.values).all()


def test_a_column_of_one_value_has_nothing_to_tell() -> None:
    told = told_of(some_codes(50, 1), PAIRS)
    sizes = (*SIZES, 1)
    wider = Residuals((), sizes, told.residuals.by_clique)
    functions = np.ones((1, SIZES[0], 1))
    found = sums(wider, (0, 4), functions, Grouping((4,), (0,)))
    np.testing.assert_allclose(found.values[0, :, 0], told.residuals.marginal((0,)), atol=1e-9)


def test_marginals_noised_cell_by_cell_become_the_best_residuals() -> None:
    """Least squares on all noisy cells together, weighed by their noise, finds the same counts and the same noise."""
    rng, codes = np.random.default_rng(5), some_codes(300, 5)
    cliques = [(0,), (1,), (0, 1), (1, 2), (0, 1, 2)]
    stds = [2.0, 3.0, 1.5, 2.5, 4.0]
    arrays = {
        f"marginal_{i}": np.rint(counts_of(codes, clique) + rng.normal(0, std, [SIZES[c] for c in clique])).astype(int)
        for i, (clique, std) in enumerate(zip(cliques, stds, strict=True))
    }
    facts = marginal_facts(cliques, stds, "rounded", TableDomain(COLUMNS), None)
    told = residuals_of(Measurement(KIND, facts, arrays))
    cells = list(np.ndindex(*(SIZES[column] for column in TRIPLE)))
    design, wanted, weight = [], [], []
    for i, (clique, std) in enumerate(zip(cliques, stds, strict=True)):
        for cell in np.ndindex(*(SIZES[column] for column in clique)):
            design.append([all(full[c] == code for c, code in zip(clique, cell, strict=True)) for full in cells])
            wanted.append(arrays[f"marginal_{i}"][cell])
            weight.append(1 / (std**2 + ROUNDING))
    matrix, right, scale = np.array(design, float), np.array(wanted, float), np.array(weight)
    information = matrix.T @ (matrix * scale[:, None])
    best = np.linalg.solve(information, matrix.T @ (right * scale))
    np.testing.assert_allclose(told.marginal(TRIPLE).ravel(), best, atol=1e-8)
    assert told.variance(TRIPLE) == pytest.approx(np.linalg.inv(information)[0, 0])


def test_residuals_keep_their_noise_and_what_rounding_adds() -> None:
    codes, sets = some_codes(100, 2), closure(PAIRS)
    arrays, stds = {}, []
    for i, clique in enumerate(sets):
        scale = int(np.prod([SIZES[column] for column in clique]))
        arrays[f"residual_{i}"] = differences(scale * counts_of(codes, clique).astype(np.int64))
        stds.append(2.0 * scale)
    facts = marginal_facts(sets, stds, "rounded", TableDomain(COLUMNS), None)
    measured = Measurement(RESIDUALS, {**facts, "asked": [list(clique) for clique in PAIRS]}, arrays)
    told = residuals_of(measured)
    np.testing.assert_allclose(told.marginal((0, 2)), counts_of(codes, (0, 2)), atol=1e-9)
    assert told.by_clique[()].std ** 2 == pytest.approx(4 + ROUNDING)
    public = residuals_of(Measurement(RESIDUALS, {**measured.facts, "public_total": 100}, arrays))
    assert public.by_clique[()].std == 0
