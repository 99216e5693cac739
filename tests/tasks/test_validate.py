"""The Great Expectations suite passes a sound table and names what is wrong with an unsound one."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.examples import SPEC
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.contract import contract_of
from understudy.pipelines.table.domain import TableDomain
from understudy.tasks.validate import check_table

DOMAIN = TableDomain.of(parse_spec(SPEC))
CLOSE = [Agreement("age", 0.01, 0.05)]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 300) for size in DOMAIN.sizes], axis=1)
    return decode(codes, DOMAIN, rng)


def replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def test_a_sound_table_passes(table: pa.Table) -> None:
    assert check_table(table, contract_of(DOMAIN, 300), CLOSE) == []
    assert check_table(table, contract_of(DOMAIN, None), []) == []


def test_every_kind_of_breach_is_named(table: pa.Table) -> None:
    contract = contract_of(DOMAIN, 300)
    late = pa.array([dt.date(2031, 1, 1)] * 300)
    breaches = {
        "age": replaced(table, "age", pa.array([200] * 300)),
        "sex": replaced(table, "sex", pa.array(["F"] * 299 + ["Q"])),
        "visited_on": replaced(table, "visited_on", late),
        "ward": replaced(table, "ward", pa.array(["A"] * 299 + [None])),
        "charge": replaced(table, "charge", pa.array([-1.0] * 300)),
        "visit_id": replaced(table, "visit_id", pa.array([7] * 300)),
    }
    for column, broken in breaches.items():
        failures = check_table(broken, contract, CLOSE)
        assert len(failures) == 1, failures
        assert failures[0].startswith(f"{column}:")


def test_wrong_types_missing_columns_and_row_counts(table: pa.Table) -> None:
    contract = contract_of(DOMAIN, 300)
    as_text = replaced(table, "age", pc.cast(table["age"], pa.string()))
    assert "types" in check_table(as_text, contract, CLOSE)[0]
    assert check_table(table.drop_columns(["ward"]), contract, CLOSE)
    assert any("row_count" in failure for failure in check_table(table.slice(0, 299), contract, CLOSE))


def test_disagreement_with_the_measurements_fails(table: pa.Table) -> None:
    far = [Agreement("age", 0.2, 0.05)]
    assert any("agreement" in failure for failure in check_table(table, contract_of(DOMAIN, 300), far))
