"""Domain columns of every kind, and arrays of hostile values of many Arrow types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

DECLARED = {
    "age": {"type": "integer", "min": 0, "max": 110, "bins": 32},
    "small": {"type": "integer", "min": -3, "max": 3, "bins": 32, "nullable": True},
    "income": {"type": "integer", "min": -10, "max": 2**53, "bins": 20, "scale": "log", "nullable": True},
    "charge": {"type": "number", "min": 0, "max": 20000, "bins": 32, "scale": "log", "nullable": True},
    "ratio": {"type": "number", "min": -1.5, "max": 2.5, "bins": 7},
    "price": {"type": "number", "min": 0.05, "max": 9.99, "bins": 40, "decimals": 2, "nullable": True},
    "visited": {"type": "date", "min": "2024-02-27", "max": "2026-12-31", "bins": "month"},
    "weekly": {"type": "date", "min": "1969-12-01", "max": "1970-03-01", "bins": 9, "nullable": True},
    "seen": {
        "type": "datetime",
        "min": "2026-01-01T06:30",
        "max": "2026-03-01",
        "bins": "week",
        "nullable": True,
    },
    "hourly": {"type": "datetime", "min": "2026-01-01T06:30", "max": "2026-01-03", "bins": "hour"},
    "sex": {"type": "category", "values": ["F", "M", "X"]},
    "ward": {
        "type": "category",
        "values": ["A", "B", "true", "2026-01-01", "1.5"],
        "other": True,
        "nullable": True,
    },
    "rank": {"type": "category", "values": [3, 1, 2, -7], "ordered": True, "nullable": True},
    "coin": {"type": "category", "values": [0, 1], "other": True},
    "flag": {"type": "boolean", "nullable": True},
    "yes": {"type": "boolean"},
}


def domain_of(columns: dict) -> TableDomain:
    spec = {
        "name": "t",
        "source": {"uri": "t.parquet", "snapshot": "s"},
        "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6},
        "columns": columns,
        "publish": {"to": "out"},
    }
    return TableDomain.of(ReleaseSpec.model_validate(spec))


DOMAIN = domain_of(DECLARED)
columns = st.sampled_from(DOMAIN.columns)

_texts = st.one_of(
    st.sampled_from(
        (  # noqa: SIM905  a list would be forty lines
            "A F true FALSE yes 0 1 1.5 -7 3 +2 1e3 1e999 nan inf -inf 1_0 0x10 ٣ 1. .5 . + 1e 12e+ "
            "2026-01-01 2026-02-30 2024-02-29 0000-01-01 9999-12-31 2026-01-01T07:00 "
            "2026-01-01T07:00:59.1234567Z 2026-01-01T24:00 2026-01-01T07:00+02:00 2026-01-01T07:00-0930 "
            "2026-01-01T07:00+02 2026-01-01T07:00+2 2026-01-01T07:00: other 1969-12-31T23:59:59.999999 "
            "2026-01-01T07:00:00. 2026-1-1 20260101 "
        ).split()
    ),
    st.sampled_from(["", " ", " 7 ", "\t2026-01-01\n", "2026-01-01 07:00", "7\x00", "\x0b1\x0c"]),
    st.text(max_size=12),
    st.from_regex(r"[+-]?[0-9]{0,4}\.?[0-9]{0,20}(e[+-]?[0-9]{1,4})?", fullmatch=True),
    st.datetimes().map(str),
    st.integers().map(str),
)
_floats = st.one_of(st.floats(), st.integers(-5, 120).map(float), st.sampled_from([0.0, -0.0, 1.0, 1.5, 0.05, 9.99]))


def _arrays(values: st.SearchStrategy, type_: pa.DataType, least: int = 0) -> st.SearchStrategy[pa.Array]:
    lists = st.lists(st.one_of(st.none(), values), min_size=least, max_size=12)
    return lists.map(lambda items: pa.array(items, type_))


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), st.integers(-10, 120))


def _unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(0, 2**bits - 1), st.integers(0, 120))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    whole = st.one_of(st.integers(-(10**precision) + 1, 10**precision - 1), st.integers(-(10**3), 10**4))
    return whole.map(lambda number: Decimal(f"{number}e-{scale}"))


def _days(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array.cast(type_)


moments = st.one_of(
    st.datetimes(),
    st.datetimes(dt.datetime(2025, 12, 1), dt.datetime(2026, 4, 1)),
    st.just(dt.datetime(1969, 12, 31, 23)),
)

arrays = st.one_of(
    _arrays(_texts, pa.string()),
    _arrays(_texts, pa.large_string()),
    _arrays(_texts, pa.string_view()),
    _arrays(st.one_of(st.binary(max_size=6), st.sampled_from([b"A", b"7", b"2026-01-01"])), pa.binary()),
    _arrays(_floats, pa.float64()),
    _arrays(st.floats(width=32), pa.float32()),
    _arrays(_signed(8), pa.int8()),
    _arrays(_signed(32), pa.int32()),
    _arrays(_signed(64), pa.int64()),
    _arrays(_unsigned(16), pa.uint16()),
    _arrays(_unsigned(64), pa.uint64()),
    _arrays(_decimals(5, 2), pa.decimal128(5, 2)),
    _arrays(_decimals(38, 0), pa.decimal128(38, 0)),
    _arrays(_decimals(60, 10), pa.decimal256(60, 10)),
    _arrays(st.booleans(), pa.bool_()),
    _arrays(st.dates(), pa.date32()),
    _arrays(st.dates(), pa.date64()),
    _arrays(moments, pa.timestamp("us")),
    _arrays(moments.map(lambda moment: moment.replace(microsecond=0)), pa.timestamp("s")),
    _arrays(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)), pa.timestamp("ns")),
    _arrays(moments.map(lambda moment: moment.replace(tzinfo=dt.UTC)), pa.timestamp("us", "UTC")),
    _arrays(_texts, pa.string()).map(lambda array: array.dictionary_encode()),
    _arrays(_signed(64), pa.int64()).map(lambda array: array.dictionary_encode()),
    st.integers(0, 5).map(pa.nulls),
)

odd_arrays = st.one_of(
    _arrays(_signed(64), pa.int64()).map(lambda array: array.cast(pa.timestamp("s"))),
    _arrays(_signed(64), pa.int64()).map(lambda array: array.cast(pa.timestamp("ns", "Europe/Paris"))),
    _arrays(_signed(32), pa.int32()).map(lambda array: array.view(pa.date32())),
    _arrays(_signed(64), pa.int64()).map(lambda array: array.view(pa.date64())),
    _arrays(_signed(64), pa.int64()).map(lambda array: array.view(pa.duration("s"))),
    _arrays(_signed(64), pa.int64()).map(lambda array: array.view(pa.time64("us"))),
    _arrays(st.floats(width=16), pa.float16()),
    _arrays(st.binary(min_size=3, max_size=3), pa.binary(3)),
    _arrays(st.lists(st.integers(0, 9), max_size=2), pa.list_(pa.int64())),
    _arrays(st.fixed_dictionaries({"a": st.integers(0, 9)}), pa.struct([("a", pa.int64())])),
    _arrays(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), pa.month_day_nano_interval()),
    _arrays(_texts, pa.string(), least=1).map(lambda array: pa.compute.run_end_encode(array)),
)


def one_column_table(array: pa.Array, column: DomainColumn) -> tuple[pa.Table, TableDomain]:
    return pa.table([array], names=[column.name]), TableDomain((column,))
