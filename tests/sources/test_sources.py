from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sources.bounded import ODD, kept
from tests.sources.bounded import rows_of as _rows
from tests.table.coding.strategies import domain_of
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.source import SourceSpec

ROWS = pa.table(
    {
        "who": pa.array(["ann", "bob", "ann", None, "cy", "ann", "bob", "ann"]),
        "n": pa.array([1, 2, 3, 4, 5, 6, None, 6]),
        'odd "name"; DROP TABLE t': pa.array(list("abcdefgh")),
    }
)


def _source(uri: str, base: Path, table: str | None = None):
    return open_source(SourceSpec(uri=uri, table=table, snapshot="s"), base)


@pytest.fixture(params=["parquet", "directory", "csv", "csv.gz", "duckdb", "duckdb view"])
def source(request, tmp_path):
    match request.param:
        case "parquet":
            pq.write_table(ROWS, tmp_path / "t.parquet", row_group_size=3)
            return _source("t.parquet", tmp_path)
        case "directory":
            (tmp_path / "t" / "year=2026").mkdir(parents=True)
            (tmp_path / "t" / "_SUCCESS").touch()
            pq.write_table(ROWS.slice(0, 5), tmp_path / "t" / "a.parquet", row_group_size=2)
            pq.write_table(ROWS.slice(5), tmp_path / "t" / "year=2026" / "b.parquet")
            return _source(f"file://{tmp_path}/t", tmp_path)
        case "csv" | "csv.gz":
            quoted = ODD.replace('"', '""')
            lines = [f'who,n,"{quoted}"']
            lines += [
                ",".join("" if value is None else str(value) for value in row.values()) for row in ROWS.to_pylist()
            ]
            text = "\n".join(lines).encode()
            name = f"t.{request.param}"
            (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
            return _source(name, tmp_path)
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.register("rows_", ROWS)
        connection.execute('CREATE SCHEMA s; CREATE TABLE s."My table" AS SELECT * FROM rows_')
        connection.execute('CREATE VIEW v AS SELECT * FROM s."My table"')
    return _source("duckdb:///t.duckdb", tmp_path, "s.my table" if request.param == "duckdb" else "v")


def test_every_source_gives_the_same_rows(source):
    assert source.schema().names == ["who", "n", ODD]
    assert _rows(source, ["n", ODD]) == sorted((str(row["n"]), row[ODD]) for row in ROWS.to_pylist())
    assert _rows(source, ["who"]) == sorted((str(who),) for who in ROWS.column("who").to_pylist())


@pytest.mark.parametrize("cap", [1, 2, 3, 9])
def test_at_most_k_rows_an_entity_and_none_without_one(source, cap):
    found = Counter(who for who, *_ in kept(source, ["who", "n", ODD], Unit("who", cap)))
    assert found == {"ann": min(4, cap), "bob": min(2, cap), "cy": 1}
    assert len(kept(source, [ODD], Unit("who", cap))) == found.total()


def test_the_choice_follows_the_key_and_nothing_else(source):
    unit = Unit("who", 2)
    choices = {key: kept(source, ["n", ODD], unit, bytes([key])) for key in range(12)}
    assert all(kept(source, ["n", ODD], unit, bytes([key]), 1) == rows for key, rows in choices.items())
    assert len({tuple(rows) for rows in choices.values()}) > 2


def test_rows_are_estimated_from_metadata(source):
    assert source.row_estimate() in (8, None)


def test_reading_twice_gives_the_same_and_leaves_the_source_alone(source):
    assert _rows(source, ["n"]) == _rows(source, ["n"])


@pytest.mark.parametrize("uri", ["nowhere.parquet", "nowhere", "nowhere.csv", "duckdb:///nowhere.duckdb"])
def test_a_missing_file_is_a_source_error(uri, tmp_path):
    with pytest.raises(SourceError, match="nowhere") as caught:
        _source(uri, tmp_path, "t" if "duckdb" in uri else None).schema()
    assert caught.value.exit_code == 1
    assert caught.value.fix


@pytest.mark.parametrize("uri", ["mysql://me:hunter2@host/db", "t.xlsx", "duckdb://", "ftp://host/x.parquet"])
def test_an_unknown_kind_of_source_is_a_spec_error(uri, tmp_path):
    with pytest.raises(SpecError) as caught:
        _source(uri, tmp_path)
    assert "hunter2" not in str(caught.value)


def test_a_table_belongs_to_databases_and_only_there(tmp_path):
    with pytest.raises(SpecError, match="needs a table"):
        _source("duckdb:///t.duckdb", tmp_path)
    with pytest.raises(SpecError, match="a file is one table"):
        _source("t.parquet", tmp_path, "t")


@pytest.mark.parametrize("damage", [lambda data: data[:200], lambda data: b"", lambda data: data[:-1] + b"!"])
def test_corrupt_parquet_is_found_by_schema(damage, tmp_path):
    (tmp_path / "t").mkdir()
    pq.write_table(ROWS, tmp_path / "t" / "a.parquet")
    (tmp_path / "t" / "b.parquet").write_bytes(damage((tmp_path / "t" / "a.parquet").read_bytes()))
    with pytest.raises(SourceError, match=r"b\.parquet"):
        _source("t", tmp_path).schema()


def test_a_damaged_page_is_a_source_error_without_its_content(tmp_path):
    pq.write_table(ROWS, tmp_path / "t.parquet", compression="zstd")
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    data[4:60] = b"\xff" * 56
    (tmp_path / "t.parquet").write_bytes(data)
    source = _source("t.parquet", tmp_path)
    source.schema()
    with pytest.raises(SourceError, match=r"t\.parquet"):
        list(source.read(["who", "n"]))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (ROWS.drop_columns(["n"]), r"b\.parquet lacks the column\(s\) n"),
        (ROWS.append_column("extra", ROWS.column("n")), r"a\.parquet lacks the column\(s\) extra"),
        (
            ROWS.set_column(1, "n", ROWS.column("n").cast(pa.string())),
            r"'n' is int64 in a\.parquet but string in .*b\.parquet",
        ),
    ],
)
def test_files_that_disagree_are_found_by_schema(second, message, tmp_path):
    (tmp_path / "t").mkdir()
    pq.write_table(ROWS, tmp_path / "t" / "a.parquet")
    pq.write_table(second, tmp_path / "t" / "b.parquet")
    with pytest.raises(SourceError, match=message):
        _source("t", tmp_path).schema()


