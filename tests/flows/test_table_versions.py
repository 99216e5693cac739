"""`snapshot: table` by command line and flow: an unchanged table is free, a changed one is charged, a resumed run reads
the version it named, and one that is gone costs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest
from click.testing import Result
from deltalake import DeltaTable, write_deltalake
from prefect.client.schemas.objects import FlowRun

from tests.flows.conftest import Clinic
from tests.lakehouse import TABLE, catalogue_in, write_iceberg
from understudy.api import Synthesizer
from understudy.cli.deploying import read
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.fault_points import VARIABLE
from understudy.pipelines.releasing.versions import at_version
from understudy.pipelines.spec.reading import load_spec
from understudy.tasks.telling.hooks import _going_on

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
DUCKDB = 'uri: "duckdb:///clinic.duckdb", table: visits, snapshot: "2026-10"'
DELTA = (DUCKDB, 'uri: "delta:///visits", snapshot: table')
ICEBERG = (DUCKDB, f'uri: "iceberg://lake", table: {TABLE}, snapshot: table')


@pytest.fixture
def visits(clinic: Clinic, run: Run) -> pa.Table:
    """The clinic's rows; its account may pay for three releases."""
    run("ledger", "cap", "clinic", "--epsilon", "4", "--delta", "1e-6", "--reason", "several versions")
    with duckdb.connect(clinic.folder / "clinic.duckdb", read_only=True) as connection:
        return connection.sql("SELECT * FROM visits").to_arrow_table()


