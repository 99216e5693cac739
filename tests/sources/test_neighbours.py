"""From source to counts, for every kind of source: one entity more or less moves no count by more than its k rows."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.table.coding.strategies import domain_of
from tests.warehouse import Warehouse
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources import bounding
from understudy.pipelines.sources.hashing import Hashes
from understudy.pipelines.sources.ids import read_ids
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.source import SourceSpec

DOMAIN = domain_of(
    {
        "age": {"type": "integer", "min": 0, "max": 9},
        "ward": {"type": "category", "values": ["A", "B"], "other": True, "nullable": True},
        "cost": {"type": "number", "min": 0, "max": 9, "bins": 9, "nullable": True},
    }
)
CLIQUES = [(), (0,), (1,), (2,), (0, 1), (0, 1, 2)]
CAP = 2
NAN = float("nan")
Row = tuple[float | None, int, str | None, float | None]
ROWS: list[Row] = [
    *((7.0, age, "AB"[age % 2], age / 2) for age in range(6)),  # over the cap
    *((8.0, age, None, None) for age in range(2)),  # at it
    (9.0, 5, "C", 1.5),
    *((10.0, 4, "A", 2.5) for _ in range(5)),  # equal rows
    *((NAN, age, "B", 1.0) for age in range(4)),  # nobody's
    *((None, age, "B", 1.0) for age in range(3)),
    (-3.5, 1, "A", 0.5),
]
SPELLINGS = ("{:g}", " {:g}", "{:.1f}", "0{:g}", "+{:g}", "{:g} ")


class Place:
    """Writes a table as a source of any kind, and opens it."""

    def __init__(self, folder: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.warehouse, self.monkeypatch, self.made = folder, warehouse, monkeypatch, 0

    def source(self, kind: str, rows: Sequence[Row]) -> Any:
        self.made += 1
        name, table = f"t{self.made}", arrow(rows)
        folder = self.folder / name
        folder.mkdir()
        match kind.removesuffix(" on dask"):
            case "memory":
                return ArrowSource(table)
            case "parquet plain" | "parquet codes":
                coded = kind.startswith("parquet codes")
                pq.write_table(table, folder / "t.parquet", row_group_size=5, use_dictionary=coded)
                return opened(folder / "t.parquet")
            case "parquet directory":
                for i in range(0, len(rows), 4):
                    pq.write_table(table.slice(i, 4), folder / f"{i:02d}.parquet", row_group_size=3)
                return opened(folder)
            case "csv":
                (folder / "t.csv").write_bytes(csv(rows))
                return opened(folder / "t.csv")
            case "csv.gz":
                (folder / "t.csv.gz").write_bytes(gzip.compress(csv(rows)))
                return opened(folder / "t.csv.gz")
            case "object parquet" | "object csv":
                store = fsspec.filesystem("memory")
                uri = f"memory://{folder.name}-{id(self)}/t.{kind.split()[1]}"
                with store.open(uri.removeprefix("memory:/"), "wb") as stream:
                    stream.write(csv(rows)) if kind == "object csv" else pq.write_table(table, stream)
                return opened(uri)
            case "duckdb" | "duckdb view":
                with duckdb.connect(folder / "t.duckdb") as connection:
                    connection.register("rows_", table)
                    connection.execute("CREATE TABLE t AS SELECT * FROM rows_; CREATE VIEW v AS SELECT * FROM t")
                return opened(f"duckdb:///{folder / 't.duckdb'}", "v" if "view" in kind else "t")
            case "postgresql" | "postgresql view" | "postgresql numeric" | "sql postgresql":
                type_ = "numeric" if "numeric" in kind else "float8"
                self.warehouse.execute(f"CREATE TABLE {name} (who {type_}, age int, ward text, cost float8)")
                with self.warehouse.connect() as connection, connection.cursor() as cursor:
                    cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s, %s, %s)".encode(), list(rows))
                if "view" in kind:
                    self.warehouse.execute(f"CREATE VIEW v{name} AS SELECT * FROM {name}")
                if kind == "sql postgresql":
                    self.monkeypatch.setenv("W_URL", self.warehouse.url)
                    return opened("sql+env://W_URL", name)
                return opened(self.warehouse.uri, f"{self.warehouse.schema}.{'v' if 'view' in kind else ''}{name}")
            case "sql sqlite":
                with sqlite3.connect(folder / "t.db") as connection:
                    connection.execute("CREATE TABLE t (who float, age integer, ward varchar(9), cost float)")
                    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
                connection.close()
                self.monkeypatch.setenv("W_URL", f"sqlite:///{folder / 't.db'}")
                return opened("sql+env://W_URL", "t")
        raise AssertionError(kind)

    def counts(self, kind: str, rows: Sequence[Row], key: bytes = b"key") -> list[np.ndarray]:
        source = self.source(kind, rows)
        if kind.endswith("on dask"):
            from understudy.tasks.engines.dask_counting import DaskTable

            return DaskTable(source, DOMAIN, Unit("who", CAP), key, batch_rows=3).counts(CLIQUES)
        return LocalTable(source, DOMAIN, Unit("who", CAP), key, batch_rows=3, threads=2).counts(CLIQUES)


def opened(uri: Any, table: str | None = None) -> Any:
    return open_source(SourceSpec(uri=str(uri), table=table, snapshot="s"), Path("/"))


def arrow(rows: Sequence[Row]) -> pa.Table:
    who, age, ward, cost = (list(column) for column in zip(*rows, strict=True))
    return pa.table(
        {
            "who": pa.array(who, pa.float64(), from_pandas=False),
            "age": pa.array(age, pa.int32()),
            "ward": pa.array(ward, pa.string()),
            "cost": pa.array(cost, pa.float64()),
        }
    )


def csv(rows: Sequence[Row]) -> bytes:
    """Ids spelled in many ways; what is nobody's is empty or NaN."""
    lines = ["who,age,ward,cost"]
    for i, (who, age, ward, cost) in enumerate(rows):
        spelled = "" if who is None else "NaN" if who != who else str(who) if who < 0 else _spelled(who, i)
        lines.append(f"{spelled},{age},{ward or ''},{'' if cost is None else cost}")
    return ("\n".join(lines) + "\n").encode()


