"""Exact sums: equal to Python integers, for any partitioning, on any input."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.moments import MAX_GRID, exact_products
from understudy.pipelines.table.domain import TableDomain

COLUMNS = """
  age: {type: integer, min: 0, max: 100}
  pay: {type: number, min: 0, max: 1000, scale: log, nullable: true}
  day: {type: date, min: 2020-01-01, max: 2020-12-31}
  kind: {type: category, values: [a, b], other: true, nullable: true}
  vip: {type: boolean}
"""


def rows(count: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    pay = [None if u < 0.2 else float(v) for u, v in zip(rng.random(count), rng.exponential(200, count), strict=True)]
    start = dt.date(2019, 12, 1)
    return pa.table(
        {
            "age": rng.integers(-20, 130, count),
            "pay": pa.array(pay, pa.float64()),
            "day": pa.array([start + dt.timedelta(days=int(d)) for d in rng.integers(0, 430, count)]),
            "kind": pa.array([["a", "b", "zzz", None][k] for k in rng.integers(0, 4, count)], pa.string()),
            "vip": pa.array(rng.random(count) < 0.5),
        }
    )


@pytest.fixture
def domain(doubles: SimpleNamespace) -> TableDomain:
    return TableDomain.of(doubles.make_spec(COLUMNS))


def test_sums_equal_python_integers(domain: TableDomain) -> None:
    table = rows(500)
    layout = Layout.of(domain, None, MAX_GRID)
    found = exact_products(table.to_batches(), layout)[0]
    vectors = []
    for row in table.to_pylist():
        age = round((min(max(row["age"], 0), 100) - 50) / 50 * MAX_GRID)
        pay, null = 0, row["pay"] is None
        if not null:
            half = np.log1p(1000.0) / 2
            pay = round(float((np.log1p(min(row["pay"], 1000.0)) - half) * (MAX_GRID / half)))
        number = (min(max(row["day"], dt.date(2020, 1, 1)), dt.date(2020, 12, 31)) - dt.date(2020, 1, 1)).days
        day = round((number - 182.5) / 182.5 * MAX_GRID)
        kind = {"a": 0, "b": 1, None: 3}.get(row["kind"], 2)
        vectors.append(
            [
                1,
                age,
                pay,
                day,
                int(null),
                *(int(kind == k) for k in range(4)),
                int(not row["vip"]),
                int(row["vip"]),
            ]
        )
    expected = np.array([[sum(v[i] * v[j] for v in vectors) for j in range(layout.width)] for i in range(layout.width)])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("label", [None, "kind"])
def test_partitioning_workers_and_order_change_nothing(domain: TableDomain, label: str | None) -> None:
    table = rows(40_000)
    layout = Layout.of(domain, label, MAX_GRID)
    whole = exact_products(table.to_batches(), layout, workers=1)
    parts = table.to_batches(777)
    np.testing.assert_array_equal(whole, exact_products(parts, layout, workers=3))
    np.testing.assert_array_equal(whole, exact_products(reversed(parts), layout))
    assert whole.dtype == np.int64
    assert whole[:, 0, 0].sum() == 40_000


@pytest.mark.parametrize(
    "column",
    [
        pa.array([float("nan"), float("inf"), -float("inf"), 1e308, -1e308, None], pa.float64()),
        pa.array([2**63 - 1, -(2**63), 0, 1, 2, None], pa.int64()),
        pa.array(["12", "x", "", "1e400", "nan", None], pa.string()),
        pa.array([b"\xff", b"7", b"", b"1", b"2", None], pa.binary()),
        pa.array([True, False, True, None, None, None], pa.bool_()),
        pa.nulls(6),
        pa.array([[1], [2], None, [], [3], [4]], pa.list_(pa.int64())),
        pa.array([dt.date(1, 1, 1)] * 5 + [None], pa.date32()),
        pa.array(["5", "q", "5", None, "6", "7"]).dictionary_encode(),
        pa.array([1.5, None, 2.5, 3.5, 4.5, 5.5], pa.float32()),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize(
    "declared",
    [
        "{type: integer, min: 0, max: 10}",
        "{type: integer, min: 3, max: 3}",
        "{type: number, min: -1.0e+300, max: 1.0e+300, nullable: true}",
        "{type: number, min: 0, max: 10, scale: log}",
        "{type: date, min: 2020-01-01, max: 2020-12-31, nullable: true}",
        "{type: datetime, min: 2020-01-01, max: 2020-12-31}",
    ],
)
def test_any_value_lands_on_the_grid(doubles: SimpleNamespace, column: pa.Array, declared: str) -> None:
    domain = TableDomain.of(doubles.make_spec(f"  x: {declared}"))
    layout = Layout.of(domain, None, 64)
    for row in range(len(column)):
        one = exact_products([pa.record_batch([column[row : row + 1]], names=["x"])], layout)[0]
        assert one[0, 0] == 1
        assert abs(one[0, 1]) <= 64
        assert one[1, 1] == one[0, 1] ** 2
        if layout.null_row:
            assert one[0, 2] in (0, 1)
            assert one[0, 2] == 0 or one[0, 1] == 0
