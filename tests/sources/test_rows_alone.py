"""What a row becomes is decided by that row: alone, in any batch and beside any other row it is read alike.

The rows are hostile and lie in every kind of source. Reading is taken to the end: codes (privpgd), whole numbers on the
grid (gaussian), unit values (mixing) and levels (kernel) of each row, and the exact sums made of them.
"""

from __future__ import annotations

import csv
import gzip
import io
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.postgres import new_database
from tests.table.coding.strategies import domain_of
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.moments import exact_products, feature_blocks, fixed_point_writer
from understudy.pipelines.methods.kernel.features import on_levels
from understudy.pipelines.methods.unit_values import unit_column
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.coding.encode import encode

DECLARED = {
    "whole": {"type": "integer", "min": -3, "max": 110, "bins": 20, "nullable": True},
    "real": {"type": "number", "min": 0.05, "max": 9000, "bins": 31, "scale": "log", "nullable": True},
    "exact": {"type": "number", "min": -5, "max": 5, "bins": 9},
    "day": {"type": "date", "min": "2024-02-27", "max": "2026-12-31", "bins": "month"},
    "moment": {"type": "datetime", "min": "2026-01-01", "max": "2026-03-01", "bins": "day", "nullable": True},
    "word": {"type": "category", "values": ["A", "true", "2026-01-01", "7", "é"], "other": True, "nullable": True},
    "truth": {"type": "boolean", "nullable": True},
}
DOMAIN = domain_of(DECLARED)
LAYOUT = Layout.of(DOMAIN, None, 2**12)
NAMES = list(DECLARED)
Row = tuple[Any, ...]

TEXTS = [
    *[None, "7", " 7", "7.0", "-99999999999999999999", "1e999", "nan", "-inf", "0x10", "٣", "1e-320", "0.1", "é"],
    *["2026-13-45", "2026-02-30", "2026-01-05", "10000-01-01", "0044-03-15 BC", "infinity", "0000-00-00"],
    *["2026-01-05 10:00:59.123456789", "2026-01-05T10:00:00+05:45", "2026-01-05 24:00", "\x0b2026-01-05\t"],
    *["true", "FALSE", "maybe", "A", "a,b", 'say "hi"', '"', "'", "\\", "🙈" * 50, "x" * 3000, "\ufeff7"],
]
ROWS = [tuple(TEXTS[(row + 5 * place) % len(TEXTS)] for place in range(len(NAMES))) for row in range(len(TEXTS))]
"""Every text in every column."""
some_rows = st.lists(st.sampled_from(ROWS), min_size=1, max_size=12)


def outcome(batch: pa.RecordBatch) -> Iterator[Row]:
    """What each row of a batch becomes in every method."""
    codes = encode(batch, DOMAIN).columns
    blocks = [features.T.copy() for features, _ in feature_blocks(batch, LAYOUT, fixed_point_writer(batch, LAYOUT))]
    units = [unit_column(batch.column(column.name), column) for column in DOMAIN.columns if column.edges]
    levels = [on_levels((unit.astype(np.float32) + 1) / 2) for unit in units]
    shown = [np.where(np.isnan(unit), 9.0, unit) for unit in units]
    numbers = np.concatenate([*blocks, np.zeros((0, blocks[0].shape[1]))]) if blocks else np.zeros((0, 1))
    for row in range(batch.num_rows):
        yield (*(int(code[row]) for code in codes), *numbers[row], *(u[row] for u in shown), *(v[row] for v in levels))


def outcomes(source: Any, batch_rows: int) -> Counter[Row]:
    batches = source.read(NAMES, batch_rows)
    return Counter(row for batch in batches if batch.num_rows for row in outcome(batch))


def in_memory(rows: list[Row]) -> ArrowSource:
    texts = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(NAMES)}
    return ArrowSource(pa.table(texts))