def snapshots(clinic: Clinic) -> list[str]:
    return [charge.snapshot for charge in clinic.charges]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_an_unchanged_table_is_free_and_a_changed_one_is_charged(
    kind: str, clinic: Clinic, run: Run, visits: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue_in(clinic.folder, monkeypatch)

    def write(rows: pa.Table) -> Any:
        return write_iceberg(rows) if kind == "iceberg" else write_deltalake(delta(clinic), rows, mode="overwrite")

    write(visits)
    clinic.write(ICEBERG if kind == "iceberg" else DELTA)
    assert "cap pays for" in run("plan", clinic.spec).output
    first = run("release", clinic.spec)
    assert first.exit_code == 0, first.output
    [named] = snapshots(clinic)
    assert named.startswith("table@")
    manifest = json.loads((clinic.releases[0] / "manifest.json").read_text())
    assert manifest["snapshot"] == named == manifest["spec"]["source"]["snapshot"]

    again = run("release", clinic.spec)
    assert "spent      nothing" in again.output
    planned = run("plan", clinic.spec)
    assert f"snapshot {named}" in planned.output
    assert "paid for already" in planned.output
    assert json.loads(run("plan", clinic.spec, "--json").output)["snapshot"] == named

    write(visits.slice(0, 1500))
    assert "paid for already" not in run("plan", clinic.spec).output
    changed = run("release", clinic.spec)
    assert changed.exit_code == 0, changed.output
    assert "spent      epsilon" in changed.output
    assert len(set(snapshots(clinic))) == 2
    assert len(clinic.releases) == 2


def delta(clinic: Clinic) -> Path:
    return clinic.folder / "visits"


@pytest.fixture
def fails_at(clinic: Clinic, run: Run, visits: pa.Table, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A release of a Delta table fails at a point, then most of the rows go; what it was charged for."""

    def fail(point: str) -> str:
        write_deltalake(delta(clinic), visits)
        clinic.write(DELTA)
        with monkeypatch.context() as patch:
            patch.setenv(VARIABLE, f"{point}:raise")
            assert run("release", clinic.spec).exit_code != 0
        [named] = snapshots(clinic)
        write_deltalake(delta(clinic), visits.slice(0, 200), mode="overwrite")
        return named

    return fail


def rows_published(clinic: Clinic) -> list[int]:
    return sorted(json.loads((path / "manifest.json").read_text())["rows"] for path in clinic.releases)


def test_a_resumed_run_reads_the_version_it_named(clinic: Clinic, run: Run, fails_at: Callable[[str], str]) -> None:
    named = fails_at("after_draw")
    assert run("release", clinic.spec, "--resume").exit_code == 4  # burnt
    paid = run("release", clinic.spec, "--resume", "--pay-again")
    assert paid.exit_code == 0, paid.output
    assert snapshots(clinic) == [named] * 2
    assert rows_published(clinic)[0] > 1500  # of 2000, and 200 are left


@pytest.mark.slow
def test_what_was_measured_before_the_table_changed_is_published_for_free(
    clinic: Clinic, run: Run, fails_at: Callable[[str], str]
) -> None:
    named = fails_at("after_privatize")
    resumed = run("release", clinic.spec, "--resume")
    assert "spent      nothing" in resumed.output
    assert snapshots(clinic) == [named]
    fresh = run("release", clinic.spec)
    assert "spent      epsilon" in fresh.output
    assert len(set(snapshots(clinic))) == 2
    assert rows_published(clinic)[0] < 500


def test_a_version_that_is_gone_is_told_before_anything_is_charged(
    clinic: Clinic, run: Run, fails_at: Callable[[str], str]
) -> None:
    named = fails_at("after_draw")
    DeltaTable(delta(clinic)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    run("release", clinic.spec, "--resume")  # burnt now
    refused = run("release", clinic.spec, "--resume", "--pay-again")
    assert refused.exit_code == 1, refused.output
    assert "is gone" in refused.output
    assert snapshots(clinic) == [named]
    assert clinic.releases == []


def test_a_run_goes_on_with_the_version_that_a_crashed_one_was_charged_for(
    clinic: Clinic, fails_at: Callable[[str], str]
) -> None:
    named = fails_at("after_privatize")
    [charge] = clinic.charges
    assert charge.flow_run
    spec = load_spec(clinic.spec)
    assert at_version(spec, clinic.folder, clinic.ledger, runs={charge.flow_run}).source.snapshot == named
    assert at_version(spec, clinic.folder, clinic.ledger, runs={str(uuid4())}).source.snapshot != named
    run = FlowRun(flow_id=uuid4(), parameters={"template": {"source": {"snapshot": "table"}}, "goes_on_for": ["a"]})
    assert _going_on(run) == {"goes_on_for": ["a", str(run.id)]}
    other = FlowRun(flow_id=uuid4(), parameters={"template": {"source": {"snapshot": "{{ month }}"}}})
    assert _going_on(other) == {}


def test_what_has_no_versions_is_refused_with_what_to_do(clinic: Clinic, run: Run) -> None:
    clinic.write(('snapshot: "2026-10"', "snapshot: table"))
    for words in (("plan",), ("plan", "--json"), ("release",), ("spec", "check")):
        refused = run(*words, clinic.spec)
        assert refused.exit_code == 2, refused.output
        assert "tables that have versions" in refused.output
        assert "{{ month }}" in refused.output
    with pytest.raises(SpecError, match="tables that have versions"):
        read(clinic.spec)
    with pytest.raises(SpecError, match="passed from Python"):
        Synthesizer(clinic.spec, home=clinic.home).fit(pa.table({"age": [1]}))
    assert clinic.charges == []


@pytest.mark.slow
def test_a_snapshot_that_was_called_table_before_that_had_a_meaning_stays_free(
    clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.write(('snapshot: "2026-10"', "snapshot: table"))
    with monkeypatch.context() as patch:  # as 7b5a274 does it
        patch.setattr("understudy.cli.releasing.at_version", lambda spec, *_, **__: spec)
        patch.setattr("understudy.flows.release.means_the_table", lambda spec: False)
        assert run("release", clinic.spec).exit_code == 0
    again = run("release", clinic.spec)
    assert again.exit_code == 0, again.output
    assert "spent      nothing" in again.output
    assert snapshots(clinic) == ["table"]


def test_it_can_be_scheduled_but_not_be_a_period(clinic: Clinic, visits: pa.Table) -> None:
    write_deltalake(delta(clinic), visits)
    clinic.write(DELTA, ("publish:", 'schedule: {cron: "0 6 * * *"}\npublish:'))
    assert read(clinic.spec).template["source"]["snapshot"] == "table"
    clinic.write(DELTA, ("publish:", "rolling: {period: month}\npublish:"))
    with pytest.raises(SpecError, match="month"):
        read(clinic.spec)


def test_a_plan_needs_no_table(clinic: Clinic, run: Run) -> None:
    clinic.write(DELTA)
    planned = run("plan", clinic.spec)
    assert planned.exit_code == 0, planned.output
    assert "version is not known here" in planned.output
    refused = run("release", clinic.spec)
    assert refused.exit_code == 1
    assert "there is no Delta table" in refused.output
