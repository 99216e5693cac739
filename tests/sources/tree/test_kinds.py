"""A tree is counted alike from every kind of source, and from different kinds in one tree; neighbours too."""

from __future__ import annotations

import gzip
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.lakehouse import catalogue_in, write_iceberg
from tests.mariadb import MariaDB, new_mariadb
from tests.postgres import new_database
from tests.tree_oracle import KEY, NAMES, Rows, arrow, spelled, without_root
from tests.trees import CLINIC, domains_of
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.methods.tree.measure import exact_tables
from understudy.pipelines.methods.tree.plan import design_tree
from understudy.pipelines.sources.identity import data_identity
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.tree.opening import TreeSource, open_tree
from understudy.pipelines.spec.model import ReleaseSpec

Told = dict[str, Any]
"""What the `source` of a table is."""


def clinic_of(seed: int) -> Rows:
    """Ids that are shared, missing, repeated or nobody's; rows over every bound; equal rows."""
    rng = random.Random(seed)
    people = [None, *map(str, range(12))]
    visits = [None, *(f"v{i}" for i in range(30))]
    return {
        "patients": [
            {"patient_id": rng.choice(people), "sex": rng.choice("fm"), "age": rng.randrange(100)} for _ in range(20)
        ],
        "visits": [
            {
                "patient_id": rng.choice([*people, "99"]),
                "visit_id": rng.choice(visits),
                "ward": rng.choice(["a", "b", None]),
                "visited_on": rng.choice(["2020-01-05", "2020-03-31", "2020-07-01"]),
            }
            for _ in range(60)
        ],
        "drugs": [{"visit_id": rng.choice([*visits, "v99"]), "drug": rng.choice("xyz")} for _ in range(120)],
    }