class Store:
    """Where one kind of source keeps rows; each call replaces what was there."""

    def __init__(self, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kind, self.folder, self.bucket = kind, folder, ""
        self.url = new_database() if "postgresql" in kind else ""
        monkeypatch.setenv("ROWS_ALONE", self.url if kind == "sql postgresql" else f"sqlite:///{folder}/t.db")
        monkeypatch.setenv("ROWS_ALONE_PG", self.url.replace("+psycopg", ""))

    def open(self, uri: str, table: str | None = None) -> Any:
        return open_source(SourceSpec(uri=uri, table=table, snapshot="s"), self.folder)

    def holding(self, rows: list[Row]) -> Any:
        arrow = in_memory(rows).table
        match self.kind:
            case "memory":
                return ArrowSource(arrow)
            case "memory dictionary":
                return ArrowSource(pa.table([column.dictionary_encode() for column in arrow.columns], NAMES))
            case "memory runs":
                runs = [pa.compute.run_end_encode(column.combine_chunks()) for column in arrow.columns]
                return ArrowSource(pa.table(runs, NAMES))
            case "csv" | "csv.gz":
                data = _csv(rows)
                (self.folder / f"t.{self.kind}").write_bytes(gzip.compress(data) if self.kind == "csv.gz" else data)
                return self.open(f"t.{self.kind}")
            case "object store csv" | "object store parquet":
                ending = "csv" if self.kind.endswith("csv") else "parquet"
                file = io.BytesIO(_csv(rows) if ending == "csv" else b"")
                if ending == "parquet":
                    pq.write_table(arrow, file, row_group_size=2)
                boto3.client("s3").put_object(Bucket=self.bucket, Key=f"t.{ending}", Body=file.getvalue())
                return self.open(f"s3://{self.bucket}/t.{ending}")
            case "parquet" | "parquet dictionary":
                coded = self.kind == "parquet dictionary"
                pq.write_table(arrow, self.folder / "t.parquet", row_group_size=3, use_dictionary=coded)
                return self.open("t.parquet")
            case "parquet directory":
                (self.folder / "t").mkdir(exist_ok=True)
                pq.write_table(arrow.slice(0, 1), self.folder / "t" / "a.parquet", use_dictionary=False)
                pq.write_table(arrow.slice(1), self.folder / "t" / "b.parquet")
                return self.open("t")
            case "duckdb":
                (self.folder / "t.duckdb").unlink(missing_ok=True)
                with duckdb.connect(str(self.folder / "t.duckdb")) as connection:
                    connection.register("rows", arrow)
                    connection.execute("CREATE TABLE t AS SELECT * FROM rows")
                return self.open("duckdb:///t.duckdb", "t")
            case "sqlite":
                connection = sqlite3.connect(self.folder / "t.db")
                connection.executescript(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({SQLITE})")
                connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(NAMES))})", rows)
                connection.commit()
                connection.close()
                return self.open("sql+env://ROWS_ALONE", "t")
        with psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True) as server:
            server.execute("DROP TABLE IF EXISTS t")
            server.execute(f"CREATE TABLE t ({', '.join(f'{name} text' for name in NAMES)})".encode())
            with server.cursor() as cursor:
                cursor.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * len(NAMES))})".encode(), rows)
        return self.open(
            "sql+env://ROWS_ALONE" if self.kind.startswith("sql") else "postgresql+env://ROWS_ALONE_PG", "t"
        )


SQLITE = "whole integer, real float, exact numeric(9, 2), day date, moment datetime, word uuid, truth boolean"
"""SQLite holds any text in a column of any type; these are the types that SQLAlchemy would convert and fail on."""


def _csv(rows: list[Row]) -> bytes:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows([NAMES, *rows])
    return text.getvalue().encode()


