"""One odd row moves the counts by its own bound at most, and the exit code not at all."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import Result

from tests.flows.conftest import Clinic
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.reading import load_spec
from understudy.pipelines.table.domain import TableDomain

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
FROM_DUCKDB = '"duckdb:///clinic.duckdb", table: visits'


def visits(clinic: Clinic) -> list[tuple]:
    with duckdb.connect(str(clinic.folder / "clinic.duckdb"), read_only=True) as connection:
        return connection.execute(
            "SELECT patient_id, visit_id, age, sex, charge, CAST(visited_on AS VARCHAR), ward, smoker FROM visits"
        ).fetchall()


def counts(clinic: Clinic) -> list[np.ndarray]:
    """Every marginal of one and two columns, bounded by entity, as a release counts them."""
    spec = load_spec(clinic.spec)
    domain = TableDomain.of(spec)
    places = range(len(domain.columns))
    source = open_source(spec.source, clinic.folder, spec)
    table = LocalTable(source, domain, spec.privacy.protected_unit, b"key")
    return table.counts([(), *itertools.combinations(places, 1), *itertools.combinations(places, 2)])


def moved(before: list[np.ndarray], after: list[np.ndarray]) -> int:
    return max(int(np.abs(a - b).sum()) for a, b in zip(before, after, strict=True))


def sqlite_visits(path: Path, rows: list[tuple]) -> None:
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE visits (patient_id TEXT, visit_id INTEGER, age INTEGER, sex TEXT, charge FLOAT, visited_on DATE,"
        " ward TEXT, smoker BOOLEAN)"
    )
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()


def test_one_unreadable_date_in_a_sql_source(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINIC_DB", f"sqlite:///{clinic.folder}/visits.db")
    clinic.write((FROM_DUCKDB, '"sql+env://CLINIC_DB", table: visits'))
    rows, exit_codes, counted = visits(clinic), [], []
    for held in (rows, [*rows[:1000], ("new", 1, 44, "F", 1.5, "2026-13-45", "A", True), *rows[1000:]]):
        sqlite_visits(clinic.folder / "visits.db", held)
        counted.append(counts(clinic))
        exit_codes.append(run("release", clinic.spec).exit_code)
        clinic.write(
            (FROM_DUCKDB, '"sql+env://CLINIC_DB", table: visits'), ('"2026-10"', '"2026-11"'), ("n: 1.0", "n: 0.5")
        )
    assert exit_codes == [0, 0]
    assert moved(*counted) == 1


def test_one_unclosed_quote_in_a_csv_file(clinic: Clinic, run: Run) -> None:
    clinic.write((FROM_DUCKDB, "visits.csv"))
    header = "patient_id,visit_id,age,sex,charge,visited_on,ward,smoker"
    lines = [",".join("" if value is None else str(value) for value in row) for row in visits(clinic)]
    exit_codes, counted = [], []
    for held in (lines, [*lines[:1000], 'new,1,44,F,1.5,2026-03-01,A,"true', *lines[1000:]]):
        (clinic.folder / "visits.csv").write_text("\n".join([header, *held]))
        counted.append(counts(clinic))
        exit_codes.append(run("release", clinic.spec).exit_code)
        clinic.write((FROM_DUCKDB, "visits.csv"), ('"2026-10"', '"2026-11"'), ("n: 1.0", "n: 0.5"))
    assert exit_codes == [0, 0]
    assert moved(*counted) == 1
