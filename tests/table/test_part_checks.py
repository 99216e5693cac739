"""Checked part by part, a table is found to be what it is found to be as a whole."""

from __future__ import annotations

import datetime as dt
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import SPEC
from tests.tasks.test_validate import DOMAIN, tables
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.checks import Checks, IsUnique, Verdict, breaches, checks_of
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.contract import contract_of
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.part_checks import breaches_in_parts, report_of
from understudy.tasks.engines.expectations import expectations_failed

EXAMPLE = TableDomain.of(parse_spec(SPEC))
ROWS = 300


def in_parts(table: pa.Table, checks: Checks, verdict: Verdict = breaches, parts: int = 3) -> list[str]:
    ends = [table.num_rows * part // parts for part in range(parts + 1)]
    cut = [table.slice(start, stop - start) for start, stop in pairwise(ends)]
    return [str(check) for check in breaches_in_parts([report_of(part, checks) for part in cut], checks, verdict)]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, ROWS) for size in EXAMPLE.sizes], axis=1)
    return decode(codes, EXAMPLE, rng)


def replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize("verdict", [breaches, expectations_failed])
def test_every_kind_of_breach_is_named_wherever_it_is(table: pa.Table, verdict: Verdict) -> None:
    checks = checks_of(contract_of(EXAMPLE, ROWS))
    ids = list(range(1, ROWS + 1))
    breaks = {
        "age: is out of its bounds": replaced(table, "age", pa.array([20] * 299 + [200])),
        "sex: has a value that is not listed": replaced(table, "sex", pa.array(["F"] * 150 + ["Q"] + ["F"] * 149)),
        "visited_on: is out of its bounds": replaced(
            table, "visited_on", pa.array([dt.date(2031, 1, 1)] + [dt.date(2026, 3, 1)] * 299)
        ),
        "ward: has nulls": replaced(table, "ward", pa.array(["A"] * 299 + [None])),
        "charge: has NaN, which is no value": replaced(table, "charge", pa.array([1.0] * 299 + [math.nan])),
        "visit_id: has a value twice": replaced(table, "visit_id", pa.array([*ids[:-1], 1])),
        "has not 300 rows": table.slice(0, 299),
    }
    for expected, broken in list(breaks.items())[:: 1 if verdict is breaches else 3]:  # Great Expectations is slow
        assert in_parts(broken, checks, verdict) == [expected]
    within = replaced(table, "visit_id", pa.array([1, 1, *ids[2:]]))
    assert in_parts(within, checks, verdict) == ["visit_id: has a value twice"]
    assert in_parts(table, checks, verdict) == []
    assert in_parts(table.drop_columns(["ward"]), checks, verdict)[0] == "columns are not those of the contract"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(), st.none() | st.integers(1, 4), st.integers(1, 3))
def test_parts_and_the_whole_come_to_the_same_verdict(table: pa.Table, rows: int | None, parts: int) -> None:
    checks = checks_of(contract_of(DOMAIN, rows))
    whole, found = breaches(table, checks), in_parts(table, checks, parts=parts)
    unique = {str(check) for check in checks.values if isinstance(check, IsUnique)}
    assert [line for line in map(str, whole) if line not in unique] == [line for line in found if line not in unique]
    # Ids of parts must follow one another, which is more than that none stands twice.
    assert {str(check) for check in whole} & unique <= set(found)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(), st.none() | st.integers(1, 4))
def test_great_expectations_finds_in_witnesses_what_arrow_finds_in_all_rows(table: pa.Table, rows: int | None) -> None:
    checks = checks_of(contract_of(DOMAIN, rows))
    assert in_parts(table, checks, expectations_failed) == in_parts(table, checks)
