"""Least squares from pairs: the coefficients of the rows, and the noise of each by enumeration."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.inference.tables import COLUMNS, PAIRS, SIZES, centred, frame_of, some_codes, told_of, uneven
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.features import parse_formula
from understudy.pipelines.inference.intervals import deviations
from understudy.pipelines.inference.regression import ols
from understudy.pipelines.inference.sums import NotMeasured
from understudy.pipelines.table.columns import DomainColumn

AGED = (*COLUMNS[:2], DomainColumn("age", "integer", (), tuple(range(6)), False, False, True), COLUMNS[3])
FORMULA = "age ~ sex + ward + smoker"


def aged(codes: np.ndarray, stds: dict[tuple[int, ...], float] | float = 1e-9, seed: int = 0) -> Told:
    """Five ages and no null."""
    return replace(told_of(codes, PAIRS, stds, seed), columns=AGED)


def design(codes: np.ndarray) -> np.ndarray:
    wards = [codes[:, 1] == code for code in (1, 2, 3)]
    return np.stack([np.ones(len(codes)), codes[:, 0] == 1, *wards, codes[:, 3] == 1], axis=1).astype(float)


def test_without_noise_the_coefficients_are_those_of_the_rows_and_so_are_their_standard_errors() -> None:
    codes = some_codes(3000, 1)
    x, y = design(codes), codes[:, 2].astype(float)
    beta, squares, _, _ = np.linalg.lstsq(x, y, rcond=None)
    found = ols(aged(codes), FORMULA)
    names = ["intercept", "sex=M", "ward=B", "ward=C", "ward=other", "smoker"]
    assert [each.name for each in found] == names
    np.testing.assert_allclose([each.estimate for each in found], beta, atol=1e-6)
    usual = np.sqrt(squares[0] / len(y) * np.diag(np.linalg.inv(x.T @ x)))
    np.testing.assert_allclose([each.std for each in found], usual, rtol=1e-4)
    assert found.residual_std == pytest.approx(math.sqrt(squares[0] / len(y)), rel=1e-5)
    assert found["smoker"].interval.high - found["smoker"].interval.low < 1e-6
    assert frame_of(codes).shape[0] == 3000


def test_the_noise_of_each_coefficient_is_what_every_noisy_cell_does_to_it() -> None:
    """Each raw cell of each residual is moved a little, and the coefficients are computed again."""
    codes = some_codes(2000, 2)
    stds = uneven()
    told = aged(codes, stds, 3)
    found = ols(told, FORMULA)
    centre = np.array([each.estimate for each in found])
    variance, step = np.zeros(len(centre)), 1e-4
    for clique, residual in told.residuals.by_clique.items():
        for cell in np.ndindex(*(SIZES[column] for column in clique)):
            unit = np.zeros([SIZES[column] for column in clique])
            unit[cell] = step
            moved = Residual(residual.counts + centred(unit), residual.std)
            changed = Residuals(told.residuals.asked, SIZES, {**told.residuals.by_clique, clique: moved})
            slope = (
                np.array([each.estimate for each in ols(replace(told, residuals=changed), FORMULA)]) - centre
            ) / step
            variance += (slope * residual.std) ** 2
    np.testing.assert_allclose([each.noise_std for each in found], np.sqrt(variance), rtol=1e-3)
    z = deviations(0.95)
    for each in found:  # the interval follows the noise as it is at its ends, so it is of that width about
        assert each.interval.high - each.interval.low == pytest.approx(2 * z * each.noise_std, rel=0.15)
        assert each.std > each.noise_std


def test_intervals_hold_the_coefficients_of_the_table_as_often_as_they_say() -> None:
    """60 draws of six coefficients: 95% within four standard errors, if each draw were one."""
    codes = some_codes(2000, 4)
    truth = np.linalg.lstsq(design(codes), codes[:, 2].astype(float), rcond=None)[0]
    held = []
    for seed in range(60):
        found = ols(aged(codes, uneven(), seed), FORMULA)
        held += [each.interval.low <= value <= each.interval.high for each, value in zip(found, truth, strict=True)]
    assert 0.95 - 4 * 0.028 < np.mean(held) < 0.999


def test_several_rows_of_a_unit_widen_the_population_and_not_the_table() -> None:
    codes = some_codes(2000, 4)
    one, four = (ols(replace(aged(codes, 5.0, 1), max_rows=rows), FORMULA)["smoker"] for rows in (1, 4))
    assert one.interval == four.interval
    assert four.std**2 - four.noise_std**2 == pytest.approx(4 * (one.std**2 - one.noise_std**2))


@pytest.mark.parametrize(
    ("formula", "problem"),
    [
        ("age", "not understood"),
        ("age ~", "not understood"),
        ("age ~ sex + sex", "not understood"),
        ("ward ~ age", "no number"),
        ("age ~ wage", "not measured"),
        ("wage ~ age", "not measured"),
    ],
)
def test_what_cannot_be_fitted_is_said(formula: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        ols(aged(some_codes(100, 1)), formula)


def test_nulls_pairs_that_were_not_measured_and_noise_are_refused() -> None:
    codes = some_codes(100, 1)
    with pytest.raises(SpecError, match="may be null"):
        ols(told_of(codes), FORMULA)
    with pytest.raises(NotMeasured):
        ols(replace(told_of(codes, [(0, 2), (1, 2)]), columns=AGED), "age ~ sex + ward")
    with pytest.raises(SpecError, match=r"mostly noise|told apart"):
        ols(aged(codes, 4000.0, 1), FORMULA)


def test_names_may_be_in_quotes() -> None:
    assert parse_formula('"Trip Total" ~ `a b`+ education-num') == ("Trip Total", ("a b", "education-num"))
