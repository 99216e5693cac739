"""What PostgreSQL sends in binary comes out as the text that it would have written itself, value for value."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.warehouse import Warehouse
from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.databases import postgresql_fields
from understudy.pipelines.sources.databases.postgresql_fields import ENDED, MORE, batches_of, located

TEXT = {"numeric": "trim_scale(v)::text", "timestamptz": "(v AT TIME ZONE 'UTC')::text"}
DATES = st.one_of(
    st.dates().map(str),
    st.integers(-2_451_507, 2_145_031_948).map(lambda days: f"(date '2000-01-01' + {days})"),
    st.sampled_from(["infinity", "-infinity", "0001-01-01 BC", "0001-12-31 BC", "0004-02-29", "5874897-12-31"]),
)
MOMENTS = st.one_of(
    st.datetimes().map(str),
    st.sampled_from(
        ["infinity", "-infinity", "4714-11-24 BC", "294276-12-31 23:59:59.999999", "0001-12-31 23:59:59.1 BC"]
    ),
)
DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=4),
    st.tuples(st.integers(-(10**40), 10**40), st.integers(-60, 60)).map(lambda each: Decimal(each[0]).scaleb(each[1])),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "0.000", "-0.00", "10000", "1e1000", "1e-1000", "9999.9990"]),
).map(str)


def stream(rows: Sequence[Sequence[bytes | None]]) -> np.ndarray:
    """As COPY sends rows, without its head."""
    sent = b""
    for row in rows:
        fields = [struct.pack(">i", -1) if each is None else struct.pack(">i", len(each)) + each for each in row]
        sent += struct.pack(">h", len(row)) + b"".join(fields)
    return np.frombuffer(sent + struct.pack(">h", -1), np.uint8)


def read(buffer: np.ndarray, kinds: Sequence[str], end: int | None = None) -> tuple[pa.Table, int]:
    at, size = np.zeros((2, max(len(kinds), 1), 1000), np.int32)
    rows, _, state = located(buffer, 0, len(buffer) if end is None else end, len(kinds), at, size)
    schema = pa.schema([(str(i), pa.int64() if kind == "int4" else pa.string()) for i, kind in enumerate(kinds)])
    batches = list(batches_of(buffer, at[:, :rows], size[:, :rows], kinds, schema)) if rows else []
    return pa.Table.from_batches(batches, schema).combine_chunks(), state


@pytest.mark.parametrize(
    ("kind", "values"), [("date", DATES), ("timestamp", MOMENTS), ("timestamptz", MOMENTS), ("numeric", DECIMALS)]
)
def test_every_value_is_spelled_as_the_server_spells_it(
    warehouse: Warehouse, kind: str, values: st.SearchStrategy[str]
) -> None:
    with warehouse.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET DateStyle = 'ISO, YMD'")

        @settings(max_examples=60, deadline=None)
        @given(st.lists(st.none() | values, min_size=1, max_size=40))
        def check(given_: list[str | None]) -> None:
            literals = ", ".join(
                "NULL" if each is None else each if each.startswith("(") else f"'{each}'" for each in given_
            )
            found = connection.execute(
                f"SELECT {kind}_send(v), {TEXT.get(kind, 'v::text')}"
                f" FROM unnest(ARRAY[{literals}]::pg_catalog.{kind}[]) AS v".encode()
            ).fetchall()
            batch, state = read(stream([(sent,) for sent, _ in found]), [kind])
            assert state == ENDED
            assert batch.column(0).to_pylist() == [text for _, text in found]

        check()


def test_a_stream_may_be_cut_anywhere() -> None:
    buffer = stream([(b"one", struct.pack(">i", 7)), (None, None), (b"", struct.pack(">i", -7))])
    for end in range(len(buffer)):
        batch, state = read(buffer, ["text", "int4"], end)
        assert state == MORE
        assert batch.to_pylist() == [{"0": "one", "1": 7}, {"0": None, "1": None}, {"0": "", "1": -7}][: batch.num_rows]
    batch, state = read(buffer, ["text", "int4"])
    assert (batch.num_rows, state) == (3, ENDED)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int4", b"hunter2"), ("date", b"hunter2"), ("timestamp", b"hunter2"), ("numeric", b"hunter2"), ("int4", b""),
     ("numeric", struct.pack(">hhHh", 9, 0, 0, 0)), ("numeric", struct.pack(">hhHh", 0, 0, 0, -1)), ("bool", b"no"),
     ("numeric", struct.pack(">hhHhh", 1, 0, 0, 0, -5)), ("numeric", struct.pack(">hhHhh", 1, 0, 0, 0, 10_000))],
)  # fmt: skip
def test_a_value_of_another_shape_is_an_error_that_does_not_tell_it(kind: str, value: bytes) -> None:
    with pytest.raises(SourceError, match="something else") as caught:
        read(stream([(value,)]), [kind])
    assert "hunter2" not in str(caught.value)


def test_what_is_no_such_stream_is_seen() -> None:
    lengths = np.frombuffer(struct.pack(">hi", 1, -2), np.uint8)
    for buffer, fields in ((stream([(b"x",)]), ["text", "text"]), (lengths, ["text"])):
        assert read(buffer, fields)[1] not in (MORE, ENDED)


def test_numbers_that_are_long_when_they_are_written_come_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else ten bytes a row could ask for more memory than there is, or than a batch of text can count."""
    sent = stream([(struct.pack(">hhHhh", 1, power, 0, 0, 7), b"x") for power in range(50)])
    whole = read(sent, ["numeric", "text"])[0]
    assert whole.column(0).to_pylist() == ["7" + "0000" * power for power in range(50)]
    monkeypatch.setattr(postgresql_fields, "MOST_TEXT", 300)
    at, size = np.zeros((2, 2, 1000), np.int32)
    rows, _, _ = located(sent, 0, len(sent), 2, at, size)
    batches = list(batches_of(sent, at[:, :rows], size[:, :rows], ["numeric", "text"], whole.schema))
    assert len(batches) > 10
    assert pa.Table.from_batches(batches).combine_chunks().equals(whole)


@pytest.mark.parametrize(("form", "most"), [(">h", 2**15), (">i", 2**31), (">q", 2**63)])
def test_whole_numbers_of_any_width(form: str, most: int) -> None:
    values = [0, -1, 1, 77, most - 1, -most, None]
    sent = [(None if value is None else struct.pack(form, value),) for value in values]
    assert read(stream(sent), ["int4"])[0].column(0).to_pylist() == values


def test_the_first_and_last_days_of_four_hundred_years() -> None:
    days = [dt.date(2000, 1, 1) + dt.timedelta(days=n) for n in range(-200_000, 200_000, 331)]
    sent = stream([(struct.pack(">i", (day - dt.date(2000, 1, 1)).days),) for day in days[:1000]])
    assert read(sent, ["date"])[0].column(0).to_pylist() == [day.isoformat() for day in days[:1000]]
