"""The same neighbours as files and tables of databases: whatever one person's rows hold, nobody else's are read or
counted another way, and nothing fails."""

from __future__ import annotations

import datetime as dt
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.auditing.cases import planned_case
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.replay import replayed
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec

DECLARED = {"number": "DOUBLE", "integer": "BIGINT", "date": "DATE", "datetime": "DATETIME", "boolean": "BOOLEAN"}


def as_csv(table: pa.Table, folder: Path, spec: ReleaseSpec) -> dict[str, Any]:
    """Cells as they are: a quote that nobody closed stays one."""
    lines = [",".join(table.schema.names), *(",".join(map(_cell, row.values())) for row in table.to_pylist())]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"uri": "t.csv"}


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return f'"{text}"' if "," in text else text


def as_parquet(table: pa.Table, folder: Path, spec: ReleaseSpec) -> dict[str, Any]:
    pq.write_table(table, folder / "t.parquet", row_group_size=3)
    return {"uri": "t.parquet"}


def as_parquet_files(table: pa.Table, folder: Path, spec: ReleaseSpec) -> dict[str, Any]:
    (folder / "t").mkdir()
    for start in range(0, max(1, table.num_rows), 4):
        pq.write_table(table.slice(start, 4), folder / "t" / f"{start:02d}.parquet")
    return {"uri": "t"}


def as_duckdb(table: pa.Table, folder: Path, spec: ReleaseSpec) -> dict[str, Any]:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("made", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM made")
    return {"uri": "duckdb:///t.duckdb", "table": "t"}


def as_sqlite(table: pa.Table, folder: Path, spec: ReleaseSpec) -> dict[str, Any]:
    """By the types that are declared, whatever the cells hold: SQLite takes anything."""
    types = {name: DECLARED.get(column.type, "TEXT") for name, column in spec.columns.items()}
    columns = ", ".join(f'"{name}" {types.get(name, "")}' for name in table.schema.names)
    with closing(sqlite3.connect(folder / "t.db")) as connection:
        connection.execute(f"CREATE TABLE t ({columns})")
        marks = ", ".join("?" for _ in table.schema.names)
        rows = [tuple(map(_stored, row.values())) for row in table.to_pylist()]
        connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        connection.commit()
    return {"uri": "sql+env://AUDITED", "table": "t"}


def _stored(value: Any) -> Any:
    return (
        value.isoformat(" ") if isinstance(value, dt.datetime) else str(value) if isinstance(value, dt.date) else value
    )


KINDS: dict[str, Callable[[pa.Table, Path, ReleaseSpec], dict[str, Any]]] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "parquet files": as_parquet_files,
    "duckdb": as_duckdb,
    "sqlite": as_sqlite,
}


@lru_cache(maxsize=32)
def planned_from(kind: str, case: str) -> Planned:
    """What may be told of the number of rows depends on the source: not every line of a file is a row."""
    spec = planned_case(case).spec
    uri = "t.csv" if kind == "csv" else spec.source.uri
    return plan_release(spec.model_copy(update={"source": spec.source.model_copy(update={"uri": uri})}))


@pytest.mark.parametrize(
    "case", ["privpgd, people", "privpgd, replaced", "gaussian, people", "gaussian, fixed centre replaced"]
)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(choose=st.randoms(use_true_random=False))
def test_no_pair_of_neighbours_is_told_apart_by_where_it_lies(kind: str, case: str, choose: random.Random) -> None:
    planned = planned_from(kind, case)
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as environment:
        made = 0

        def opened(table: pa.Table, spec: ReleaseSpec) -> Source:
            nonlocal made
            made += 1
            folder = Path(name) / str(made)
            folder.mkdir()
            place = KINDS[kind](table, folder, spec)
            environment.setenv("AUDITED", f"sqlite:///{folder / 't.db'}")
            return open_source(SourceSpec(snapshot="1", **place), folder, spec)

        pair = made_pair(planned.spec, choose)
        found = replayed(planned, pair.table, pair.neighbour, choose.randrange(2**32), opened)
    assert found.holds, found
