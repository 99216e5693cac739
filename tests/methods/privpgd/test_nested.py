"""Tables that keep what groups of their codes were measured to hold: rows and columns stay, coarse sums come first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.methods.privpgd.nested import Nested, fit_to_groups, joined
from understudy.pipelines.methods.privpgd.shrinkage import centred, shrink_interaction

FloatArray = npt.NDArray[np.float64]
FINE, COARSE = np.arange(0, 24, 3), np.arange(0, 24, 12)


def keep(beside: FloatArray, expected: FloatArray, variance: float | FloatArray) -> FloatArray:
    return shrink_interaction(beside, expected, variance).interaction


def table_of(seed: int) -> FloatArray:
    return np.random.default_rng(seed).dirichlet(np.full(24 * 10, 3.0)).reshape(24, 10)


def measured(truth: FloatArray, starts: npt.NDArray[np.intp], std: float, seed: int) -> Nested:
    """Groups of the first column by the codes of the second, with noise of that std in every cell."""
    sums = np.add.reduceat(truth, starts, axis=0)
    noise = std * np.random.default_rng(seed).normal(size=sums.shape)
    ones = (np.ones(len(starts)), np.ones(truth.shape[1]))
    return Nested((starts, np.arange(truth.shape[1])), centred(sums + noise), std**2, ones)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([1e-7, 1e-4, 1e-2, 1.0]))
def test_rows_and_columns_stay_and_nothing_is_negative(seed: int, std: float) -> None:
    table, truth = table_of(seed), table_of(seed + 1)
    found = fit_to_groups(table, [measured(truth, FINE, std, 1), measured(truth, COARSE, std, 2)], keep)
    assert found.min() >= 0
    assert found.sum(axis=0) == pytest.approx(table.sum(axis=0), abs=1e-6)
    assert found.sum(axis=1) == pytest.approx(table.sum(axis=1), abs=1e-3)


def test_sums_over_groups_that_were_measured_well_are_met() -> None:
    truth = table_of(3)
    table = np.outer(truth.sum(axis=1), truth.sum(axis=0))
    found = fit_to_groups(table, [measured(truth, COARSE, 1e-6, 1)], keep)
    assert np.add.reduceat(found, COARSE, axis=0) == pytest.approx(np.add.reduceat(truth, COARSE, axis=0), abs=2e-5)


def test_noise_changes_nothing() -> None:
    truth = table_of(4)
    table = np.outer(truth.sum(axis=1), truth.sum(axis=0))
    found = fit_to_groups(table, [measured(truth, FINE, 10.0, 1)], keep)
    assert np.abs(found - table).sum() / 2 < 0.1 * np.abs(truth - table).sum() / 2


def test_noisy_fine_groups_do_not_cost_what_coarse_ones_tell() -> None:
    off = []
    for seed in range(10):
        truth = table_of(seed)
        table = np.outer(truth.sum(axis=1), truth.sum(axis=0))
        coarse, fine = measured(truth, COARSE, 1e-4, seed), measured(truth, FINE, 5e-3, seed + 100)
        sums = [np.add.reduceat(each, COARSE, axis=0) for each in (truth, fit_to_groups(table, [fine, coarse], keep))]
        off.append(np.abs(sums[0] - sums[1]).mean())
    assert np.mean(off) < 1.5e-4


def test_finer_groups_tell_of_coarser_ones_by_inverse_variance() -> None:
    truth = table_of(5)
    coarse, fine = joined([measured(truth, FINE, 1e-3, 1), measured(truth, COARSE, 2e-3, 2)])
    assert (len(coarse.starts[0]), len(fine.starts[0])) == (2, 8)
    assert coarse.variance == pytest.approx(1 / (1 / 4e-6 + 1 / 4e-6))  # four cells of a thousandth squared each
    assert fine.variance == pytest.approx(1e-6)


def test_codes_that_stand_for_many_carry_the_noise_of_all() -> None:
    ones, many = np.ones(2), np.array([1.0, 1.0, 30.0])
    found = Nested((np.arange(2), np.arange(3)), np.zeros((2, 3)), 0.5, (ones, many))
    assert found.variances == pytest.approx(np.array([[0.5, 0.5, 15.0]] * 2))
    centred_table = found.centred(np.random.default_rng(0).random((2, 3)))
    assert centred_table.sum(axis=0) == pytest.approx(0.0)
    assert centred_table.sum(axis=1) == pytest.approx(0.0)
