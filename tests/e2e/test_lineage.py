"""One release from Iceberg, counted on Dask, to PostgreSQL, with lineage events that OpenLineage takes."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.e2e.conftest import Platform
from tests.e2e.test_platform import tasks_done_by_dask, warehouse
from tests.examples import SPEC
from tests.lakehouse import TABLE, catalogue_in, write_iceberg
from tests.publishing.openlineage import check_event

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LAKE_SPEC = (
    SPEC.replace('"duckdb:///clinic.duckdb"', '"iceberg://lake"')
    .replace("table: visits,", f"table: {TABLE},")
    .replace("{to: releases/}", '{to: "postgresql+env://WAREHOUSE_URL", table: visits_synthetic}')
    + "generate: {epochs: 2, particles: 400, device: cpu}\n"
    + "compute: {engine: dask, scheduler: SCHEDULER}\n"
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the platform starts, so that its workers have the catalogue in their environment."""
    catalogue_in(tmp_path, monkeypatch)
    monkeypatch.setenv("UNDERSTUDY_LINEAGE", str(tmp_path / "lineage.jsonl"))
    rows = range(1, 3001)
    write_iceberg(
        pa.table(
            {
                "patient_id": [f"P{row % 900}" for row in rows],
                "visit_id": pa.array(rows, pa.int64()),
                "age": pa.array([20 + row * 7 % 70 for row in rows], pa.int32()),
                "sex": ["FMX"[row % 3] for row in rows],
                "charge": [float(row * 13 % 9000) for row in rows],
                "visited_on": [dt.date(2026, 1, 1) + dt.timedelta(days=row % 300) for row in rows],
                "ward": ["ABCZ"[row % 4] for row in rows],
                "smoker": [row % 2 == 0 for row in rows],
            }
        )
    )


def test_iceberg_over_dask_to_postgresql_with_lineage(lake: None, platform: Platform) -> None:
    spec = platform.folder / "clinic.yaml"
    spec.write_text(LAKE_SPEC.replace("SCHEDULER", platform.scheduler))
    platform.run("understudy", "ledger", "open", "clinic", "--epsilon", "3", "--delta", "1e-6",
                 "--entity", "patient_id", "--max-rows", "4")  # fmt: skip
    platform.run("understudy", "release", str(spec))
    [(manifest,)] = warehouse(platform, "SELECT manifest FROM understudy_releases WHERE current")
    stated = json.loads(manifest)
    assert warehouse(platform, "SELECT count(*) FROM visits_synthetic") == [(stated["rows"],)]
    assert tasks_done_by_dask(platform) > 0

    text = (platform.folder / "lineage.jsonl").read_text()
    start, complete = (json.loads(line) for line in text.splitlines())
    assert [check_event(event).eventType.value for event in (start, complete)] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == complete["run"]["runId"]
    [read], [published] = complete["inputs"], complete["outputs"]
    assert (read["namespace"], read["name"]) == ("iceberg://lake", TABLE)
    assert (published["namespace"], published["name"]) == ("postgresql+env://WAREHOUSE_URL", "visits_synthetic")
    assert published["facets"]["understudy_guarantee"]["epsilon"] == stated["guarantee"]["epsilon"]
    assert [field["name"] for field in published["facets"]["schema"]["fields"]] == stated["columns"]
    for secret in (platform.warehouse, platform.environment["UNDERSTUDY_LEDGER"], "P899"):
        assert secret not in text
