"""What an operator sees and steers: events, approval, retention, recertification; and that none holds a secret."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result

from tests.flows.conftest import Clinic, clinic, run  # noqa: F401  fixtures
from tests.warehouse import Warehouse
from understudy.pipelines.errors import PublishError, SpecError, ValidationFailed
from understudy.pipelines.releasing.recertifying import recertify_release
from understudy.pipelines.spec.reading import load_spec

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
CANARY = "hunter2-canary"


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    import understudy.tasks.telling.events as module

    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "emit_event", lambda **event: seen.append(event))
    return seen


def test_charges_and_publications_are_told(clinic: Clinic, run: Run, events: list[dict[str, Any]]) -> None:  # noqa: F811
    clinic.write(("publish:", "rolling: {period: month, warn_below: 5}\npublish:"))
    assert run("release", clinic.spec).exit_code == 0
    assert [event["event"] for event in events] == [
        "understudy.charge.charged",
        "understudy.charge.measured",
        "understudy.budget.low",
        "understudy.publish.done",
    ]
    assert {event["resource"]["prefect.resource.id"] for event in events} == {"understudy.account.clinic"}
    assert events[2]["payload"]["remaining"] == 1
    events.clear()
    assert run("release", clinic.spec).exit_code == 0
    assert events == []  # nothing happened


def test_telling_never_fails_a_release(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    import understudy.tasks.telling.events as module

    def broken(**event: object) -> None:
        raise ConnectionError("no events today")

    monkeypatch.setattr(module, "emit_event", broken)
    assert run("release", clinic.spec).exit_code == 0


def test_approval_is_waited_for(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The run pauses with its rows; a person resumes it, and only then is anything published."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter

    import understudy.tasks.approval as approval
    from understudy.flows.release import release

    clinic.write(("{to: releases/}", "{to: releases/, approval: required}"))
    refused = run("release", clinic.spec)
    assert refused.exit_code == 2
    assert "--approve" in refused.output
    monkeypatch.setattr(approval, "POLL_SECONDS", 0.2)
    spec = load_spec(clinic.spec)
    published: list[Any] = []
    worker = threading.Thread(target=lambda: published.append(release(spec, clinic.folder)))
    worker.start()
    paused = FlowRunFilter(state={"type": {"any_": ["PAUSED"]}}, name={"any_": ["clinic-visits 2026-10"]})  # type: ignore[arg-type]
    with get_client(sync_client=True) as client:
        found: list[Any] = []
        while worker.is_alive() and not found:
            found = client.read_flow_runs(flow_run_filter=paused)
        assert (clinic.releases, len(clinic.charges)) == ([], 1)
        client.resume_flow_run(found[0].id)
    worker.join()
    assert len(clinic.releases) == len(published) == 1


def test_nobody_approves(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    import understudy.tasks.approval as approval
    from understudy.flows.release import release

    clinic.write(("{to: releases/}", "{to: releases/, approval: required}"))
    monkeypatch.setattr(approval, "WAIT_SECONDS", 1)
    monkeypatch.setattr(approval, "POLL_SECONDS", 0.2)
    with pytest.raises(PublishError, match="nobody approved"):
        release(load_spec(clinic.spec), clinic.folder)
    assert clinic.releases == []
    monkeypatch.setattr("understudy.cli.releasing.at_a_terminal", lambda: True)
    again = run("release", clinic.spec, "--approve")
    assert again.exit_code == 0, again.output
    assert len(clinic.charges) == len(clinic.releases) == 1


def test_old_releases_are_retired_and_stay_certified(clinic: Clinic, run: Run) -> None:  # noqa: F811
    assert run("ledger", "cap", "clinic", "--epsilon", 9, "--delta", "1e-6", "--reason", "test").exit_code == 0
    for month in ("07", "08", "09"):
        clinic.write(("{to: releases/}", "{to: releases/, keep: 2}"), ('"2026-10"', f'"2026-{month}"'))
        assert run("release", clinic.spec).exit_code == 0
    july, august, _ = clinic.releases
    assert not (july / "data").exists()
    assert (august / "data").exists()
    clinic.write(("{to: releases/}", "{to: releases/, keep: 2}"), ('"2026-10"', '"2026-07"'))
    again = run("release", clinic.spec)
    assert (again.exit_code, (july / "data").exists()) == (0, False)  # repeating it does not bring it back
    assert "retired" in again.output
    checked = run("recertify", *clinic.releases)
    assert checked.exit_code == 0, checked.output
    assert "every hash right" in checked.output


@pytest.mark.parametrize("damage", ["file", "epsilon", "event", "charge", "measurement"])
def test_recertify_finds_what_was_changed(clinic: Clinic, run: Run, damage: str) -> None:  # noqa: F811
    from understudy.flows.recertify import recertify

    assert run("release", clinic.spec).exit_code == 0
    [place] = clinic.releases
    assert all(result.holds for result in recertify([str(place)]))
    path = place / "manifest.json"
    manifest = json.loads(path.read_text())
    match damage:
        case "file":
            (place / "card.html").write_text("other")
        case "epsilon":
            manifest["guarantee"]["epsilon"] = 0.5
        case "event":
            manifest["guarantee"]["events"][0]["event"]["noise_multiplier"] *= 2
        case "charge":
            manifest["guarantee"]["events"][0]["mid"] = "0" * 64
        case "measurement":
            [stored] = (clinic.home / "measurements").glob("*/arrays.parquet")
            stored.write_bytes(stored.read_bytes()[:-1])
    path.write_text(json.dumps(manifest))
    result = run("recertify", place)
    assert result.exit_code == 5, result.output
    assert "NO" in result.output
    with pytest.raises(ValidationFailed):
        recertify([str(place)])


@pytest.mark.parametrize("database", ["duckdb", "postgresql"])
def test_a_published_table_is_recertified(
    clinic: Clinic, run: Run, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, database: str,  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.setenv("WAREHOUSE_URL", warehouse.uri)
    to = "postgresql+env://WAREHOUSE_URL" if database == "postgresql" else f"duckdb:///{clinic.folder}/out.duckdb"
    table = f"{warehouse.schema}.copies" if database == "postgresql" else "copies"
    clinic.write(("{to: releases/}", f'{{to: "{to}", table: {table}}}'))
    assert run("release", clinic.spec).exit_code == 0
    checked = run("recertify", f"{to}#{table}")
    assert checked.exit_code == 0, checked.output
    assert "bytes of rows" in checked.output
    if database == "postgresql":
        warehouse.execute("DELETE FROM copies WHERE ctid = (SELECT min(ctid) FROM copies)")
    else:
        with duckdb.connect(clinic.folder / "out.duckdb") as connection:
            connection.execute("DELETE FROM copies WHERE rowid = 0")
    assert run("recertify", f"{to}#{table}").exit_code == 5
    assert "is no release" in run("recertify", f"{to}#other").output


def test_recertify_without_a_release(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no release"):
        recertify_release(str(tmp_path), None)


def test_disjoint_months_through_the_flow(clinic: Clinic, run: Run) -> None:  # noqa: F811
    for month in ("08", "09", "10"):
        clinic.write(("publish:", "rolling: {entities: disjoint}\npublish:"), ('"2026-10"', f'"2026-{month}"'))
        result = run("release", clinic.spec)
        assert result.exit_code == 0, result.output
    assert len(clinic.charges) == 1
    manifest = json.loads((clinic.releases[-1] / "manifest.json").read_text())
    assert any("declared by the data's owner" in step for step in manifest["steps"])
    plan = run("plan", clinic.spec)
    assert "covers every further month" in plan.output
    (period,) = {account.name for account in clinic.ledger.accounts() if account.name.endswith("@2026-10")}
    refused = run("ledger", "cap", period, "--epsilon", "9", "--delta", "1e-6", "--reason", "more")
    assert refused.exit_code != 0
    assert "--pay-again" in refused.output


def test_no_secret_anywhere(
    clinic: Clinic, run: Run, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch,  # noqa: F811
    caplog: pytest.LogCaptureFixture, tmp_path: Path,
) -> None:  # fmt: skip
    """From PostgreSQL to PostgreSQL by a Secret block and a variable: what they hold is in no log, artifact or file."""
    from prefect import get_client
    from prefect.blocks.system import Secret

    warehouse.execute(
        "CREATE TABLE visits (patient_id text, visit_id bigint, age integer, sex text, charge float8, visited_on date,"
        " ward text, smoker boolean)",
        "INSERT INTO visits SELECT 'canary-patient-' || g, g, 30 + g % 40, 'F', g, '2026-03-01', 'A', true"
        " FROM generate_series(1, 300) g",
    )
    # A password that the server, which trusts its socket, does not ask for, but that every message could repeat.
    address = warehouse.url.replace("postgres:@", f"postgres:{CANARY}@")
    assert CANARY in address
    Secret(value=address).save("warehouse", overwrite=True)
    monkeypatch.setenv("PUBLIC_URL", address)
    clinic.write(
        ('"duckdb:///clinic.duckdb", table: visits', '"postgresql+block://warehouse", table: visits'),
        ("{to: releases/}", '{to: "postgresql+env://PUBLIC_URL", table: synthetic}'),
    )
    with caplog.at_level(logging.DEBUG):
        result = run("release", clinic.spec)
    assert result.exit_code == 0, result.output
    failing = clinic.folder / "failing.yaml"
    failing.write_text(
        clinic.spec.read_text().replace("table: visits,", "table: nothing,").replace("2026-10", "2026-11")
    )
    with caplog.at_level(logging.DEBUG):
        failed = run("release", failing)
    assert failed.exit_code == 2, failed.output
    texts = [result.output, failed.output, caplog.text]
    with get_client(sync_client=True) as client:
        texts += [artifact.model_dump_json() for artifact in client.read_artifacts()]
        texts += [flow_run.model_dump_json() for flow_run in client.read_flow_runs(limit=50)]
        texts += [log.model_dump_json() for log in client.read_logs(limit=200)]
    [(manifest, card)] = warehouse.rows("SELECT manifest, card FROM understudy_releases")
    texts += [manifest, card]
    texts += [
        p.read_bytes().decode(errors="replace")
        for p in clinic.home.rglob("*")
        if p.is_file() and "prefect" not in p.parts
    ]
    for text in texts:
        assert CANARY not in text
        assert "canary-patient" not in text
