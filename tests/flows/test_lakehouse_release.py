"""From one lakehouse to another by the real command: charged once, one commit, killed before it, finished for free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import Result
from deltalake import DeltaTable, write_deltalake

from tests.flows.conftest import Clinic
from tests.lakehouse import TABLE, catalogue, catalogue_in, write_iceberg
from understudy.pipelines.privacy.ledger.fault_points import VARIABLE

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
DUCKDB = 'uri: "duckdb:///clinic.duckdb", table: visits, snapshot: "2026-10"'
COPIES = "public.visits"


@pytest.mark.parametrize("direction", ["iceberg to delta", pytest.param("delta to iceberg", marks=pytest.mark.slow)])
def test_a_release_from_one_lakehouse_to_another(
    direction: str, clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue_in(clinic.folder, monkeypatch)
    run("ledger", "cap", "clinic", "--epsilon", "4", "--delta", "1e-6", "--reason", "two versions")
    with duckdb.connect(clinic.folder / "clinic.duckdb", read_only=True) as connection:
        visits = connection.sql("SELECT * FROM visits").to_arrow_table()
    copies = clinic.folder / "copies"
    to_delta = direction.endswith("delta")

    def write(rows: pa.Table) -> Any:
        return write_iceberg(rows) if to_delta else write_deltalake(clinic.folder / "visits", rows, mode="overwrite")

    def commits() -> list[Any]:
        if to_delta:
            known = DeltaTable(copies).history() if DeltaTable.is_deltatable(str(copies)) else []
            return [commit["understudy.snapshot"] for commit in reversed(known)]
        lake = catalogue()
        known = lake.load_table(COPIES).snapshots() if lake.table_exists(COPIES) else []
        return [snapshot.summary["understudy.snapshot"] for snapshot in known]

    source = f'uri: "iceberg://lake", table: {TABLE}' if to_delta else 'uri: "delta:///visits"'
    target = 'to: "delta:///copies"' if to_delta else f'to: "iceberg://lake", table: {COPIES}'
    clinic.write((DUCKDB, f"{source}, snapshot: table"), ("to: releases/", target))
    write(visits)
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, "publish_before_pointer:raise")
        assert run("release", clinic.spec).exit_code != 0
    [charge] = clinic.charges
    assert commits() == []

    finished = run("release", clinic.spec)
    assert finished.exit_code == 0, finished.output
    assert "spent      nothing" in finished.output
    assert commits() == [charge.snapshot]
    assert run("release", clinic.spec).exit_code == 0
    assert commits() == [charge.snapshot]
    where = f"delta:///{copies}" if to_delta else f"iceberg://lake#{COPIES}"
    assert where in finished.output
    verified = run("verify", where)
    assert verified.exit_code == 0, verified.output

    write(visits.slice(0, 800))
    changed = run("release", clinic.spec)
    assert changed.exit_code == 0, changed.output
    assert [made.snapshot for made in clinic.charges] == commits()
    assert len(commits()) == 2
    frame = DeltaTable(copies).to_pandas() if to_delta else catalogue().load_table(COPIES).scan().to_pandas()
    assert 500 < len(frame) < 1000
    assert set(frame["ward"].dropna()) <= {"A", "B", "C", "other"}
