"""A release lets go of its source once it is measured, or once measuring failed: nobody has to wait for its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from tests.flows.conftest import Clinic
from tests.warehouse import Warehouse
from understudy.pipelines.sources.databases import postgresql_binary
from understudy.pipelines.sources.databases.postgresql_fields import batches_of
from understudy.tasks.generate import progress_of

Run = Callable[..., Result]

COLUMNS = (
    "g::text AS patient_id, g AS visit_id, g % 100 AS age, 'F' AS sex, {charge} AS charge,"
    " DATE '2026-03-01' AS visited_on, 'A' AS ward, g % 2 = 0 AS smoker FROM generate_series(1, 300) g"
)

pytestmark = pytest.mark.prefect


def release_of(warehouse: Warehouse, clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setenv("WAREHOUSE_URL", warehouse.uri)
    table = f'"postgresql+env://WAREHOUSE_URL", table: {warehouse.schema}.visits'
    return run("release", clinic.write(('"duckdb:///clinic.duckdb", table: visits', table)))


def test_a_table_can_be_dropped_as_soon_as_it_is_measured(
    clinic: Clinic, run: Run, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generating can take hours, and a person's approval days."""
    warehouse.execute(f"CREATE TABLE visits AS SELECT {COLUMNS.format(charge='10.0::float8')}")

    def dropped_first(*words: Any) -> Any:
        warehouse.execute("SET lock_timeout = '1s'", "DROP TABLE visits")
        return progress_of(*words)

    monkeypatch.setattr("understudy.tasks.generate.progress_of", dropped_first)
    released = release_of(warehouse, clinic, run, monkeypatch)
    assert released.exit_code == 0, released.output
    assert warehouse.rows("SELECT to_regclass('visits')") == [(None,)]


def test_a_table_can_be_dropped_when_measuring_it_failed(
    clinic: Clinic, run: Run, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.execute(
        f"CREATE TABLE base AS SELECT {COLUMNS.format(charge='0.0::float8')}",
        "CREATE VIEW visits AS SELECT patient_id, visit_id, age, sex, 1 / charge AS charge, visited_on, ward, smoker"
        " FROM base",
    )
    released = release_of(warehouse, clinic, run, monkeypatch)
    assert released.exit_code != 0
    assert "SQLSTATE 22012); PostgreSQL's own message is withheld" in released.output
    warehouse.execute("SET lock_timeout = '1s'", "DROP TABLE base CASCADE")
    assert clinic.charges == []


def test_a_connection_that_is_lost_while_rows_come_costs_nothing(
    clinic: Clinic, run: Run, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = COLUMNS.format(charge="10.0::float8").replace("300", "100000")
    warehouse.execute(f"CREATE TABLE visits AS SELECT {columns}", "UPDATE visits SET patient_id = 'hunter2'")

    def losing(*words: Any) -> Any:
        warehouse.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%'")
        return batches_of(*words)

    with monkeypatch.context() as patch:
        patch.setattr(postgresql_binary, "BLOCK_BYTES", 10_000)
        patch.setattr(postgresql_binary, "batches_of", losing)
        released = release_of(warehouse, clinic, run, monkeypatch)
    assert released.exit_code != 0
    assert "PostgreSQL's own message is withheld" in released.output
    assert "hunter2" not in released.output
    assert clinic.charges == []
    assert clinic.releases == []