KINDS = [
    *["memory", "memory dictionary", "memory runs", "csv", "csv.gz", "object store csv", "object store parquet"],
    *["parquet", "parquet dictionary", "parquet directory", "duckdb", "sqlite", "sql postgresql", "postgresql"],
]


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_text_is_read_as_it_is_alone_whatever_lies_beside_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    store = Store(kind, tmp_path, monkeypatch)
    store.bucket = request.getfixturevalue("bucket") if "object store" in kind else ""
    # Text is text: alone in memory it is read as alone in any source, except where columns have types of their own.
    alone = {row: only(outcomes(store.holding([row]) if kind == "sqlite" else in_memory([row]), 100)) for row in ROWS}

    few = 1 if "object store" in kind else 5

    @settings(max_examples=few, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(some_rows, st.integers(1, 4))
    @example(ROWS, 5)
    @example(ROWS[::-1], 100)
    def check(rows: list[Row], batch_rows: int) -> None:
        assert outcomes(store.holding(rows), batch_rows) == Counter(alone[row] for row in rows)

    check()


def only(found: Counter[Row]) -> Row:
    [row] = found.elements()
    return row


@settings(max_examples=60, deadline=None)
@given(some_rows, st.integers(0, 5), st.integers(1, 7))
def test_slices_and_sums_are_those_of_the_rows(rows: list[Row], start: int, size: int) -> None:
    [whole] = in_memory(rows).table.combine_chunks().to_batches()
    each = list(outcome(whole))
    part = whole.slice(start, size)
    assert list(outcome(part)) == each[start : start + size] if part.num_rows else True
    one_by_one = exact_products([whole.slice(row, 1) for row in range(len(rows))], LAYOUT)
    np.testing.assert_array_equal(exact_products([whole], LAYOUT), one_by_one)


TYPED = {
    "duckdb": {
        "whole": ("hugeint", ["7", "170141183460469231731687303715884105727", "-1"]),
        "real": ("float", ["'nan'", "'inf'", "0.1", "8999.99"]),
        "exact": ("decimal(38,10)", ["'-9999999999999999999999999999.9999999999'", "1.5"]),
        "day": ("date", ["'infinity'", "'4000-01-01 (BC)'", "'290000-01-01'", "'2026-01-05'"]),
        "moment": ("timestamptz", ["'-infinity'", "'290308-12-22 (BC)'", "'2026-01-05 10:00+05:45'"]),
        "word": ("enum('A', 'é', '7', 'z')", ["'A'", "'z'", "'é'"]),
        "truth": ("double", ["1", "0.5", "'nan'"]),
    },
    "postgresql": {
        "whole": ("int8", ["7", "9223372036854775807", "-9223372036854775808"]),
        "real": ("float4", ["'NaN'", "'-Infinity'", "0.1", "8999.99"]),
        "exact": ("numeric", ["'NaN'", "'Infinity'", "1e130000", "1.50", "-0.0"]),
        "day": ("date", ["'infinity'", "'4000-01-01 BC'", "'290000-01-01'", "'2026-01-05'"]),
        "moment": ("timestamptz", ["'-infinity'", "'4713-01-01 BC'", "'294276-12-31'", "'2026-01-05 10:00+05:45'"]),
        "word": ("char(4)", ["'A'", "'\ufeff7'", "'é'", "'\"'"]),
        "truth": ("bool", ["true", "false"]),
    },
    "sqlite": {
        "whole": ("integer", ["7", "7.5", "'x'", "x'ff00'", "9223372036854775807"]),
        "real": ("float", ["1e308", "9e999", "'0.1'", "x'ff'", "3"]),
        "exact": ("numeric(9, 2)", ["1.50", "9e999", "'1.50'", "x'312e35'", "-0.0"]),
        "day": ("date", ["'2026-13-45'", "20260105", "2460000.5", "x'ff'", "'2026-01-05'"]),
        "moment": ("datetime", ["'2026-01-05 25:00:00'", "1767600000", "CAST(x'323032ff' AS TEXT)", "'2026-01-05'"]),
        "word": ("json", ["'A'", "'{'", "7"]),
        "truth": ("boolean", ["1", "0", "2", "'true'", "x'01'"]),
    },
}
TYPED["sql postgresql"] = TYPED["postgresql"]


@pytest.mark.parametrize("kind", list(TYPED))
def test_odd_values_of_typed_columns_are_read_alone_as_beside_any_other_row(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(kind, tmp_path, monkeypatch)
    types = {name: type_ for name, (type_, _) in TYPED[kind].items()}
    if kind == "sqlite":
        types["word"] = "text"
    pools = [["NULL", *values] for _, values in TYPED[kind].values()]
    rows = [tuple(pool[(row + place) % len(pool)] for place, pool in enumerate(pools)) for row in range(6)]
    alone = {row: only(outcomes(_typed(store, types, [row]), 100)) for row in rows}

    @settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.sampled_from(rows), min_size=1, max_size=8), st.integers(1, 4))
    @example(rows, 100)
    def check(beside: list[Row], batch_rows: int) -> None:
        assert outcomes(_typed(store, types, beside), batch_rows) == Counter(alone[row] for row in beside)

    check()


def _typed(store: Store, types: dict[str, str], rows: list[Row]) -> Any:
    create = f"CREATE TABLE t ({', '.join(f'{name} {type_}' for name, type_ in types.items())})"
    inserts = [f"INSERT INTO t VALUES ({', '.join(row)})" for row in rows]
    if store.kind == "duckdb":
        (store.folder / "t.duckdb").unlink(missing_ok=True)
        with duckdb.connect(str(store.folder / "t.duckdb")) as engine:
            for statement in [create, *inserts]:
                engine.execute(statement)
        return store.open("duckdb:///t.duckdb", "t")
    if store.kind == "sqlite":
        connection = sqlite3.connect(store.folder / "t.db")
        connection.executescript(";".join(["DROP TABLE IF EXISTS t", create, *inserts]))
        connection.close()
        return store.open("sql+env://ROWS_ALONE", "t")
    with psycopg.connect(store.url.replace("+psycopg", ""), autocommit=True) as server:
        for statement in ["DROP TABLE IF EXISTS t", create, *inserts]:
            server.execute(statement.encode())
    return store.open("sql+env://ROWS_ALONE" if store.kind.startswith("sql") else "postgresql+env://ROWS_ALONE_PG", "t")
