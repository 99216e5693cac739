"""Logistic regression from pairs: the coefficients of the rows, the noise of each by enumeration, and how often it
holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from tests.inference.tables import COLUMNS, PAIRS, SIZES, centred, told_of, uneven
from understudy import open_release, synthesize
from understudy.cli.main import main
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.features import parse_regression
from understudy.pipelines.inference.logistic import logit
from understudy.pipelines.inference.sums import NotMeasured
from understudy.pipelines.table.columns import DomainColumn

AGED = (*COLUMNS[:2], DomainColumn("age", "integer", (), tuple(range(6)), False, False, True), COLUMNS[3])
FORMULA = "smoker ~ sex + ward + age"
NAMES = ["intercept", "sex=M", "ward=B", "ward=C", "ward=other", "age"]
TRUE = np.array([-1.0, 0.8, 0.4, -0.6, 0.2, 0.35])


def people(rows: int, seed: int) -> np.ndarray:
    """Codes: whether somebody smokes follows the others, which follow each other, three together too."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in SIZES], axis=1)
    codes[:, 1] = np.where((codes[:, 0] == 1) & (codes[:, 2] > 2) & (rng.random(rows) < 0.4), 2, codes[:, 1])
    likely = 1 / (1 + np.exp(-design(codes) @ TRUE))
    codes[:, 3] = rng.random(rows) < likely
    return codes


def design(codes: np.ndarray) -> np.ndarray:
    wards = [codes[:, 1] == code for code in (1, 2, 3)]
    return np.stack([np.ones(len(codes)), codes[:, 0] == 1, *wards, codes[:, 2]], axis=1).astype(float)


