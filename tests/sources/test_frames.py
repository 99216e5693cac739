"""Frames are read value by value: a column of objects codes as a typed one does, whatever stands in the other rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.frames import arrow_table
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.reading.arrow import readable
from understudy.pipelines.table.tensors import read_tensor

COLUMNS: dict[str, dict[str, Any]] = {
    "whole": {"type": "integer", "min": 0, "max": 9, "bins": 10, "nullable": True},
    "number": {"type": "number", "min": 0, "max": 10, "bins": 20, "nullable": True},
    "word": {"type": "category", "values": ["A", "B", "true", "7"], "other": True, "nullable": True},
    "level": {"type": "category", "values": [0, 1, 2, 7], "other": True, "nullable": True},
    "rate": {"type": "category", "values": ["0.10", "7.0", "False"], "other": True, "nullable": True},
    "yes": {"type": "boolean", "nullable": True},
    "day": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": "month", "nullable": True},
    "moment": {"type": "datetime", "min": "2026-01-01", "max": "2026-12-31", "bins": 12, "nullable": True},
}


def spec_with(columns: dict[str, Any], method: str = "privpgd") -> ReleaseSpec:
    return spec_of({
        "name": "t", "source": {"uri": "memory", "snapshot": "s"}, "publish": {"to": "out"}, "columns": columns,
        "method": {"name": method}, "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6},
    })  # fmt: skip


SPEC = spec_with(COLUMNS)
DOMAIN = TableDomain.of(SPEC)
DAYS = [dt.date(2026, 1, 1), dt.date(2026, 7, 31), dt.date(2031, 1, 1)]
MOMENTS = [dt.datetime(2026, 1, 1), dt.datetime(2026, 7, 31, 23, 59, 59, 5), dt.datetime(1999, 1, 1)]
KINDS: dict[str, list[Any]] = {
    "whole numbers": [0, 1, 2, 7, 9, 10, -3, 2**40],
    "doubles": [0.0, -0.0, 0.1, 0.5, 1.0, 2.5, 7.0, 9.99, 1e300, -1e-300, float("inf")],
    "truths": [True, False],
    "texts": ["A", "B", "7", "7.0", "true", "False", "0.10", "2026-03-04", " 3 ", "", "nobody"],
    "bytes": [b"A", b"7", b"2026-03-04"],
    "decimals": [Decimal("0.1"), Decimal("7.0"), Decimal("2.5")],
    "days": DAYS,
    "moments": MOMENTS,
    "moments with a zone": [moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=5))) for moment in MOMENTS],
}
ODD: list[Any] = [
    *(None, float("nan"), np.float64("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), Decimal("sNaN")),
    *(np.int8(7), np.bool_(True), np.datetime64("2026-03-04"), pd.Timestamp("2026-03-04", tz="UTC"), 1j, 10**5000),
    *("\ud800", b"\xff", [1], {"a": 1}, {1}, object(), np.array([1, 2]), slice(3)),
]


def codes(table: pa.Table) -> list[list[int]]:
    return [column.tolist() for column in encode(table, DOMAIN).columns]


def objects(values: list[Any]) -> pa.Table:
    """The same values in every column, as objects."""
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return arrow_table(pd.DataFrame({name: pd.Series(column, dtype=object) for name in COLUMNS}), SPEC)


@pytest.mark.parametrize("kind", KINDS)
def test_objects_code_as_a_typed_column_does(kind: str) -> None:
    typed = pa.array(KINDS[kind])
    expected = codes(pa.table(dict.fromkeys(COLUMNS, typed)))
    found = codes(objects(KINDS[kind]))
    for column, was, now in zip(DOMAIN.columns, expected, found, strict=True):
        assert was == now or not readable(typed.type, column.kind), column.name


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from([value for values in KINDS.values() for value in values] + ODD), max_size=8))
def test_a_row_codes_alike_beside_any_other(values: list[Any]) -> None:
    together = codes(objects(values))
    alone = [codes(objects([value])) for value in values]
    assert together == [[row[column][0] for row in alone] for column in range(len(COLUMNS))]


def test_missing_objects_are_nulls_and_odd_ones_unreadable() -> None:
    for value in (None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), Decimal("sNaN")):
        assert objects([value, "A"])["word"].null_count == 1
    for value in ([1], {"a": 1}, object(), 10**5000):
        assert DOMAIN.columns[2].code_labels()[codes(objects([value, 5]))[2][0]] == "other"


def test_categories_and_extension_types_are_read() -> None:
    frame = pd.DataFrame({name: pd.Categorical([7, None, "A", 7], categories=[7, "A"]) for name in COLUMNS})
    assert codes(arrow_table(frame, SPEC)) == codes(objects([7, None, "A", 7]))
    for dtype in ("Int64", "Float64", "int64[pyarrow]", "float32", "string[python]", "str"):
        frame = pd.DataFrame({name: pd.Series([7, 1], dtype=dtype) for name in COLUMNS})
        assert codes(arrow_table(frame, SPEC))[0] == [7, 1], dtype


def test_a_type_that_cannot_be_read_is_named_without_its_values() -> None:
    frame = pd.DataFrame({name: pd.Series([1j]) for name in COLUMNS})
    with pytest.raises(SpecError, match="'whole' is a pandas column of") as caught:
        arrow_table(frame, SPEC)
    assert caught.value.__context__ is None


def test_columns_nobody_named_are_not_looked_at() -> None:
    class Untouchable:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("looked at")

    frame = pd.DataFrame({"word": ["A", "B"], "secret": pd.Series([Untouchable(), 1], dtype=object)})
    table = arrow_table(frame, spec_with({"word": COLUMNS["word"]}))
    assert table.column_names == ["word", "secret"]
    assert table["secret"].null_count == 2


def test_cells_that_are_arrays_become_tensors() -> None:
    spec = spec_with({"image": {"type": "tensor", "shape": [2, 2], "min": 0, "max": 8},
                      "class": {"type": "category", "values": ["a"]}}, "kernel")  # fmt: skip
    tensor = TableDomain.of(spec).tensors[0]
    cells = [
        np.eye(2),
        [1, 2, 3, 4],
        b"\1\2\3\4",
        [[5, 6], [7, 8]],
        (1, None, 3, np.nan),
        None,
        "text",
        [1],
        {},
        object(),
    ]
    column = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        column[place] = cell
    frame = pd.DataFrame({"image": pd.Series(column, dtype=object), "class": "a"})
    read = read_tensor(arrow_table(frame, spec)["image"], tensor).tolist()
    assert read[:5] == [[1, 0, 0, 1], [1, 2, 3, 4], [1, 2, 3, 4], [5, 6, 7, 8], [1, 4, 3, 4]]
    assert read[5:] == [[4] * 4] * 5
