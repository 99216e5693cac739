"""CHECK constraints as databases spell them: what they promise is used, what is not understood says nothing."""

from __future__ import annotations

import datetime as dt

import pytest

from understudy.pipelines.drafting.conditions import apply_conditions, conditions_of
from understudy.pipelines.drafting.facts import ColumnFacts, Kind


def column(sql: str, dialect: str = "postgres", kind: Kind = "integer", name: str = "x") -> ColumnFacts:
    return apply_conditions(ColumnFacts(name, kind), conditions_of(sql, dialect), "CHECK c")


@pytest.mark.parametrize(
    ("sql", "low", "high"),
    [
        ("((x >= 0) AND (x <= 120))", 0, 120),
        ("((x > 0) AND (x < 10))", 1, 9),
        ("((0 < x) AND (10 >= x))", 1, 10),
        ("((x > (0)::numeric))", 1, None),
        ("((x >= ('-40'::integer)::numeric))", -40, None),
        ("((x >= 0.5))", 1, None),
        ("((x IS NULL) OR (x < 5))", None, 4),
        ("((x >= 0) AND (x >= 3))", 3, None),
    ],
)
def test_bounds_are_what_the_constraint_leaves(sql: str, low: int | None, high: int | None) -> None:
    found = column(sql)
    assert (found.low, found.high) == (low, high)
    assert found.declared_by == ("CHECK c",)


def test_a_strict_bound_of_real_numbers_stays_where_it_is() -> None:
    assert column("((x > 0))", kind="number").low == 0


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("(x = ANY (ARRAY['a'::text, 'b''c'::text]))", "postgres"),
        ("((x)::text = ANY ((ARRAY['a'::character varying, 'b''c'::character varying])::text[]))", "postgres"),
        ("((x = 'a'::text) OR (x = 'b''c'::text))", "postgres"),
        ("`x` in ('a','b''c')", "mysql"),
        ("x IN ('a', 'b''c')", "sqlite"),
        ("x IS NULL OR x IN ('a', 'b''c')", "duckdb"),
    ],
)
def test_lists_of_values_are_understood_however_they_are_spelled(sql: str, dialect: str) -> None:
    found = column(sql, dialect, "text")
    assert found.values == ("a", "b'c")
    assert found.enforced


@pytest.mark.parametrize(
    "sql",
    [
        "((x < 5) OR (y < 5))",
        "((x = 1) OR (y = 1))",
        "((char_length(x) = 3))",
        "(x ~ '^[A-Z]$'::text)",
        "((x + 1) > 3)",
        "(NOT (x = ANY (ARRAY[1, 2])))",
        "((x <> 3))",
        "(x IN (SELECT 1))",
        "json_valid(x)",
        "(x > ",
        "((x > y) OR (x < 7))",
    ],
)
def test_what_does_not_hold_for_every_row_says_nothing(sql: str) -> None:
    found = column(sql)
    assert (found.values, found.low, found.high) == ((), None, None)


def test_days_and_orders_are_understood() -> None:
    sql = "((admitted >= '2020-01-01'::date) AND (admitted <= discharged))"
    assert column(sql, kind="date", name="admitted").low == dt.date(2020, 1, 1)
    assert conditions_of(sql, "postgres").orders == [("admitted", "discharged")]
    assert conditions_of("(b > a)", "postgres").orders == [("a", "b")]
