"""Great Expectations and Arrow run one list of checks: a sound table passes, and what is broken is named alike."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import SPEC
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.checks import Checks, HasRows, IsNumber, breaches, checks_of
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.contract import contract_of
from understudy.pipelines.table.domain import TableDomain
from understudy.tasks.engines.expectations import expectations_failed

EXAMPLE = TableDomain.of(parse_spec(SPEC))
EVERY_KIND = """\
name: every-kind
source: {uri: rows.parquet, snapshot: s}
method: {name: kernel}
privacy: {account: a, epsilon: 1.0, delta: 1e-6}
columns:
  id: {type: identifier, action: surrogate}
  whole: {type: integer, min: -5, max: 9007199254740991, bins: 4, nullable: true}
  years: {type: integer, min: 0, max: 9, bins: 10}
  charge: {type: number, min: -1.5, max: 20, bins: 4, nullable: true}
  share: {type: number, min: 0, max: 1, bins: 4}
  sex: {type: category, values: [F, M, "nan"], nullable: true}
  ward: {type: category, values: [A, B], other: true}
  code: {type: category, values: [1, 2, 9007199254740993], other: true}
  smoker: {type: boolean, nullable: true}
  seen: {type: date, min: 2026-01-01, max: 2026-12-31, bins: month, nullable: true}
  at: {type: datetime, min: 2026-01-01, max: 2026-12-31, bins: 4}
  image: {type: tensor, shape: [2, 2], min: 0, max: 1.5}
  bytes: {type: tensor, shape: [3], min: 0, max: 255}
