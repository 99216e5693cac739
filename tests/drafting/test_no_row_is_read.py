"""A draft needs a catalogue and nothing behind it: every source is made unreadable, and the draft is the same."""

from __future__ import annotations

import gzip
import os
import sqlite3
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse import Warehouse
from understudy.pipelines.drafting.catalogue import csv_columns, spec_name, table_facts
from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource
from understudy.pipelines.sources.databases.postgresql import PostgresSource
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.spec.address import Address

HEADER = b'age,sex,"a, b",email\r\n'


def test_of_a_csv_file_not_one_byte_behind_the_header_is_read(tmp_path: Path) -> None:
    """From a pipe whatever is read is gone: the rows must still be in it afterwards."""
    path = tmp_path / "people.csv"
    os.mkfifo(path)
    rows = b"37,F,x,nobody@example.org\r\n" * 100
    rest: list[bytes] = []

    def write() -> None:
        with path.open("r+b", buffering=0) as both:  # so that the pipe outlives its reader
            both.write(HEADER + rows)
            done.wait(30)
            rest.append(both.read(len(HEADER + rows)))

    done = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    try:
        facts = table_facts(str(path), None, tmp_path)
    finally:
        done.set()
        writer.join()
    assert [column.name for column in facts.columns] == ["age", "sex", "a, b", "email"]
    assert rest == [rows]


def test_a_csv_file_may_be_nothing_but_its_header(tmp_path: Path) -> None:
    for name, content in (("a.csv", HEADER.rstrip()), ("b.csv.gz", gzip.compress(HEADER))):
        (tmp_path / name).write_bytes(content)
        assert csv_columns(tmp_path / name) == (["age", "sex", "a, b", "email"], ",")


def test_a_gzipped_csv_file_may_end_in_garbage(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    whole = gzip.compress(HEADER + os.urandom(2_000_000))
    path.write_bytes(whole[:200_000])
    assert csv_columns(path) == (["age", "sex", "a, b", "email"], ",")


def test_a_folder_of_csv_files_is_drafted_from_one_header_and_the_names_of_its_folders(tmp_path: Path) -> None:
    for month, name, content in (
        ("2026-01", "a.csv.gz", gzip.compress(HEADER + os.urandom(1000))),
        ("2026-02", "b.csv", HEADER),
        ("2026-03", "_log.csv", b"nothing\n"),
    ):
        (tmp_path / "visits" / f"month={month}").mkdir(parents=True)
        (tmp_path / "visits" / f"month={month}" / name).write_bytes(content)
    for typed, uri in (("visits", "visits"), ("visits/*.csv", "visits/*.csv")):
        facts = table_facts(str(tmp_path / typed), None, tmp_path)
        assert [column.name for column in facts.columns] == ["age", "sex", "a, b", "email", "month"]
        assert facts.uri == uri
        assert spec_name(facts, typed) == "visits"
        assert "2026" not in str(facts)
    with pytest.raises(UnderstudyError, match="holds no"):
        table_facts(str(tmp_path / "visits" / "*.csv.zst"), None, tmp_path)


def test_folders_of_parquet_files_that_are_columns_are_drafted(tmp_path: Path) -> None:
    for ward in ("A", "B"):
        (tmp_path / "visits" / f"ward={ward}" / "month=1").mkdir(parents=True)
        ages = pa.table({"age": [1, 2], "month": ["1", "2"]})
        pq.write_table(ages, tmp_path / "visits" / f"ward={ward}" / "month=1" / "x.parquet")
    facts = table_facts(str(tmp_path / "visits"), None, tmp_path)
    assert [column.name for column in facts.columns] == ["age", "month", "ward"]  # `month` is in the files
    assert [column.name for column in facts.columns] == ParquetSource(tmp_path / "visits").schema().names


def parquet(path: Path, ages: list[int]) -> Path:
    table = pa.table({"age": pa.array(ages, pa.int32()), "ward": pa.array(["A"] * len(ages)).dictionary_encode()})
    pq.write_table(table, path, row_group_size=100)
    return path


def test_a_parquet_file_whose_pages_are_zero_drafts_the_same(tmp_path: Path) -> None:
    path = parquet(tmp_path / "visits.parquet", list(range(1000)))
    before = table_facts(str(path), None, tmp_path)
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4:-footer] = bytes(len(content) - 4 - footer)
    path.write_bytes(content)
    with pytest.raises((pa.ArrowException, OSError)):
        pq.read_table(path)
    assert table_facts(str(path), None, tmp_path) == before


