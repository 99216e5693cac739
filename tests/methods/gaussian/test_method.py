"""The method end to end: every mode gives a table of the domain, on good data and on the worst."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.gaussian.method import GaussianMethod
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic import Synthetic

COLUMNS = """
  id: {type: identifier, action: surrogate}
  age: {type: integer, min: 0, max: 100}
  pay: {type: number, min: 0, max: 1000, decimals: 2, scale: log, nullable: true}
  day: {type: date, min: 2020-01-01, max: 2020-12-31}
  at: {type: datetime, min: 2020-01-01, max: 2020-12-31, nullable: true}
  kind: {type: category, values: [a, b], other: true, nullable: true}
  vip: {type: boolean}
"""
TYPES = {
    "id": pa.int64(),
    "age": pa.int64(),
    "pay": pa.float64(),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "kind": pa.string(),
    "vip": pa.bool_(),
}
MODES = ["", ", label: vip", ", centre: fixed", ", mode: copula", ", mode: copula, label: vip"]


def people(count: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 15, count), 0, 100)
    start = dt.datetime(2020, 1, 1)
    return pa.table(
        {
            "age": pa.array(age.astype(np.int64)),
            "pay": pa.array(np.exp(age / 20 + rng.normal(0, 0.3, count)), mask=rng.random(count) < 0.25),
            "day": pa.array([(start + dt.timedelta(days=int(a * 3))).date() for a in age], pa.date32()),
            "at": pa.array(
                [start + dt.timedelta(hours=float(h)) for h in rng.uniform(0, 8000, count)],
                pa.timestamp("us"),
            ),
            "kind": pa.array(np.where(age > 50, "a", np.where(rng.random(count) < 0.2, "c", "b"))),
            "vip": pa.array(age + rng.normal(0, 5, count) > 50),
        }
    )


def assert_conforms(table: pa.Table, rows: int) -> None:
    assert table.num_rows == rows
    assert dict(zip(table.column_names, table.schema.types, strict=True)) == TYPES
    assert [name for name in table.column_names if table[name].null_count and name not in ("pay", "at", "kind")] == []
    limits = {
        "age": (0, 100),
        "pay": (0.0, 1000.0),
        "day": (dt.date(2020, 1, 1), dt.date(2020, 12, 31)),
        "at": (dt.datetime(2020, 1, 1), dt.datetime(2020, 12, 31)),
    }
    for name, (low, high) in limits.items():
        found = pc.min_max(table[name]).as_py()
        assert found["min"] is None or (low <= found["min"] and found["max"] <= high)
    assert set(table["kind"].unique().to_pylist()) <= {"a", "b", "other", None}


@pytest.mark.parametrize("mode", MODES)
def test_release_conforms_and_keeps_dependence(doubles: SimpleNamespace, mode: str) -> None:
    made = doubles.release(doubles.make_spec(COLUMNS, mode), people(20_000), rows=5000)
    assert_conforms(made.table, 5000)
    age = made.table["age"].to_numpy()
    assert abs(age.mean() - 45) < 2
    assert abs(age.std() - 15) < 2
    pay = np.log1p(made.table["pay"].to_numpy(zero_copy_only=False))
    present = ~np.isnan(pay)
    assert 0.7 < present.mean() < 0.8
    assert np.corrcoef(age[present], pay[present])[0, 1] > 0.7
    older = np.array([kind == "a" for kind in made.table["kind"].to_pylist()])
    assert age[older].mean() > age[~older].mean() + 8
    vip = made.table["vip"].to_numpy(zero_copy_only=False)
    assert age[vip].mean() > age[~vip].mean() + 8


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("mode", MODES)
def test_plan_fits_the_budget_and_buys_what_it_planned(doubles: SimpleNamespace, mode: str, relation: Relation) -> None:
    made = doubles.release(doubles.make_spec(COLUMNS, mode, f", relation: {relation.value}"), people(300), rows=10)
    loss = composed_loss([charge.event for charge in made.plan.charges], 1e-5, relation)
    assert 0.999 < loss.epsilon <= 1.0
    assert [charge for charge, _ in made.purchase.bought] == list(made.plan.charges)
    for _, measurement in made.purchase.bought:
        assert all(array.dtype == np.int64 for array in measurement.arrays.values())


@pytest.mark.parametrize("mode", MODES)
def test_agreement_accepts_the_made_table_and_no_other(doubles: SimpleNamespace, mode: str) -> None:
    made = doubles.release(doubles.make_spec(COLUMNS, mode), people(20_000), rows=20_000)
    lines = GaussianMethod().agreement(Synthetic(made.table, made.domain), made.measured)
    assert len(lines) >= 5
    assert all(line.distance <= line.allowed for line in lines)
    wrong = made.table.set_column(1, "age", pa.array([99] * 20_000)).set_column(6, "vip", pa.array([True] * 20_000))
    failed = {
        line.query
        for line in GaussianMethod().agreement(Synthetic(wrong, made.domain), made.measured)
        if line.distance > line.allowed
    }
    assert {query.split()[-1] for query in failed} >= (
        {"age"} if "copula" in mode and "label" in mode else {"age", "vip"}
    )


def test_generation_is_a_function_of_the_measurement(doubles: SimpleNamespace) -> None:
    made = doubles.release(doubles.make_spec(COLUMNS), people(2000), rows=200)
    again = GaussianMethod().generate(made.measured, made.spec, made.domain, 200, lambda *_: None)
    assert again.equals(made.table)
    free = GaussianMethod().generate(made.measured, made.spec, made.domain, None, lambda *_: None)
    assert abs(free.num_rows - 2000) < 200


DEGENERATE = {
    "empty": people(0),
    "one row": people(1),
    "all null or garbage": pa.table(
        {
            "age": pa.nulls(50),
            "pay": pa.array([float("nan")] * 25 + [float("inf")] * 25),
            "day": pa.array(["not a day"] * 50),
            "at": pa.nulls(50),
            "kind": pa.array(["?"] * 50),
            "vip": pa.array([7] * 50),
        }
    ),
    "constant and perfectly correlated": pa.table(
        {
            "age": [10**9] * 200,
            "pay": [-5.0] * 200,
            "day": [dt.date(1900, 1, 1)] * 200,
            "at": [dt.datetime(2050, 1, 1)] * 200,
            "kind": ["a"] * 200,
            "vip": [True] * 200,
        }
    ),
}


@pytest.mark.parametrize("name", list(DEGENERATE))
@pytest.mark.parametrize("mode", MODES)
def test_degenerate_data_gives_a_valid_release(doubles: SimpleNamespace, mode: str, name: str) -> None:
    for seed in range(2):
        made = doubles.release(doubles.make_spec(COLUMNS, mode), DEGENERATE[name], seed=seed, rows=1 + 49 * seed)
        assert_conforms(made.table, 1 + 49 * seed)
        lines = GaussianMethod().agreement(Synthetic(made.table, made.domain), made.measured)
        assert all(line.distance <= line.allowed for line in lines)
        assert_conforms(GaussianMethod().generate(made.measured, made.spec, made.domain, 1, lambda *_: None), 1)


@pytest.mark.parametrize(
    "columns",
    [
        "  x: {type: number, min: 0, max: 1}",
        "  x: {type: integer, min: 5, max: 5}",
        "  x: {type: category, values: [only]}",
        "  x: {type: boolean, nullable: true}",
    ],
)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_column_is_enough(doubles: SimpleNamespace, columns: str, relation: str) -> None:
    made = doubles.release(doubles.make_spec(columns, "", f", relation: {relation}"), pa.table({"x": [1.0] * 30}))
    assert made.table.column_names == ["x"]
    assert made.table.num_rows >= 1


def test_mistakes_in_the_options_are_named(doubles: SimpleNamespace) -> None:
    for method, message in (
        (", mod: copula", "method.mod: unknown option(.|\n)*gaussian knows: mode, label"),
        (", mode: magic", "method.mode"),
        (", label: age", "'age' is no category or boolean column"),
        (", label: nope", "choose one of: kind, vip"),
    ):
        spec = doubles.make_spec(COLUMNS, method)
        with pytest.raises(SpecError, match=message):
            GaussianMethod().plan(spec, TableDomain.of(spec))


def test_a_sampler_it_does_not_have_is_refused(doubles: SimpleNamespace) -> None:
    spec = doubles.make_spec(COLUMNS, "", ", noise: opendp")
    with pytest.raises(SpecError, match="rounded Gaussian noise only"):
        GaussianMethod().plan(spec, TableDomain.of(spec))


def test_the_count_is_exact_only_where_it_is_public(doubles: SimpleNamespace) -> None:
    columns = "  u: {type: identifier}\n  x: {type: number, min: 0, max: 1}"
    rows = pa.table({"x": [0.5] * 40})
    public = doubles.release(doubles.make_spec(columns, "", ", relation: replace_one"), rows)
    assert public.measured.arrays["count"].tolist() == [[40]]
    for privacy in ("", ", relation: replace_one, unit: {entity: u}"):
        made = doubles.release(doubles.make_spec(columns, "", privacy), rows)
        assert made.measured.facts["count_noise"] > 1


def test_noise_too_large_to_draw_is_refused_by_the_plan(doubles: SimpleNamespace) -> None:
    spec = doubles.make_spec(
        "  u: {type: identifier}\n  x: {type: number, min: 0, max: 1}",
        "",
        ", unit: {entity: u, max_rows: 1000000}",
    )
    plan = GaussianMethod().plan(spec, TableDomain.of(spec))
    assert plan.details["grid"] < 4096
