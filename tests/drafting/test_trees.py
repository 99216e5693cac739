"""Trees drafted from foreign keys: of DuckDB, PostgreSQL and SQLite, without a row."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from click.testing import CliRunner

from tests.postgres import new_database
from understudy.cli.main import main
from understudy.pipelines.discovery.asking import open_columns
from understudy.pipelines.releasing.domains import assumed_spec
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.spec.reading import load_spec

TABLES = [
    "CREATE TABLE patients (patient_id INTEGER PRIMARY KEY, sex TEXT CHECK (sex IN ('f', 'm')), age INTEGER,"
    " referred_by INTEGER REFERENCES patients (patient_id))",
    "CREATE TABLE visits (visit_id INTEGER PRIMARY KEY, patient_id INTEGER NOT NULL REFERENCES patients (patient_id),"
    " visited_on DATE, ward TEXT CHECK (ward IN ('a', 'b')), note TEXT)",
    "CREATE TABLE drugs (visit_id INTEGER REFERENCES visits (visit_id),"
    " patient_id INTEGER REFERENCES patients (patient_id), drug TEXT CHECK (drug IN ('x', 'y')))",
    "CREATE TABLE wards (ward TEXT PRIMARY KEY, beds INTEGER)",
    "CREATE TABLE labels (patient_id INTEGER REFERENCES patients (patient_id), label TEXT)",
]


def made(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of that kind with these tables; its address."""
    if kind == "duckdb":
        with duckdb.connect(folder / "clinic.duckdb") as connection:
            _create(connection)
        return str(folder / "clinic.duckdb")
    if kind == "sqlite":
        with sqlite3.connect(folder / "clinic.db") as file:
            _create(file)
        file.close()
        return f"sqlite:///{folder}/clinic.db"
    url = new_database().replace("+psycopg", "")
    with psycopg.connect(url) as server:
        _create(server)
    monkeypatch.setenv("TREE_PG", url)
    return "postgresql+env://TREE_PG"


def _create(connection: Any) -> None:
    for statement in TABLES:
        connection.execute(statement)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_what_points_to_the_root_is_drafted_below_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, out = made(kind, tmp_path, monkeypatch), tmp_path / "draft.yaml"
    told = CliRunner().invoke(main, ["init", address, "--root", "patients", "--yes", "--out", str(out)])
    assert told.exit_code == 0, told.output
    spec = load_spec(out)
    assert spec.tree is not None
    assert set(spec.tree.names) == {"patients", "visits", "drugs", "labels"}
    visits, drugs = spec.tree.table("visits"), spec.tree.table("drugs")
    assert (visits.parent, visits.by, visits.key, visits.order_by) == (
        "patients",
        "patient_id",
        "visit_id",
        "visited_on",
    )
    assert (drugs.parent, drugs.by, drugs.key) == ("visits", "visit_id", None)  # the deeper of two that it points to
    assert visits.max_rows == 12
    assert spec.privacy.unit.entity == "patients"
    assert "labels.label" in open_columns(spec)
    assert "--own-delta" in told.output
    assert "also points by patient_id" in out.read_text()
    assert "--entity patients" in told.output
    assert plan_release(assumed_spec(spec)).plan.charges


def test_what_no_tree_can_be_made_of_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = made("duckdb", tmp_path, monkeypatch)

    def said(*words: str) -> str:
        told = CliRunner().invoke(main, ["init", *words, "--yes", "--out", str(tmp_path / "x.yaml")])
        assert told.exit_code != 0
        return f"{told.output} {told.exception}"

    assert "nothing points to wards" in said(address, "--root", "wards")
    assert "has no table 'nobody'" in said(address, "--root", "nobody")
    assert "no primary key of one column" in said(address, "--root", "labels")
    assert "for a draft of one table" in said(address, "--root", "patients", "--table", "visits")
    (tmp_path / "a.csv").write_text("a,b\n")
    assert "foreign keys are followed" in said(str(tmp_path / "a.csv"), "--root", "a")