def _spelled(who: float, i: int) -> str:
    return SPELLINGS[i % len(SPELLINGS)].format(who)


@pytest.fixture
def place(tmp_path: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, warehouse, monkeypatch)


KINDS = [
    "memory", "parquet plain", "parquet codes", "parquet directory", "parquet directory on dask", "csv", "csv.gz",
    "object parquet", "object csv", "duckdb", "duckdb view", "postgresql", "postgresql view", "postgresql numeric",
    "sql sqlite", "sql postgresql",
]  # fmt: skip


def same(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return all((a == b).all() for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_one_entity_moves_no_count_by_more_than_its_rows_and_nobody_moves_any(kind: str, place: Place) -> None:
    whole = place.counts(kind, ROWS)
    assert int(whole[0]) == 2 + 2 + 1 + 2 + 1
    assert same(whole, place.counts("memory", ROWS))  # every kind of source keeps the same rows
    assert same(place.counts(kind, [*ROWS[::-1], (NAN, 3, "A", 1.0), (None, 3, "A", 1.0)]), whole)
    leaving: list[Callable[[Row], bool]] = [lambda row, who=who: row[0] != who for who in (7.0, 10.0)]
    for stays in leaving:
        less = place.counts(kind, [row for row in ROWS if stays(row)])
        for more, fewer in zip(whole, less, strict=True):
            assert (more >= fewer).all()
            assert (more - fewer).sum() == CAP
    added = place.counts(kind, [*((11.0, age, "B", 3.0) for age in range(5)), *ROWS])
    assert all((a >= b).all() and (a - b).sum() == CAP for a, b in zip(added, whole, strict=True))


COLLIDING = (7845423264202517257, 4107752930008100638)


def whole_ids(pair: Sequence[int]) -> pa.Table:
    rows = [(who, age, "AB"[i % 2], 1.0) for i, who in enumerate(pair) for age in range(CAP)]
    who, age, ward, cost = (list(column) for column in zip(*rows, strict=True))
    return pa.table({"who": pa.array(who, pa.int64()), "age": age, "ward": ward, "cost": cost})


def test_two_ids_that_collided_in_64_bits_have_an_allowance_each() -> None:
    """The pair has one SipHash-2-4 under the key that commit 7b5a274 derives from b"key": Pollard's rho found it."""
    one, both = ((LocalTable(ArrowSource(whole_ids(ids)), DOMAIN, Unit("who", CAP), b"key").counts(CLIQUES))
                 for ids in (COLLIDING[:1], COLLIDING))  # fmt: skip
    assert len(set(COLLIDING)) == 2
    assert int(both[0]) == 2 * CAP
    assert all((a >= b).all() and (a - b).sum() == CAP for a, b in zip(both, one, strict=True))


@pytest.mark.parametrize("half", ["high", "low"])
def test_ids_that_collide_in_either_half_of_the_hash_are_told_apart(half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def weakened(*arguments: Any) -> tuple[np.ndarray, Hashes]:
        known, found = read_ids(*arguments)
        nothing = np.zeros(len(found), np.uint64)
        return known, Hashes(nothing, found.low) if half == "high" else Hashes(found.high, nothing)

    monkeypatch.setattr(bounding, "read_ids", weakened)
    table = whole_ids(range(40)).take(np.random.default_rng(0).permutation(40 * CAP))
    counts = LocalTable(ArrowSource(table), DOMAIN, Unit("who", CAP), b"key", batch_rows=7).counts(CLIQUES)
    assert int(counts[0]) == 40 * CAP


def test_with_ids_as_text_the_spellings_are_different_people(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "who,age,ward,cost\n" + "".join(f"{w},{i},A,1\n" for i, w in enumerate(["7", "07"] * 3))
    )
    for as_text, expected in ((False, CAP), (True, 2 * CAP)):
        table = LocalTable(opened(tmp_path / "t.csv"), DOMAIN, Unit("who", CAP, as_text), b"key")
        assert int(table.counts(CLIQUES)[0]) == expected
