"""Every kind of question against brute force on the rows, and every interval against the enumerated covariance."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.inference.tables import (
    COLUMNS,
    PAIRS,
    SIZES,
    TRIPLE,
    centred,
    frame_of,
    noise_of_cells,
    some_codes,
    told_of,
    uneven,
)
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import Answers
from understudy.pipelines.inference.asking import Asked
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.intervals import deviations, of_ratio
from understudy.pipelines.table.columns import DomainColumn

EVERYTHING = (*PAIRS, TRIPLE)
Z = deviations(0.95)
Rows = pd.DataFrame


def old(rows: Rows) -> pd.Series:
    return (rows["age"] >= 2).fillna(False).astype(bool)


def ask(question: str, told: Told, rows: pa.Table | None = None) -> Answers:
    def no_rows() -> pa.Table:
        assert rows is not None, "measurements were to answer"
        return rows

    return Asked(told, no_rows).answer(question)


def by(rows: Rows, columns: list[str], value: Callable[[Rows], float]) -> dict[tuple[Any, ...], float]:
    found = {}
    for group, part in rows.groupby(columns, dropna=False):
        key = tuple(None if pd.isna(each) else each for each in group)
        if part.size:
            found[key] = value(part)
    return found


def mean_age(rows: Rows) -> float:
    return float(rows["age"].dropna().astype(float).mean())


PLAIN: dict[str, Callable[[Rows], float]] = {
    "count": len,
    "count where ward = A": lambda rows: int((rows["ward"] == "A").sum()),
    "count where not ward = A": lambda rows: int((rows["ward"] != "A").sum()),
    "count where ward in (A, other) and sex = M": lambda rows: int(
        (rows["ward"].isin(["A", "other"]) & (rows["sex"] == "M")).sum()
    ),
    "count where age >= 2": lambda rows: int(old(rows).sum()),
    "count where not age >= 2": lambda rows: int((rows["age"] < 2).sum()),
    "count where age is null": lambda rows: int(rows["age"].isna().sum()),
    "count where age between 1 and 2 and smoker": lambda rows: int((rows["age"].isin([1, 2]) & rows["smoker"]).sum()),
    "count where sex = F or smoker": lambda rows: int(((rows["sex"] == "F") | rows["smoker"]).sum()),
    "count where ward = B or not age < 3 or sex = F": lambda rows: int(
        ((rows["ward"] == "B") | (rows["age"] >= 3) | (rows["sex"] == "F")).sum()
    ),
    "sum(age)": lambda rows: float(rows["age"].sum()),
    "sum(age) where sex = M": lambda rows: float(rows["age"][rows["sex"] == "M"].sum()),
    "mean(age)": mean_age,
    "mean(age) where ward != C": lambda rows: mean_age(rows[rows["ward"] != "C"]),
    "mean(age) where age > 1": lambda rows: mean_age(rows[rows["age"].gt(1).fillna(False).astype(bool)]),
    "mean(smoker) where sex = F": lambda rows: float(rows["smoker"][rows["sex"] == "F"].mean()),
    "share(smoker)": lambda rows: float(rows["smoker"].mean()),
    "share(age >= 2) where sex = M": lambda rows: float(old(rows[rows["sex"] == "M"]).mean()),
    "share(ward = A and age = 0) where sex = F": lambda rows: float(
        ((rows["ward"] == "A") & (rows["age"] == 0).fillna(False))[rows["sex"] == "F"].mean()
    ),
}
GROUPED: dict[str, tuple[list[str], Callable[[Rows], float]]] = {
    "count by ward": (["ward"], len),
    "count by ward, sex": (["ward", "sex"], len),
    "count by age where smoker": (["age"], lambda rows: int(rows["smoker"].sum())),
    "mean(age) by ward": (["ward"], mean_age),
    "mean(age) by sex, ward": (["sex", "ward"], mean_age),
    "sum(age) by smoker": (["smoker"], lambda rows: float(rows["age"].sum())),
    "share(smoker) by sex": (["sex"], lambda rows: float(rows["smoker"].mean())),
    "share(age >= 2) by ward, sex": (["ward", "sex"], lambda rows: float(old(rows).mean())),
}


@pytest.mark.parametrize("question", PLAIN)
@pytest.mark.parametrize("seed", [1, 2])
def test_without_noise_the_answer_is_that_of_the_rows(question: str, seed: int) -> None:
    codes = some_codes(400, seed)
    [answer] = ask(question, told_of(codes, EVERYTHING))
    assert answer.estimate == pytest.approx(PLAIN[question](frame_of(codes)), abs=1e-5)
    assert answer.interval is not None
    halves = 1.0 * (question == "count")  # which ends halfway between whole numbers
    assert answer.interval.high - answer.interval.low < halves + 1e-4
    assert answer.within_bins == 0


@pytest.mark.parametrize("question", GROUPED)
def test_groups_are_those_of_the_rows_by_name(question: str) -> None:
    codes = some_codes(600, 3)
    columns, value = GROUPED[question]
    expected = by(frame_of(codes), columns, value)
    found = {
        tuple(answer.group[name] for name in columns): answer.estimate
        for answer in ask(question, told_of(codes, EVERYTHING))
    }
    assert set(expected) <= set(found)
    for group, truth in expected.items():
        assert found[group] == pytest.approx(truth, abs=1e-4), group


def test_shares_of_groups_add_up_to_one_and_differences_and_ratios_are_of_groups() -> None:
    codes = some_codes(500, 5)
    told, rows = told_of(codes, EVERYTHING), frame_of(codes)
    shares = {answer.group["ward"]: answer.estimate for answer in ask("share by ward where sex = M", told)}
    men = rows[rows["sex"] == "M"]
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["B"] == pytest.approx((men["ward"] == "B").mean(), abs=1e-6)
    means = {sex: mean_age(rows[rows["sex"] == sex]) for sex in ("F", "M")}
    [answer] = ask("mean(age) by sex difference", told)
    assert dict(answer.group) == {"sex": "M", "against": "F"}
    assert answer.estimate == pytest.approx(means["M"] - means["F"], abs=1e-5)
    [answer] = ask("mean(age) by sex ratio to M", told)
    assert dict(answer.group) == {"sex": "F", "against": "M"}
    assert answer.estimate == pytest.approx(means["F"] / means["M"], abs=1e-5)
    found = {(a.group["sex"], a.group["ward"]): a.estimate for a in ask("count by sex, ward difference from B", told)}
    counted = rows.groupby(["sex", "ward"]).size()
    assert found["M", "A"] == pytest.approx(counted["M", "A"] - counted["M", "B"], abs=1e-5)
    assert ("M", "B") not in found
    ratios = {a.group["ward"]: a.estimate for a in ask("sum(age) by ward ratio to C", told)}
    totals = rows.groupby("ward")["age"].sum()
    assert ratios["A"] == pytest.approx(totals["A"] / totals["C"], abs=1e-5)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_quantile_is_where_the_rows_spread_over_their_bins_pass_the_level(level: float) -> None:
    codes = some_codes(500, 6)
    rows = frame_of(codes)
    found = {a.group["sex"]: a.estimate for a in ask(f"quantile(age, {level}) by sex", told_of(codes, EVERYTHING))}
    for sex in ("F", "M"):
        ages = rows["age"][rows["sex"] == sex].dropna().astype(float).to_numpy()
        below = np.array([(ages < edge).mean() for edge in range(5)])
        place = int(np.searchsorted(below, level, side="right") - 1)
        assert found[sex] == pytest.approx(place + (level - below[place]) / (below[place + 1] - below[place]), abs=1e-4)


def indicator(columns: tuple[int, ...], **wanted: list[int]) -> np.ndarray:
    grid = np.indices([SIZES[column] for column in columns])
    inside = np.ones(grid.shape[1:], bool)
    for name, codes in wanted.items():
        place = columns.index([column.name for column in COLUMNS].index(name))
        inside &= np.isin(grid[place], codes)
    return inside.astype(float).ravel()


def ages(columns: tuple[int, ...]) -> np.ndarray:
    code = np.indices([SIZES[column] for column in columns])[columns.index(2)].ravel()
    return np.where(code < 4, code, 0).astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_intervals_of_sums_are_the_enumerated_standard_deviation(seed: int) -> None:
    told = told_of(some_codes(4000, seed), EVERYTHING, uneven(EVERYTHING), seed)
    covariance, cells = noise_of_cells(told, TRIPLE), told.residuals.marginal(TRIPLE).ravel()
    man_in_a = indicator(TRIPLE, sex=[1], ward=[0])
    woman_in_a = indicator(TRIPLE, sex=[0], ward=[0])
    for question, function in (
        ("count where sex = M and ward = A", man_in_a),
        ("sum(age) where sex = M and ward = A", man_in_a * ages(TRIPLE)),
        ("count by sex difference where ward = A", man_in_a - woman_in_a),
    ):
        [answer] = ask(question, told)
        assert answer.interval is not None
        off = Z * math.sqrt(function @ covariance @ function)
        assert answer.estimate == pytest.approx(function @ cells)
        assert answer.interval.low == pytest.approx(function @ cells - off)
        assert answer.interval.high == pytest.approx(function @ cells + off)


@pytest.mark.parametrize("seed", range(3))
def test_both_ends_of_a_ratios_interval_are_where_noise_just_explains_it(seed: int) -> None:
    """Fieller: (n - t d)^2 = z^2 var(n - t d) at either end, by the enumerated covariance."""
    told = told_of(some_codes(3000, seed), EVERYTHING, uneven(EVERYTHING), seed)
    covariance, cells = noise_of_cells(told, TRIPLE), told.residuals.marginal(TRIPLE).ravel()
    known = indicator(TRIPLE, sex=[1], age=[0, 1, 2, 3])
    men = indicator(TRIPLE, sex=[1])
    for question, above, below in (
        ("mean(age) where sex = M", known * ages(TRIPLE), known),
        ("share(ward = A) where sex = M", indicator(TRIPLE, sex=[1], ward=[0]), men),
        ("count by sex ratio to F", men, indicator(TRIPLE, sex=[0])),
    ):
        [answer] = ask(question, told)
        assert answer.interval is not None
        assert answer.estimate == pytest.approx((above @ cells) / (below @ cells))
        for end in (answer.interval.low, answer.interval.high):
            function = above - end * below
            assert (function @ cells) ** 2 == pytest.approx(Z**2 * function @ covariance @ function, rel=1e-6)


def test_a_ratios_interval_never_leaves_what_the_ratio_can_be() -> None:
    """Also where noise leaves two rays, one of which begins before all that is possible."""
    for together in (-5.99, 0.0, 5.99):
        noise = np.array([[4.0, together], [together, 9.0]])
        for above in (0.1, 1.0, 5.0):
            found = of_ratio(above, 1.0, noise, Z, (0.0, 1.0))
            assert 0 <= found.low <= found.high <= 1


def test_the_difference_of_two_means_has_the_variance_of_the_enumerated_covariance() -> None:
    """With little noise every method agrees with the first order."""
    told = told_of(some_codes(30_000, 1), EVERYTHING, uneven(EVERYTHING), 1)
    covariance, cells = noise_of_cells(told, TRIPLE), told.residuals.marginal(TRIPLE).ravel()
    slope, values = np.zeros(len(cells)), []
    for sex, sign in ((1, 1.0), (0, -1.0)):
        known = indicator(TRIPLE, sex=[sex], age=[0, 1, 2, 3])
        mean = (known * ages(TRIPLE)) @ cells / (known @ cells)
        values.append(mean)
        slope += sign * (known * ages(TRIPLE) - mean * known) / (known @ cells)
    off = Z * math.sqrt(slope @ covariance @ slope)
    [answer] = ask("mean(age) by sex difference", told)
    assert answer.interval is not None
    assert answer.interval.low == pytest.approx(values[0] - values[1] - off, rel=1e-2)
    assert answer.interval.high == pytest.approx(values[0] - values[1] + off, rel=1e-2)
    [answer] = ask("mean(age) by sex ratio", told)
    assert answer.interval is not None
    slope = np.zeros(len(cells))
    for sex, sign, mean in ((1, 1.0, values[0]), (0, -1.0, values[1])):
        known = indicator(TRIPLE, sex=[sex], age=[0, 1, 2, 3])
        slope += sign * (known * ages(TRIPLE) - mean * known) / (known @ cells) / mean
    ratio = values[0] / values[1]
    off = Z * ratio * math.sqrt(slope @ covariance @ slope)
    assert answer.interval.low == pytest.approx(ratio - off, rel=1e-2)
    assert answer.interval.high == pytest.approx(ratio + off, rel=1e-2)


def test_a_quantiles_interval_ends_where_noise_just_explains_the_count_below_it() -> None:
    told = told_of(some_codes(3000, 7), EVERYTHING, uneven(EVERYTHING), 7)
    covariance, cells = noise_of_cells(told, (0, 2)), told.residuals.marginal((0, 2)).ravel()
    answer = next(a for a in ask("quantile(age, 0.3) by sex", told) if a.group["sex"] == "M")
    assert answer.interval is not None
    for end in (answer.interval.low, answer.interval.high):
        code = np.indices((SIZES[0], SIZES[2]))[1].ravel()
        below = np.clip(end - code, 0.0, 1.0) * (code < 4)
        function = indicator((0, 2), sex=[1]) * (code < 4) * (below - 0.3)
        assert (function @ cells) ** 2 == pytest.approx(Z**2 * function @ covariance @ function, rel=1e-6)


def test_the_population_adds_what_sampling_would_and_several_rows_of_a_unit_more() -> None:
    codes = some_codes(10_000, 2)
    told = told_of(codes, EVERYTHING)
    [answer] = ask("share(smoker)", told)
    assert answer.population is not None
    assert answer.estimate is not None
    off = Z * math.sqrt(answer.estimate * (1 - answer.estimate) / 10_000)
    assert answer.population.high - answer.estimate == pytest.approx(off, rel=0.01)
    assert answer.noise_share == pytest.approx(0, abs=1e-6)
    [answer] = ask("mean(age)", told)
    assert answer.population is not None
    known = codes[codes[:, 2] < 4][:, 2]
    assert answer.population.high - known.mean() == pytest.approx(Z * known.std() / math.sqrt(len(known)), rel=0.01)
    [clustered] = ask("mean(age)", Told(told.residuals, COLUMNS, max_rows=4))
    assert clustered.population is not None
    wider = clustered.population.high - clustered.population.low
    assert wider == pytest.approx(2 * (answer.population.high - answer.population.low), rel=0.01)


def binned_told() -> Told:
    columns = (
        DomainColumn("income", "number", (), (0.0, 10.0, 20.0, 40.0), False, False, True, spikes=((0, 0.0),)),
        DomainColumn("day", "date", (), (0, 10, 20), False, True, True),
    )
    codes = np.array([[0, 0], [1, 0], [1, 1], [2, 1], [2, 2], [2, 1]])
    sizes, found = (3, 3), {}
    for clique in ((), (0,), (1,), (0, 1)):
        table = np.zeros([sizes[c] for c in clique])
        for row in codes:
            table[tuple(row[c] for c in clique)] += 1
        found[clique] = Residual(centred(table), 1e-9)
    return Told(Residuals(((0, 1),), sizes, found), columns)


def test_bins_that_a_bound_cuts_are_counted_in_part_and_it_is_said() -> None:
    told = binned_told()
    [answer] = ask("count where income >= 15", told)
    assert answer.estimate == pytest.approx(0.5 * 2 + 3, abs=1e-6)
    assert answer.within_bins == pytest.approx(1.0, abs=1e-6)  # two rows, of which half are taken to be above
    [answer] = ask("mean(income)", told)
    assert answer.estimate == pytest.approx((0 + 2 * 15 + 3 * 30) / 6, abs=1e-6)
    assert answer.within_bins == pytest.approx((0 + 2 * 5 + 3 * 10) / 6, abs=1e-6)
    [answer] = ask("mean(income) where income >= 25", told)
    assert answer.estimate == pytest.approx(32.5, abs=1e-6)
    [answer] = ask("count where income = 0", told)
    assert answer.estimate == pytest.approx(1, abs=1e-6)
    [answer] = ask("count where day < 1970-01-06", told)
    assert answer.estimate == pytest.approx(1, abs=1e-6)
    assert "within bins" in str(ask("mean(income)", told))
    with pytest.raises(SpecError, match="exactly"):
        ask("count where income = 12", told)


@pytest.mark.parametrize(
    "column",
    [
        DomainColumn("told", "boolean", (), (), False, False, True),
        DomainColumn("told", "integer", (), (0, 1, 2), False, False, True),
        DomainColumn("told", "category", ("no", "yes"), (), False, False, False),
    ],
)
def test_yes_and_no_may_be_written_in_several_ways(column: DomainColumn) -> None:
    codes = some_codes(300, 5)
    told = told_of(codes, EVERYTHING)
    columns = (*COLUMNS[:3], column)
    [answer] = ask("share(told) where sex = F", Told(told.residuals, columns))
    assert answer.estimate == pytest.approx(codes[codes[:, 0] == 0][:, 3].mean(), abs=1e-6)


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        ("mean(ward)", "no number"),
        ("count where ward = Z", "no value 'Z'"),
        ("count where ward > A", "no order"),
        ("count where age >= old", "is no value"),
        ("share(ward)", "yes and no"),
        ("mean(age) by ward difference from Z", "no value"),
        ("mean(salary)", "no column 'salary'"),
    ],
)
def test_what_cannot_be_asked_is_said_with_what_can(question: str, problem: str) -> None:
    told = told_of(some_codes(50, 1))
    with pytest.raises(SpecError, match=problem):
        ask(question, told, pa.table({"ward": ["A"]}))


def published(codes: np.ndarray) -> pa.Table:
    frame = frame_of(codes)
    return pa.table({**{name: frame[name] for name in frame.columns}, "bill": codes[:, 2] * 2.5})


@pytest.mark.parametrize("question", [
    "mean(age) by sex where ward = A and smoker", "share(age >= 2 and smoker) by sex where ward = A",
    "count by sex, ward where smoker", "sum(age) by ward difference from B where smoker and sex = F",
    "quantile(age, 0.5) by sex where ward = A", "mean(bill) by ward",
])  # fmt: skip
def test_beyond_what_was_measured_the_rows_answer_and_say_why_there_is_no_interval(question: str) -> None:
    """Twice as many rows were published as were measured, so that counts are halved."""
    codes = some_codes(400, 8)
    told, rows = told_of(codes, PAIRS), published(np.concatenate([codes, codes]))
    found = ask(question, told, rows)
    assert found.source == "rows"
    assert len(found)
    for answer in found:
        assert answer.interval is None
        assert "not measured" in answer.reason
        assert "without an interval" in found.sentence(answer)
    frame = frame_of(codes)
    if question.startswith("count"):
        counted = frame[frame["smoker"]].groupby(["sex", "ward"]).size()
        for answer in found:
            assert answer.estimate == pytest.approx(counted[answer.group["sex"], answer.group["ward"]], abs=1e-6)
    if question.startswith("mean(age)"):
        kept = frame[(frame["ward"] == "A") & frame["smoker"]]
        for answer in found:
            assert answer.estimate == pytest.approx(mean_age(kept[kept["sex"] == answer.group["sex"]]))


def test_a_release_without_measurements_answers_from_its_rows() -> None:
    codes = some_codes(100, 1)
    rows = published(codes)
    found = Asked(None, lambda: rows, "it carries no measurements").answer("mean(age) by sex")
    assert {answer.reason for answer in found} == {"it carries no measurements"}


def test_the_json_has_the_groups_by_name_and_no_number_that_json_lacks() -> None:
    told = told_of(some_codes(40, 1), EVERYTHING, 400.0, 1)
    for question in ("mean(age) by ward, sex", "mean(age) by sex ratio", "quantile(age, 0.9)", "share by ward"):
        text = json.dumps(ask(question, told).to_json(), allow_nan=False)
        tree = json.loads(text)
        assert {"estimate", "low", "high", "population_low", "sentence"} <= set(tree["answers"][0])
    first = ask("mean(age) by ward, sex", told_of(some_codes(40, 1), EVERYTHING)).to_json()["answers"][0]
    assert (first["ward"], first["sex"]) == ("A", "F")


def test_a_column_that_is_called_as_a_field_is_in_the_group() -> None:
    columns = (DomainColumn("low", "category", ("F", "M"), (), False, False, False), *COLUMNS[1:])
    told = Told(told_of(some_codes(50, 1), PAIRS).residuals, columns)
    assert [each["group"] for each in ask("count by low", told).to_json()["answers"]] == [{"low": "F"}, {"low": "M"}]


def test_noise_alone_is_told_as_an_interval_over_all_that_is_possible() -> None:
    told = told_of(some_codes(10, 1), EVERYTHING, 1000.0, 3)
    [answer] = ask("share(smoker) where sex = F", told)
    assert answer.interval is not None
    assert answer.interval.high - answer.interval.low > 0.5


@pytest.mark.parametrize(
    ("question", "truth"),
    [
        ("count where ward = A and sex = M", lambda rows: ((rows["ward"] == "A") & (rows["sex"] == "M")).sum()),
        ("mean(age) where sex = F", lambda rows: mean_age(rows[rows["sex"] == "F"])),
        ("share(smoker) where ward = B", lambda rows: rows["smoker"][rows["ward"] == "B"].mean()),
        (
            "mean(age) by sex difference",
            lambda rows: mean_age(rows[rows["sex"] == "M"]) - mean_age(rows[rows["sex"] == "F"]),
        ),
        (
            "mean(age) by sex ratio",
            lambda rows: mean_age(rows[rows["sex"] == "M"]) / mean_age(rows[rows["sex"] == "F"]),
        ),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(question: str, truth: Callable[[Rows], float]) -> None:
    """300 draws: 95% within four standard errors, so that 0.75 or 1.4 times the noise would be found out."""
    codes = some_codes(400, 9)
    expected, held = float(truth(frame_of(codes))), 0
    for seed in range(300):
        [answer] = ask(question, told_of(codes, PAIRS, uneven(), seed + 10))
        assert answer.interval is not None
        held += answer.interval.low <= expected <= answer.interval.high
    assert 0.90 < held / 300 < 0.997


@pytest.mark.parametrize("question", ["share(tip > 0)", "share(tip <= 0)", "share(tip >= 10)", "share(tip < 10)"])
def test_a_value_at_the_end_of_a_bin_is_not_known_from_the_rest_of_it(question: str) -> None:
    """Of the rows from 0 to 5 nobody knows how many are exactly 0, nor of those from 5 to 10 how many are 10."""
    tip = DomainColumn("tip", "number", (), (0.0, 5.0, 10.0), False, False, True)
    counts = np.array([70.0, 30.0])
    held = {(): Residual(np.array(100.0), 1e-9), (0,): Residual(centred(counts), 1e-9)}
    [answer] = ask(question, Told(Residuals(((0,),), (2,), held), (tip,))).answers
    unknown = 0.7 if question.endswith(" 0)") else 0.3
    assert answer.within_bins == pytest.approx(unknown, abs=1e-3)
    [whole] = ask("share(tip >= 5)", Told(Residuals(((0,),), (2,), held), (tip,))).answers
    assert (whole.within_bins, whole.estimate) == (0.0, pytest.approx(0.3))
