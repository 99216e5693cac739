"""Made tables as files, tables of databases and objects of a store: where a pair of neighbours may lie."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import fsspec
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.postgres import new_database
from understudy.pipelines.auditing.values import Tables
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.sources.tree.opening import TreeSource, open_tree
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.spec.tree import TableSourceSpec

DECLARED = {"number": "DOUBLE", "integer": "BIGINT", "date": "DATE", "datetime": "DATETIME", "boolean": "BOOLEAN"}


def as_csv(table: pa.Table, folder: Path, spec: ReleaseSpec, name: str = "t") -> dict[str, Any]:
    """Cells as they are: a quote that nobody closed stays one."""
    (folder / f"{name}.csv").write_bytes(csv_bytes(table))
    return {"uri": f"{name}.csv"}


def csv_bytes(table: pa.Table) -> bytes:
    lines = [",".join(table.schema.names), *(",".join(map(_cell, row.values())) for row in table.to_pylist())]
    return ("\n".join(lines) + "\n").encode()


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return f'"{text}"' if "," in text else text


def as_parquet(table: pa.Table, folder: Path, spec: ReleaseSpec, name: str = "t") -> dict[str, Any]:
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=3)
    return {"uri": f"{name}.parquet"}


def as_parquet_files(table: pa.Table, folder: Path, spec: ReleaseSpec, name: str = "t") -> dict[str, Any]:
    (folder / name).mkdir()
    for start in range(0, max(1, table.num_rows), 4):
        pq.write_table(table.slice(start, 4), folder / name / f"{start:02d}.parquet")
    return {"uri": name}


def as_duckdb(table: pa.Table, folder: Path, spec: ReleaseSpec, name: str = "t") -> dict[str, Any]:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("made", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM made")
    return {"uri": "duckdb:///t.duckdb", "table": name}


def as_sqlite(table: pa.Table, folder: Path, spec: ReleaseSpec, name: str = "t") -> dict[str, Any]:
    """By the types that are declared, whatever the cells hold: SQLite takes anything."""
    types = {each: DECLARED.get(column.type, "TEXT") for each, column in spec.columns.items()}
    columns = ", ".join(f'"{each}" {types.get(each, "")}' for each in table.schema.names)
    with closing(sqlite3.connect(folder / "t.db")) as connection:
        connection.execute(f"CREATE TABLE {name} ({columns})")
        marks = ", ".join("?" for _ in table.schema.names)
        rows = [tuple(map(_stored, row.values())) for row in table.to_pylist()]
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        connection.commit()
    return {"uri": "sql+env://AUDITED", "table": name}


def _stored(value: Any) -> Any:
    return (
        value.isoformat(" ") if isinstance(value, dt.datetime) else str(value) if isinstance(value, dt.date) else value
    )


@cache
def schema() -> tuple[str, str, str]:
    """A schema of the session's PostgreSQL: its address for a test and for a spec, and its name."""
    url = new_database()
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    uri = f"postgresql://{parts.username}@{parts.path}?host={query['host'][0]}"
    return url.replace("+psycopg", ""), uri, query["options"][0].partition("=")[2]


def as_postgresql(table: pa.Table, folder: Path, spec: ReleaseSpec, name: str = "t") -> dict[str, Any]:
    """In columns of the table's own types. Of text PostgreSQL takes everything but a zero byte."""
    url, uri, within = schema()
    types = {field.name: _type_in_postgresql(field.type) for field in table.schema}
    columns = ", ".join(f'"{column}" {type_}' for column, type_ in types.items())
    rows = [tuple(_without_zero(value) for value in row.values()) for row in table.to_pylist()]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}".encode())
        connection.execute(f"CREATE TABLE {name} ({columns})".encode())
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {name} VALUES ({', '.join('%s' for _ in types)})".encode(), rows)
    return {"uri": uri, "table": f"{within}.{name}"}


def _type_in_postgresql(type_: pa.DataType) -> str:
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    if pa.types.is_floating(plain):
        return "float8"
    if pa.types.is_integer(plain):
        return "int8"
    if pa.types.is_boolean(plain):
        return "boolean"
    return "date" if pa.types.is_date(plain) else "timestamp" if pa.types.is_timestamp(plain) else "text"


def _without_zero(value: Any) -> Any:
    return value.replace("\x00", "\x01") if isinstance(value, str) else value


def as_object(table: pa.Table, folder: Path, spec: ReleaseSpec, name: str = "t") -> dict[str, Any]:
    """In a bucket of the S3 server that the environment names; `AUDITED_BUCKET` says which."""
    import os

    uri = f"s3://{os.environ['AUDITED_BUCKET']}/{folder.parent.name}-{folder.name}/{name}.parquet"
    with fsspec.open(uri, "wb") as stream:
        pq.write_table(table, stream, row_group_size=3)
    return {"uri": uri}


def as_object_csv(table: pa.Table, folder: Path, spec: ReleaseSpec, name: str = "t") -> dict[str, Any]:
    uri = f"memory://{folder.parent.name}-{folder.name}/{name}.csv"
    with fsspec.open(uri, "wb") as stream:
        stream.write(csv_bytes(table))
    return {"uri": uri}


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "parquet files": as_parquet_files,
    "duckdb": as_duckdb,
    "sqlite": as_sqlite,
    "postgresql": as_postgresql,
    "object csv": as_object_csv,
    "s3": as_object,
}


class Opener:
    """Puts whatever it is given into a place of its own, and opens it there."""

    def __init__(self, kind: str, folder: Path, environment: pytest.MonkeyPatch) -> None:
        self.kind, self.folder, self.environment, self.made = kind, folder, environment, 0
        self.last = folder

    def __call__(self, table: Tables, spec: ReleaseSpec) -> Source | TreeSource:
        self.made += 1
        self.last = self.folder / str(self.made)
        self.last.mkdir()
        self.environment.setenv("AUDITED", f"sqlite:///{self.last / 't.db'}")
        if not isinstance(table, pa.Table):
            return open_tree(placed(self.kind, table, self.last, spec), self.last)
        place = KINDS[self.kind](table, self.last, spec)
        return open_source(SourceSpec(snapshot="1", **place), self.last, spec)


def placed(kind: str, tables: Mapping[str, pa.Table], folder: Path, spec: ReleaseSpec) -> ReleaseSpec:
    """The spec of several tables, each of which now lies somewhere."""
    assert spec.tables is not None
    found = {}
    for name, own in spec.tables.items():
        place = KINDS[kind](tables[name], folder, spec.table(name), name)
        found[name] = own.model_copy(update={"source": TableSourceSpec(**place)})
    return spec.model_copy(update={"tables": found})
