"""Tables that change while they are read: a clear error before any charge, and never more than k rows of anyone."""

from __future__ import annotations

import gzip
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sources.test_neighbours import opened
from tests.table.coding.strategies import domain_of
from tests.warehouse import Warehouse
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import SourceError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources import bounding
from understudy.pipelines.sources.databases import postgresql, postgresql_binary
from understudy.pipelines.sources.pinning import FilePin

PEOPLE, CAP = 60, 2
DOMAIN = domain_of(
    {
        "who": {"type": "integer", "min": 0, "max": PEOPLE - 1, "bins": PEOPLE},
        "x": {"type": "integer", "min": 0, "max": 9},
    }
)
UNIT = Unit("who", CAP)
CHANGED = "changed while it was read; nothing was spent"
Change = Callable[[Path], None]


def table(rows: int = 300, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"who": rng.integers(0, PEOPLE, rows), "x": rng.integers(0, 10, rows)})


def text(rows: pa.Table) -> bytes:
    return b"who,x\n" + b"".join(b"%d,%d\n" % (row["who"], row["x"]) for row in rows.to_pylist())


def written(kind: str, folder: Path, rows: pa.Table) -> Path:
    path = folder / f"t.{kind}"
    match kind:
        case "csv":
            path.write_bytes(text(rows))
        case "csv.gz":
            path.write_bytes(gzip.compress(text(rows)))
        case "parquet":
            pq.write_table(rows, path, row_group_size=40)
        case "npz":
            np.savez(path, **{name: rows[name].to_numpy() for name in rows.column_names})
    return path


def appended(path: Path) -> None:
    with path.open("ab") as file:
        file.write(gzip.compress(b"7,7\n" * 9) if path.suffix == ".gz" else b"7,7\n" * 9)


def replaced(path: Path) -> None:
    other = written(path.name.removeprefix("t."), path.parent / "..", table(seed=1))
    os.replace(other, path)