def test_an_empty_directory_and_an_empty_csv_are_source_errors(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.csv").touch()
    with pytest.raises(SourceError, match=r"no \.parquet file"):
        _source("empty", tmp_path).schema()
    with pytest.raises(SourceError, match="is empty"):
        _source("empty.csv", tmp_path).schema()


@pytest.mark.parametrize("content", [b"a,b", b"a,b\n", b"\xef\xbb\xbfa,b\r\n"])
def test_a_csv_header_alone_is_an_empty_table(content, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    source = _source("t.csv", tmp_path)
    assert source.schema().names == ["a", "b"]
    assert _rows(source, ["b"]) == []
    assert list(LocalTable(source, domain_of({"b": {"type": "boolean"}}), Unit("a", 2), b"k").record_batches()) == []


def test_malformed_csv_lines_never_fail(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'a,b\n1,2\n3\n4,5,6\n\xff\xfe,"multi\nline"\n,\nNA,null\n7,"unclosed')
    found = list(_source("t.csv", tmp_path).read(["b", "a"]))
    assert [batch.column("b").to_pylist() for batch in found] == [["2", "multi", None, "null", "unclosed"]]


def test_a_truncated_gzip_is_a_source_error(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)[:60])
    with pytest.raises(SourceError, match=r"t\.csv\.gz"):
        list(_source("t.csv.gz", tmp_path).read(["a"]))


def test_a_locked_database_is_a_clear_source_error(tmp_path):
    with duckdb.connect(tmp_path / "t.duckdb") as writer:
        writer.execute("CREATE TABLE t AS SELECT 1 AS a")
        with pytest.raises(SourceError, match="locked"):
            _source("duckdb:///t.duckdb", tmp_path, "t").schema()


def test_a_file_that_is_no_database_is_a_source_error(tmp_path):
    (tmp_path / "t.duckdb").write_bytes(b"not a database" * 1000)
    with pytest.raises(SourceError, match="not a readable DuckDB"):
        _source("duckdb:///t.duckdb", tmp_path, "t").schema()


def test_names_reach_sql_only_if_the_catalogue_lists_them(tmp_path):
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(SpecError, match=r"no table or view .* \(it has: main\.t\)"):
        _source("duckdb:///t.duckdb", tmp_path, "t; DROP TABLE t").schema()
    source = _source("duckdb:///t.duckdb", tmp_path, "T")
    with pytest.raises(SpecError, match="no column"):
        list(source.read(['a" FROM t; --']))
    with pytest.raises(SpecError, match="no column"):
        list(source.read(["a", "1 OR 1"]))
    assert _rows(source, ["a"]) == [("1",)]