def fitted(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a statistics package finds: greatest likelihood, and its standard errors."""
    x, y, beta = design(codes), codes[:, 3].astype(float), np.zeros(6)
    for _ in range(30):
        likely = 1 / (1 + np.exp(-x @ beta))
        inner = (x * (likely * (1 - likely))[:, None]).T @ x
        beta = beta + np.linalg.solve(inner, x.T @ (y - likely))
    return beta, np.sqrt(np.diag(np.linalg.inv(inner)))


def told(codes: np.ndarray, stds: dict[tuple[int, ...], float] | float = 1e-9, seed: int = 0) -> Told:
    return replace(told_of(codes, PAIRS, stds, seed), columns=AGED)


def rows_of(codes: np.ndarray) -> dict[int, np.ndarray]:
    return {place: codes[:, place] for place in range(3)}


def independent(codes: np.ndarray, seed: int) -> dict[int, np.ndarray]:
    """Rows in which nothing follows anything."""
    rng = np.random.default_rng(seed)
    return {place: rng.permutation(codes[:, place]) for place in range(3)}


def test_without_noise_and_with_the_tables_own_rows_it_is_the_fit_of_the_rows() -> None:
    codes = people(2000, 1)
    beta, errors = fitted(codes)
    found = logit(told(codes), FORMULA, rows_of(codes))
    assert [each.name for each in found] == NAMES
    np.testing.assert_allclose([each.estimate for each in found], beta, atol=1e-5)
    sampled = [np.sqrt(each.std**2 - each.noise_std**2) for each in found]
    np.testing.assert_allclose(sampled, errors, rtol=1e-3)


def test_pairs_make_up_for_rows_that_are_wrong_in_every_pair() -> None:
    codes = people(2000, 1)
    beta, errors = fitted(codes)
    found = logit(told(codes), FORMULA, independent(codes, 2))
    off = np.abs(np.array([each.estimate for each in found]) - beta)
    assert (off < 0.25 * errors).all()  # what is left is of three columns
    assert all(each.interval.low <= value <= each.interval.high for each, value in zip(found, beta, strict=True))
    # Of two columns nothing is left.
    own, wrong = (
        [each.estimate for each in logit(told(codes), "smoker ~ sex + ward", rows)]
        for rows in (rows_of(codes), independent(codes, 3))
    )
    np.testing.assert_allclose(own, wrong, atol=1e-6)


def test_the_noise_of_each_coefficient_is_what_every_noisy_cell_does_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each raw cell of each residual is moved a little, and the coefficients are computed again; of two categories,
    which leave nothing to the rows."""
    monkeypatch.setattr("understudy.pipelines.inference.profiled.MOST_PROFILED", 0)  # intervals are not looked at
    codes = people(1000, 2)
    noisy, rows, formula = told(codes, uneven(), 3), rows_of(codes), "smoker ~ sex + ward"
    found = logit(noisy, formula, rows)
    centre, variance, step = np.array([each.estimate for each in found]), np.zeros(5), 1e-3
    for clique, residual in noisy.residuals.by_clique.items():
        for cell in np.ndindex(*(SIZES[column] for column in clique)):
            unit = np.zeros([SIZES[column] for column in clique])
            unit[cell] = step
            moved = {**noisy.residuals.by_clique, clique: Residual(residual.counts + centred(unit), residual.std)}
            changed = replace(noisy, residuals=Residuals(noisy.residuals.asked, SIZES, moved))
            if set(clique) <= {0, 1, 3}:
                slope = (np.array([each.estimate for each in logit(changed, formula, rows)]) - centre) / step
                variance += (slope * residual.std) ** 2
    np.testing.assert_allclose([each.noise_std for each in found], np.sqrt(variance), rtol=5e-3)


@pytest.mark.slow
def test_intervals_hold_the_coefficients_of_the_table_as_often_as_they_say() -> None:
    """60 draws of six coefficients, rows of another table: 95% within four standard errors, if each draw were one."""
    codes = people(2000, 4)
    beta, _ = fitted(codes)
    held = []
    for seed in range(60):
        found = logit(told(codes, 8.0, seed), FORMULA, independent(codes, seed))
        held += [each.interval.low <= value <= each.interval.high for each, value in zip(found, beta, strict=True)]
    assert 0.95 - 4 * 0.028 < np.mean(held) < 0.999


@pytest.mark.parametrize(
    ("formula", "problem"),
    [
        ("smoker", "not understood"),
        ("ward ~ age", "not a column of yes and no"),
        ("smoker ~ wage", "not measured"),
        ("wage ~ age", "not measured"),
    ],
)
def test_what_cannot_be_fitted_is_said(formula: str, problem: str) -> None:
    codes = people(200, 1)
    with pytest.raises(SpecError, match=problem):
        logit(told(codes), formula, rows_of(codes))


def test_nulls_pairs_that_were_not_measured_certainty_and_noise_are_refused() -> None:
    codes = people(2000, 1)
    rows = rows_of(codes)
    with pytest.raises(SpecError, match="may be null"):
        logit(told_of(codes), FORMULA, rows)
    with pytest.raises(NotMeasured):
        logit(replace(told_of(codes, [(0, 3), (1, 3)]), columns=AGED), "smoker ~ sex + ward", rows)
    certain = codes.copy()
    certain[:, 3] = certain[:, 0]
    with pytest.raises(SpecError, match=r"all but certain.*rarest is"):
        logit(told(certain), "smoker ~ sex", {0: certain[:, 0]})
    with pytest.raises(SpecError, match=r"mostly noise|look so"):
        logit(told(codes, 40_000.0, 1), FORMULA, rows)


def test_a_release_is_asked_in_python_and_by_command(tmp_path: Path) -> None:
    codes = people(5000, 5)
    table = pa.table(
        {
            "sex": np.array(["F", "M"])[codes[:, 0]],
            "age": codes[:, 2],
            "smoker": codes[:, 3] == 1,
        }
    )
    spec = {
        "name": "people",
        "snapshot": "1",
        "privacy": {"account": "a", "epsilon": 4, "delta": 1e-6},
        "columns": {
            "sex": {"type": "category", "values": ["F", "M"]},
            "age": {"type": "integer", "min": 0, "max": 4},
            "smoker": {"type": "boolean"},
        },
    }
    release = synthesize(table, spec, cap=(4, 1e-6), home=tmp_path)
    found = release.logit("smoker ~ sex + age")
    assert found["age"].interval.low < found["age"].estimate < found["age"].interval.high
    place = str(Path(release.save(tmp_path / "out")))
    assert open_release(place).logit("smoker ~ sex + age")["age"].estimate == pytest.approx(found["age"].estimate)
    told_json = json.loads(asked(place, "logit(smoker ~ sex + age)", "--json"))
    assert [each["coefficient"] for each in told_json["answers"]] == ["intercept", "sex=M", "age"]
    assert told_json["answers"][2]["low"] == pytest.approx(found["age"].interval.low)
    assert "sex=M:" in asked(place, "ols(age ~ sex + smoker)")


def asked(place: str, *question: str) -> str:
    ran = CliRunner().invoke(main, ["ask", place, *question], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_questions_and_regressions_are_told_apart() -> None:
    assert parse_regression(" LOGIT( a ~ b )") == ("logit", "a ~ b")
    assert parse_regression("ols(a ~ b + `c (d)`)") == ("ols", "a ~ b + `c (d)`")
    assert parse_regression("mean(a) by b") is None