def rewritten(path: Path) -> None:
    """The same size and the same time of change, as far as a program may set it."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def touched(path: Path) -> None:
    path.touch()


CHANGES = [appended, replaced, rewritten, touched, Path.unlink]


@pytest.fixture
def between_passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], list[int]]:
    """Bounding needs several passes, and something happens after the first."""
    monkeypatch.setattr(bounding, "BOUNDING_BYTES", 4000)
    monkeypatch.setattr(bounding, "MERGE_BYTES", 100)
    gather = bounding._gather

    def arrange(happens: Callable[[], None]) -> list[int]:
        passes: list[int] = []

        def gathering(*arguments: Any) -> Any:
            if len(passes) == 1:
                happens()
            passes.append(1)
            return gather(*arguments)

        monkeypatch.setattr(bounding, "_gather", gathering)
        return passes

    return arrange


def most_of_anyone(source: Any) -> int:
    return int(LocalTable(source, DOMAIN, UNIT, b"key", batch_rows=25).counts([(0,)])[0].max())


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "npz"])
def test_a_file_that_changes_between_passes_is_an_error(
    kind: str, change: Change, tmp_path: Path, between_passes: Any
) -> None:
    (tmp_path / "in").mkdir()
    path = written(kind, tmp_path / "in", table())
    passes = between_passes(lambda: change(path))
    with pytest.raises(SourceError, match=CHANGED) as caught:
        most_of_anyone(opened(path))
    assert len(passes) == 2
    assert caught.value.__context__ is None


@pytest.mark.parametrize("change", [appended, replaced])
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_even_if_nobody_noticed_no_more_than_k_rows_of_anyone_would_be_counted(
    kind: str, change: Change, tmp_path: Path, between_passes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    path = written(kind, tmp_path / "in", table())
    if kind == "parquet" and change is appended:
        change = replaced  # a Parquet file with bytes after its footer is none
    passes = between_passes(lambda: change(path))
    monkeypatch.setattr(FilePin, "check", lambda pin: None)
    assert most_of_anyone(opened(path)) == CAP
    assert len(passes) > 2


@pytest.mark.parametrize("unit", [Unit(), UNIT])
@pytest.mark.parametrize("change", [appended, replaced, rewritten])
def test_a_file_that_changes_within_a_pass_is_an_error_for_rows_and_entities(
    change: Change, unit: Unit, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    source = opened(written("csv", tmp_path / "in", table(100)))
    reading = source.read(["who", "x"], 10)
    next(reading)
    change(tmp_path / "in" / "t.csv")
    with pytest.raises(SourceError, match=CHANGED):
        list(reading)
    with pytest.raises(SourceError, match=CHANGED):
        LocalTable(source, DOMAIN, unit, b"key").counts([(0,)])
    assert LocalTable(opened(tmp_path / "in" / "t.csv"), DOMAIN, unit, b"key").counts([(0,)])[0].sum() > 0


def test_parts_carry_the_pin_to_other_processes(tmp_path: Path) -> None:
    path = written("parquet", tmp_path, table())
    source = opened(path)
    copies = [pickle.loads(pickle.dumps(part)) for part in source.parts()]
    assert sum(batch.num_rows for part in copies for batch in part.read(["x"])) == 300
    pq.write_table(table(seed=2), path, row_group_size=40)
    for part in copies:
        with pytest.raises(SourceError, match=CHANGED):
            list(part.read(["x"]))


def test_on_another_machine_the_device_may_have_another_number(tmp_path: Path) -> None:
    pin = FilePin.of(written("csv", tmp_path, table()))
    elsewhere = FilePin(pin.path, "elsewhere", pin.device + 1, pin.state)
    elsewhere.check()
    with pytest.raises(SourceError, match=CHANGED):
        FilePin(pin.path, pin.host, pin.device + 1, pin.state).check()


def test_an_object_that_changes_while_it_is_read_is_an_error() -> None:
    store = fsspec.filesystem("memory")
    for name in ("a.csv", "a.parquet"):
        body = text(table()) if name.endswith("csv") else b""
        with store.open(f"/changing/{name}", "wb") as stream:
            stream.write(body) if body else pq.write_table(table(), stream)
        source = opened(f"memory://changing/{name}")
        reading = source.read(["who", "x"], 10)
        next(reading)
        with store.open(f"/changing/{name}", "wb") as stream:
            stream.write(text(table(301)))
        with pytest.raises(SourceError, match=CHANGED):
            list(reading)


@pytest.mark.parametrize("through_the_log", [False, True])
def test_a_duckdb_file_that_is_written_between_passes_is_an_error(
    tmp_path: Path, between_passes: Any, through_the_log: bool
) -> None:
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.register("rows_", table())
        connection.execute("CREATE TABLE t AS SELECT * FROM rows_")

    def written_to() -> None:
        with duckdb.connect(tmp_path / "t.duckdb") as connection:
            if through_the_log:
                connection.execute("PRAGMA disable_checkpoint_on_shutdown")
            connection.execute("INSERT INTO t SELECT 7, 7 FROM range(9)")

    between_passes(written_to)
    with pytest.raises(SourceError, match=CHANGED):
        most_of_anyone(opened(f"duckdb:///{tmp_path / 't.duckdb'}", "t"))
    assert (tmp_path / "t.duckdb.wal").exists() == through_the_log


@pytest.fixture
def visits(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(postgresql, "PAGES_A_PART", 1)
    rows = ", ".join(f"({row['who']}, {row['x']})" for row in table(2000).to_pylist())
    warehouse.execute(
        "CREATE TABLE visits (who int, x int, dead text) WITH (fillfactor = 20)",
        f"INSERT INTO visits VALUES {rows}",
        "CREATE INDEX by_x ON visits (x, who)",
    )
    return opened(warehouse.uri, f"{warehouse.schema}.visits")


REWRITES = ["CLUSTER visits USING by_x", "VACUUM FULL visits", "TRUNCATE visits", "ALTER TABLE visits DROP x"]


@pytest.mark.parametrize("rewrite", REWRITES)
def test_nobody_can_rewrite_a_postgresql_table_between_passes(
    rewrite: str, warehouse: Warehouse, visits: Any, between_passes: Any
) -> None:
    expected = LocalTable(visits, DOMAIN, UNIT, b"key").counts([(0,), (0, 1)])

    def attempt() -> None:
        warehouse.execute("INSERT INTO visits SELECT 7, g % 10 FROM generate_series(1, 50) g")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            warehouse.execute("SET lock_timeout = '50ms'", rewrite)

    passes = between_passes(attempt)
    found = LocalTable(visits, DOMAIN, UNIT, b"key", batch_rows=50).counts([(0,), (0, 1)])
    assert len(passes) > 2
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))


def test_who_waits_to_rewrite_the_table_makes_reading_fail_in_the_end(
    warehouse: Warehouse, visits: Any, between_passes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_binary, "LOCK_TIMEOUT", "200ms")
    clustering = threading.Thread(target=warehouse.execute, args=("CLUSTER visits USING by_x",))

    def begin() -> None:
        clustering.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
        while warehouse.rows(waiting) == [(0,)]:
            pass

    between_passes(begin)
    with pytest.raises(SourceError, match="had to wait too long"):
        most_of_anyone(visits)
    visits.close()
    clustering.join(30)
    assert not clustering.is_alive()
    assert most_of_anyone(opened(warehouse.uri, f"{warehouse.schema}.visits")) == CAP


@pytest.mark.parametrize("kind", ["view", "materialized", "partitioned"])
def test_what_lies_below_a_view_is_kept_as_well(kind: str, warehouse: Warehouse) -> None:
    match kind:
        case "view":
            warehouse.execute("CREATE TABLE base AS SELECT 1 AS x", "CREATE VIEW v AS SELECT * FROM base")
        case "materialized":
            warehouse.execute("CREATE TABLE one AS SELECT 1 AS x", "CREATE MATERIALIZED VIEW v AS SELECT * FROM one")
        case "partitioned":
            warehouse.execute(
                "CREATE TABLE v (x int) PARTITION BY HASH (x)",
                "CREATE TABLE base PARTITION OF v FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
                "INSERT INTO v VALUES (1)",
            )
    source = opened(warehouse.uri, f"{warehouse.schema}.v")
    assert sum(batch.num_rows for batch in source.read(["x"])) == 1
    rewrite = "REFRESH MATERIALIZED VIEW v" if kind == "materialized" else "VACUUM FULL base"
    with pytest.raises(psycopg.errors.LockNotAvailable):
        warehouse.execute("SET lock_timeout = '50ms'", rewrite)
    assert sum(batch.num_rows for batch in source.read(["x"])) == 1