def test_statistics_and_the_number_of_rows_do_not_matter(tmp_path: Path) -> None:
    """Two files whose footers differ in all that is about rows."""
    path = parquet(tmp_path / "visits.parquet", [1, 2, 3])
    before = table_facts(str(path), None, tmp_path)
    assert table_facts(str(parquet(path, [77] * 5000)), None, tmp_path) == before
    assert before.columns[0].low is None


def test_an_arrow_file_is_asked_for_its_schema(tmp_path: Path) -> None:
    table = pa.table({"ward": pa.array(["A", "B"] * 500).dictionary_encode(), "age": pa.array([1] * 1000)})
    path = tmp_path / "visits.arrow"
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    facts = table_facts(str(path), None, tmp_path)
    assert [(column.name, column.kind, column.values) for column in facts.columns] == [
        ("ward", "text", ()),
        ("age", "integer", ()),
    ]


def test_a_duckdb_file_whose_rows_are_overwritten_drafts_the_same(tmp_path: Path) -> None:
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TYPE sort AS ENUM ('in', 'out')")
        connection.execute("CREATE TABLE visits (age INTEGER CHECK (age BETWEEN 0 AND 120), sort sort, note VARCHAR)")
        connection.execute("INSERT INTO visits SELECT i % 90, 'in', repeat('x', 100) || i FROM range(300000) t(i)")
        connection.execute("CHECKPOINT")
        blocks = connection.execute(
            "SELECT DISTINCT block_id FROM pragma_storage_info('visits') WHERE block_id >= 0"
        ).fetchall()
        size = connection.execute("SELECT block_size FROM pragma_database_size()").fetchone()
    assert size is not None
    before = table_facts(str(path), "visits", tmp_path)
    with path.open("r+b") as file:
        for (block,) in blocks:
            file.seek(3 * 4096 + block * size[0])
            file.write(os.urandom(size[0]))
    source = DuckDBSource(path, "visits")
    with pytest.raises(UnderstudyError):
        list(source.read(["age", "note"]))
    assert table_facts(str(path), "visits", tmp_path) == before
    assert before.columns[0].high == 120
    assert before.columns[1].values == ("in", "out")


def test_a_sqlite_table_whose_pages_are_overwritten_drafts_the_same(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, sort TEXT CHECK (sort IN ('a', 'b')), price REAL)")
    connection.executemany("INSERT INTO orders VALUES (?, 'a', 1.5)", [(number,) for number in range(5000)])
    connection.commit()
    [(root,), (size,)] = [
        connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'orders'").fetchone(),
        connection.execute("PRAGMA page_size").fetchone(),
    ]
    connection.close()
    before = table_facts(f"sqlite:///{path}", "orders", tmp_path)
    content = bytearray(path.read_bytes())
    content[(root - 1) * size :] = os.urandom(len(content) - (root - 1) * size)
    path.write_bytes(content)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.DatabaseError):
        connection.execute("SELECT * FROM orders").fetchall()
    connection.close()
    assert table_facts(f"sqlite:///{path}", "orders", tmp_path) == before
    assert before.columns[1].values == ("a", "b")


def test_postgresql_is_drafted_by_a_role_that_may_not_read_the_table(warehouse: Warehouse) -> None:
    role = f"drafter_{warehouse.schema}"
    warehouse.execute(
        "CREATE TABLE visits (age int CHECK (age BETWEEN 0 AND 120), sex text CHECK (sex IN ('F', 'M')))",
        "INSERT INTO visits VALUES (40, 'F')",
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {warehouse.schema} TO {role}",
    )
    try:
        uri = f"postgresql://{role}@{warehouse.uri.partition('@')[2]}"
        table = f"{warehouse.schema}.visits"
        with pytest.raises(UnderstudyError, match="not permitted"):
            list(PostgresSource(Address.parse(uri, "source.uri"), table).read(["age"]))
        facts = table_facts(uri, table, Path())
    finally:
        warehouse.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
    age, sex = facts.columns
    assert (age.low, age.high, sex.values) == (0, 120, ("F", "M"))


def test_postgresql_waits_for_nobody_who_locks_the_table(warehouse: Warehouse) -> None:
    """A reader of rows would have to wait for a lock that nobody may share."""
    warehouse.execute("CREATE TABLE visits (age int)")
    with warehouse.connect() as connection, connection.transaction():
        connection.execute(f"LOCK TABLE {warehouse.schema}.visits IN ACCESS EXCLUSIVE MODE")
        facts = table_facts(warehouse.uri, f"{warehouse.schema}.visits", Path())
    assert [column.name for column in facts.columns] == ["age"]
