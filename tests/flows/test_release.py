"""The release flow, end to end: what is published, what is charged, and that neither ever happens twice."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from tests.flows.conftest import Clinic
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.privacy.ledger.ledger import State

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")


def test_a_release_is_published_charged_and_explained(clinic: Clinic, run: Run) -> None:
    result = run("release", clinic.spec)
    assert result.exit_code == 0, result.output
    assert "spent      epsilon" in result.output
    [place] = clinic.releases
    manifest = json.loads((place / "manifest.json").read_text())
    table = pq.read_table(place / "data")
    assert manifest["rows"] == table.num_rows > 0
    assert table.column_names == ["visit_id", "age", "sex", "charge", "visited_on", "ward", "smoker"]
    assert 0.999 < manifest["guarantee"]["epsilon"] <= 1.0
    assert "patient_id" in manifest["guarantee"]["sentence"]
    [charge] = clinic.charges
    assert charge.state is State.MEASURED
    [event] = manifest["guarantee"]["events"]
    assert (event["mid"], event["measurement_sha256"]) == (charge.mid, charge.measurement_sha256)
    assert "duckdb" not in json.dumps(manifest["spec"])  # where the private table lives is not published
    card = (place / "card.html").read_text()
    assert "{{" not in card
    assert "://" not in card  # one file that needs nothing else


def test_the_same_release_again_spends_nothing(clinic: Clinic, run: Run) -> None:
    first = run("release", clinic.spec)
    (clinic.folder / "clinic.duckdb").unlink()  # not even the source is needed
    again = run("release", clinic.spec)
    assert (first.exit_code, again.exit_code) == (0, 0), again.output
    assert "spent      nothing" in again.output
    assert len(clinic.charges) == len(clinic.releases) == 1


def test_other_rows_from_the_same_measurement_are_free(clinic: Clinic, run: Run) -> None:
    run("release", clinic.spec)
    clinic.write(("{to: releases/}", "{to: releases/, rows: 321}"))
    result = run("release", clinic.spec)
    assert result.exit_code == 0, result.output
    assert len(clinic.charges) == 1
    assert sorted(json.loads((p / "manifest.json").read_text())["rows"] == 321 for p in clinic.releases) == [
        False,
        True,
    ]


def test_a_new_snapshot_is_charged_and_one_past_the_cap_is_refused(clinic: Clinic, run: Run) -> None:
    assert run("release", clinic.spec).exit_code == 0
    clinic.write(('"2026-10"', '"2026-11"'))
    assert run("release", clinic.spec).exit_code == 0
    assert len(clinic.charges) == 2
    spent = clinic.ledger.balance("clinic").spent.epsilon
    assert 1.0 < spent < 2.0  # composed, not added
    clinic.write(('"2026-10"', '"2026-12"'))
    refused = run("release", clinic.spec)
    assert refused.exit_code == 3, refused.output
    assert "cap" in refused.output
    assert len(clinic.charges) == len(clinic.releases) == 2


def test_failed_validation_publishes_nothing_and_resuming_is_free(
    clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.pipelines.methods.privpgd.method import PrivPGDMethod

    with monkeypatch.context() as broken:
        broken.setattr(PrivPGDMethod, "agreement", lambda *_: [Agreement("age", 1.0, 0.1)])
        failed = run("release", clinic.spec)
    assert failed.exit_code == 5, failed.output
    assert "--resume" in failed.output
    assert clinic.releases == []
    assert len(clinic.charges) == 1
    (clinic.folder / "clinic.duckdb").unlink()
    resumed = run("release", clinic.spec, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert len(clinic.charges) == len(clinic.releases) == 1


def test_resume_refuses_a_spec_that_was_edited(clinic: Clinic, run: Run) -> None:
    assert run("release", clinic.spec, "--resume").exit_code == 2  # nothing to resume yet
    assert run("release", clinic.spec).exit_code == 0
    clinic.write(("max: 110", "max: 120"))
    edited = run("release", clinic.spec, "--resume")
    assert edited.exit_code == 2
    assert "was edited" in edited.output
    assert len(clinic.charges) == 1


def test_counting_on_dask_buys_the_same_measurement(clinic: Clinic, run: Run) -> None:
    assert run("release", clinic.spec).exit_code == 0
    clinic.write(("publish:", "compute: {engine: dask}\npublish:"), ('"2026-10"', '"2026-11"'))
    result = run("release", clinic.spec)
    assert result.exit_code == 0, result.output
    assert len(clinic.releases) == 2


def test_publishing_into_duckdb(clinic: Clinic, run: Run) -> None:
    import duckdb

    clinic.write(("{to: releases/}", '{to: "duckdb:///out.duckdb", table: visits}'))
    result = run("release", clinic.spec)
    assert result.exit_code == 0, result.output
    with duckdb.connect(str(clinic.folder / "out.duckdb"), read_only=True) as connection:
        [rows] = connection.execute("SELECT count(*) FROM visits").fetchone() or [0]
    assert rows > 0
