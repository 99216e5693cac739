"""Lineage of real runs: events that OpenLineage takes, an asset in Prefect, and a release that no dead server stops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests.flows.conftest import Clinic, clinic, run  # noqa: F401  fixtures
from tests.publishing.openlineage import check_event

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    path = tmp_path / "lineage.jsonl"
    monkeypatch.setenv("UNDERSTUDY_LINEAGE", str(path))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_release_tells_where_it_came_from_and_what_it_promises(
    clinic: Clinic,  # noqa: F811
    run: Run,  # noqa: F811
    told: Callable[[], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import understudy.tasks.telling.lineage as module

    assets: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "add_asset_metadata", lambda asset, facts: assets.append({"key": asset.key, **facts}))
    assert run("release", clinic.spec).exit_code == 0
    start, complete = told()
    for event in (start, complete):
        check_event(event)
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    [folder] = clinic.releases
    manifest = json.loads((folder / "manifest.json").read_text())
    [output] = complete["outputs"]
    assert [field["name"] for field in output["facets"]["schema"]["fields"]] == manifest["columns"]
    assert output["facets"]["understudy_guarantee"]["epsilon"] == manifest["guarantee"]["epsilon"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == manifest["rows"]
    [asset] = assets
    assert asset["release_id"] == manifest["release_id"]
    assert asset["key"].startswith("file://")
    listed = {file["path"] for file in manifest["files"]}
    assert {"contract/odcs.yaml", "contract/sources.yml"} <= listed
    contract = yaml.safe_load((folder / "contract" / "odcs.yaml").read_text())
    assert contract["version"] == manifest["release_id"]


def test_a_failure_tells_its_kind_and_no_value(
    clinic: Clinic,  # noqa: F811
    run: Run,  # noqa: F811
    told: Callable[[], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import understudy.tasks.generate as generate

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("hunter2-canary")

    monkeypatch.setattr(generate, "fault_point", broken)
    assert run("release", clinic.spec).exit_code != 0
    start, failed = told()
    check_event(failed)
    assert (start["eventType"], failed["eventType"]) == ("START", "FAIL")
    assert start["run"]["runId"] == failed["run"]["runId"]
    assert failed["run"]["facets"]["errorMessage"]["message"].isidentifier()
    assert "hunter2" not in json.dumps(failed)


def test_a_dead_server_warns_and_the_release_is_published(
    clinic: Clinic,  # noqa: F811
    run: Run,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import understudy.tasks.telling.lineage as module

    warned: list[str] = []
    monkeypatch.setattr(module, "_warn", warned.append)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.delenv("UNDERSTUDY_LINEAGE", raising=False)
    monkeypatch.setattr(module, "_show_asset", lambda *_: 1 / 0)
    assert run("release", clinic.spec).exit_code == 0
    assert len(clinic.releases) == 1
    assert [text.split(" (")[0] for text in warned] == [
        "a lineage event was not delivered",
        "a lineage event was not delivered",
        "the asset of clinic-visits was not told",
    ]