def as_csv(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    pyarrow.csv.write_csv(arrow(rows, name), folder / f"{name}.csv")
    return {"uri": f"{name}.csv"}


def as_parquet(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    pyarrow.parquet.write_table(arrow(rows, name), folder / f"{name}.parquet", row_group_size=7)
    return {"uri": f"{name}.parquet"}


def as_csv_folder(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    table = arrow(rows, name)
    (folder / name).mkdir(exist_ok=True)
    for number, part in enumerate((table.slice(0, len(rows) // 2), table.slice(len(rows) // 2))):
        with gzip.open(folder / name / f"{number}.csv.gz", "wb") as file:
            pyarrow.csv.write_csv(part, file)
    return {"uri": f"{name}/*.csv.gz"}


def as_delta(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    from deltalake import write_deltalake

    write_deltalake(folder / name, arrow(rows, name), mode="overwrite")
    return {"uri": f"delta:///{name}"}


def as_iceberg(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    write_iceberg(arrow(rows, name), f"hospital.{name}")
    return {"uri": "iceberg://lake", "table": f"hospital.{name}"}


def as_sqlite_file(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    as_sqlite(folder, name, rows)
    return {"uri": "sqlite:///clinic.db", "table": name}


def as_mariadb(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    server = MariaDB(*(folder / "mariadb").read_text().split()) if (folder / "mariadb").exists() else new_mariadb()
    (folder / "mariadb").write_text(f"{server.socket} {server.name}")
    names = NAMES[name]
    columns = ", ".join(f"{column} {'integer' if column == 'age' else 'varchar(20)'}" for column in names)
    server.execute(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} ({columns})")
    server.insert(name, [[row[column] for column in names] for row in rows])
    return {"uri": server.uri, "table": name}


def as_duckdb(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    table = arrow(rows, name)
    with duckdb.connect(folder / "clinic.duckdb") as connection:
        connection.register("given", table)
        connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
    return {"uri": "duckdb:///clinic.duckdb", "table": name}


def as_sqlite(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    connection = sqlite3.connect(folder / "clinic.db")
    _insert(connection, name, rows, "?")
    connection.close()
    return {"uri": "sql+env://TREE_SQLITE", "table": name}


def as_postgresql(folder: Path, name: str, rows: list[dict[str, Any]]) -> Told:
    with psycopg.connect((folder / "pg").read_text()) as connection:
        _insert(connection, name, rows, "%s")
    return {"uri": "postgresql+env://TREE_PG", "table": name}


def _insert(connection: Any, name: str, rows: list[dict[str, Any]], mark: str) -> None:
    names = NAMES[name]
    columns = ", ".join(f"{column} {'integer' if column == 'age' else 'text'}" for column in names)
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"CREATE TABLE {name} ({columns})")
    for row in rows:
        marks = ", ".join([mark] * len(names))
        connection.execute(f"INSERT INTO {name} VALUES ({marks})", [row[column] for column in names])
    connection.commit()


KINDS: dict[str, tuple[Callable[..., Told], ...]] = {
    "csv": (as_csv,) * 3,
    "parquet": (as_parquet,) * 3,
    "duckdb": (as_duckdb,) * 3,
    "sqlite": (as_sqlite,) * 3,
    "postgresql": (as_postgresql,) * 3,
    "mariadb": (as_mariadb,) * 3,
    "of three kinds": (as_postgresql, as_csv, as_duckdb),
    "of two lakehouses": (as_delta, as_iceberg, as_iceberg),
    "of files and tables": (as_csv_folder, as_delta, as_sqlite_file),
    "of three others": (as_parquet, as_sqlite, as_postgresql),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    url = new_database().replace("+psycopg", "")
    (tmp_path / "pg").write_text(url)
    monkeypatch.setenv("TREE_PG", url)
    monkeypatch.setenv("TREE_SQLITE", f"sqlite:///{tmp_path}/clinic.db")
    catalogue_in(tmp_path, monkeypatch)
    return tmp_path


def spec_of(told: dict[str, Told]) -> ReleaseSpec:
    tables = {name: {**table, "source": told[name]} for name, table in CLINIC["tables"].items()}
    return ReleaseSpec.model_validate({**CLINIC, "source": {"snapshot": "1", "uri": "."}, "tables": tables})


def stored(rows: Rows, kinds: tuple[Callable[..., Told], ...], folder: Path) -> ReleaseSpec:
    return spec_of({name: kind(folder, name, rows[name]) for name, kind in zip(NAMES, kinds, strict=True)})


def counted(source: TreeSource, spec: ReleaseSpec, threads: int) -> dict[str, np.ndarray]:
    assert spec.tree is not None
    domains = domains_of(spec)
    found = exact_tables(LocalTree(source, spec.tree, domains, KEY, threads=threads), design_tree(spec, domains))
    source.close()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_same_numbers_and_neighbours(kind: str, place: Path) -> None:
    rows = clinic_of(3)
    for change in (rows, *(without_root(rows, spec_of({n: {"uri": "x.csv"} for n in NAMES}), k) for k in _some(rows))):
        spec = stored(change, KINDS[kind], place)
        found = counted(open_tree(spec, place), spec, threads=2)
        memory = TreeSource({name: ArrowSource(arrow(table, name)) for name, table in change.items()})
        expected = counted(memory, spec, threads=1)
        for name, table in expected.items():
            np.testing.assert_array_equal(found[name], table)
        if change is rows:
            whole = found
        for name, table in whole.items():
            assert (table - found[name]).min() >= 0
            assert (table - found[name]).sum() <= 60


def _some(rows: Rows) -> list[str]:
    return sorted({key for row in rows["patients"] if (key := spelled(row["patient_id"])) is not None})[:2]


def test_a_key_that_is_not_there_is_told_with_its_table(tmp_path: Path) -> None:
    spec = stored(clinic_of(1), (as_parquet,) * 3, tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "visits.parquet")
    pyarrow.parquet.write_table(table.drop_columns(["patient_id"]), tmp_path / "visits.parquet")
    with pytest.raises(SpecError, match=r"visits: the table has no key column 'patient_id'"):
        open_tree(spec, tmp_path)


def test_a_tree_is_known_by_all_its_tables(tmp_path: Path) -> None:
    spec = stored(clinic_of(1), (as_parquet, as_csv, as_parquet), tmp_path)
    told = data_identity(spec, tmp_path)
    assert "patients.parquet" in told
    assert "visits.csv" in told
    other = stored(clinic_of(1), (as_parquet, as_parquet, as_parquet), tmp_path)
    assert data_identity(other, tmp_path) != told


@pytest.mark.parametrize("kinds", [(as_parquet, as_csv, as_duckdb), (as_duckdb,) * 3])
def test_tables_are_read_in_the_state_they_had_together(kinds: Any, tmp_path: Path) -> None:
    """What changes after the tables were opened, also one that is read last, is noticed."""
    rows = clinic_of(2)
    spec = stored(rows, kinds, tmp_path)
    source = open_tree(spec, tmp_path)
    as_duckdb(tmp_path, "drugs", rows["drugs"][:5])
    with pytest.raises(SourceError, match="changed while it was read"):
        counted(source, spec, threads=1)


def test_postgresql_tables_are_read_under_one_snapshot(place: Path) -> None:
    """A patient who leaves with all rows between the first and the last table's read is wholly there."""
    rows = clinic_of(4)
    spec = stored(rows, (as_postgresql,) * 3, place)
    expected = counted(open_tree(spec, place), spec, threads=1)
    source = open_tree(spec, place)
    next(iter(source.tables["patients"].read(["patient_id"])))
    with psycopg.connect((place / "pg").read_text()) as connection:
        for name in NAMES:
            connection.execute(f"DELETE FROM {name}")
    found = counted(source, spec, threads=1)
    for name, table in expected.items():
        np.testing.assert_array_equal(found[name], table)
    empty = counted(open_tree(spec, place), spec, threads=1)
    assert sum(int(np.abs(table).sum()) for table in empty.values()) == 0