publish: {to: out/}
"""
DOMAIN = TableDomain.of(parse_spec(EVERY_KIND))
CONTRACT = contract_of(DOMAIN, None)
TYPES = {
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "date32[day]": pa.date32(),
    "timestamp[us]": pa.timestamp("us"),
    "fixed_size_list<item: float>[4]": pa.list_(pa.float32(), 4),
    "fixed_size_list<item: uint8>[3]": pa.list_(pa.uint8(), 3),
}


def both(table: pa.Table, checks: Checks) -> list[str]:
    """The verdict, which both engines must give in the same words."""
    by_arrow, by_expectations = breaches(table, checks), expectations_failed(table, checks)
    assert by_arrow == by_expectations
    return [str(check) for check in by_arrow]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 300) for size in EXAMPLE.sizes], axis=1)
    return decode(codes, EXAMPLE, rng)


def replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def test_a_sound_table_passes(table: pa.Table) -> None:
    for rows in (300, None):
        assert both(table, checks_of(contract_of(EXAMPLE, rows))) == []


def test_every_kind_of_breach_is_named(table: pa.Table) -> None:
    checks = checks_of(contract_of(EXAMPLE, 300))
    breaks = {
        "age: is out of its bounds": replaced(table, "age", pa.array([200] * 300)),
        "sex: has a value that is not listed": replaced(table, "sex", pa.array(["F"] * 299 + ["Q"])),
        "visited_on: is out of its bounds": replaced(table, "visited_on", pa.array([dt.date(2031, 1, 1)] * 300)),
        "ward: has nulls": replaced(table, "ward", pa.array(["A"] * 299 + [None])),
        "charge: is out of its bounds": replaced(table, "charge", pa.array([-1.0] * 300)),
        "charge: has NaN, which is no value": replaced(table, "charge", pa.array([1.0] * 299 + [math.nan])),
        "visit_id: has a value twice": replaced(table, "visit_id", pa.array([7] * 300)),
        "age: is not of type int64": replaced(table, "age", pc.cast(table["age"], pa.string())),
        "has not 300 rows": table.slice(0, 299),
    }
    for expected, broken in breaks.items():
        assert both(broken, checks) == [expected]
    assert both(table.drop_columns(["ward"]), checks)[0] == "columns are not those of the contract"
    assert both(table.select(table.column_names[::-1]), checks) == ["columns are not those of the contract"]
    twice = pa.table([*table.columns, table["age"]], names=[*table.column_names, "age"])
    assert both(twice, checks)[0] == "columns are not those of the contract"


def test_a_null_may_stand_where_nan_may_not(table: pa.Table) -> None:
    checks = checks_of(contract_of(EXAMPLE, None))
    assert both(replaced(table, "charge", pa.array([None] * 300, pa.float64())), checks) == []
    nan = replaced(table, "charge", pa.array([math.nan] * 300))
    assert both(nan, checks) == [str(IsNumber("charge"))]


def test_a_table_without_rows_fails(table: pa.Table) -> None:
    assert both(table.slice(0, 0), checks_of(contract_of(EXAMPLE, None))) == [str(HasRows(None))]
    with pytest.raises(ValueError, match="a row"):
        HasRows(0)


def cells(arrow_type: str) -> st.SearchStrategy[Any]:
    """Values of a column of this type: good ones, bounds and their neighbours, and every way to be no value."""
    moments = st.sampled_from([dt.datetime(2026, 1, 1), dt.datetime(2026, 12, 31, 23, 59, 59, 999999),
                               dt.datetime(2027, 1, 1), dt.datetime(2027, 1, 1, 0, 0, 0, 1), dt.datetime(2025, 12, 31),
                               dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)])  # fmt: skip
    numbers = [0.0, -0.0, 0.5, 1.0, 1.5, -1.5, 20.0, math.nextafter(20.0, 21), math.nan, math.inf, -math.inf, 5e-324]
    narrow = st.sampled_from([0.0, 0.5, 1.5, 1.625, -0.5, math.nan, math.inf])
    found: dict[str, st.SearchStrategy[Any]] = {
        "int64": st.sampled_from([0, 1, 2, 7, 9, 10, -5, -6, 2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, 2**53 + 4, 2**62]),
        "double": st.sampled_from(numbers),
        "string": st.sampled_from(["F", "M", "A", "B", "other", "nan", "", "None", "f"]),
        "bool": st.booleans(),
        "date32[day]": moments.map(lambda moment: moment.date()),
        "timestamp[us]": moments,
        "fixed_size_list<item: float>[4]": st.lists(narrow | st.none(), min_size=4, max_size=4),
        "fixed_size_list<item: uint8>[3]": st.lists(st.integers(0, 255) | st.none(), min_size=3, max_size=3),
    }
    return st.none() | found[arrow_type]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A sound table of every kind of column, some of whose columns are replaced, retyped, lost, moved or repeated."""
    rows = draw(st.integers(0, 4))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    codes = np.stack([rng.integers(0, size, rows) for size in DOMAIN.sizes], axis=1)
    sound = decode(codes, DOMAIN, rng, [rng.random((rows, tensor.size)) for tensor in DOMAIN.tensors])
    columns = dict(zip(sound.column_names, sound.columns, strict=True))
    odd = draw(st.integers(0, 5)) == 0
    for column in CONTRACT.columns:
        how = draw(st.sampled_from(["sound", "sound", "values", *["type"] * odd]))
        if how == "values":
            values = draw(st.lists(cells(column.arrow_type), min_size=rows, max_size=rows))
            columns[column.name] = pa.array(values, TYPES[column.arrow_type])
        elif how == "type":
            columns[column.name] = pa.nulls(rows, draw(st.sampled_from([pa.int32(), pa.string(), pa.float64()])))
    names = list(columns)
    if draw(st.integers(0, 9)) == 0:
        names = draw(st.lists(st.sampled_from(names), min_size=1, max_size=len(names) + 1))
    return pa.table([columns[name] for name in names], names=names)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(), st.none() | st.integers(1, 4))
def test_both_engines_give_the_same_verdict(table: pa.Table, rows: int | None) -> None:
    both(table, checks_of(contract_of(DOMAIN, rows)))
