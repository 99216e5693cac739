"""`understudy deploy` against a Prefect server: schedule, parameters, queue, limits; and what it refuses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples import SPEC
from understudy.cli.deploying import Options, deploy, read
from understudy.pipelines.errors import SpecError

SCHEDULED = SPEC.replace('"2026-10"', '"{{ month }}"') + (
    'schedule: {cron: "0 6 1 * *", timezone: Europe/Berlin, tags: [health]}\n'
)


@pytest.fixture
def client(prefect_server: None) -> Iterator[Any]:
    from prefect import get_client

    with get_client(sync_client=True) as found:
        yield found


def written(folder: Path, text: str = SCHEDULED, name: str = "clinic.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_spec_becomes_a_deployment(tmp_path: Path, client: Any) -> None:
    deployable = read(written(tmp_path))
    told = deploy([deployable], Options())
    assert told == deploy([deployable], Options())  # twice is once
    found = client.read_deployment_by_name("scheduled-release/clinic-visits")
    assert found.entrypoint == "understudy.flows.scheduled.scheduled_release"
    [schedule] = found.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone) == ("0 6 1 * *", "Europe/Berlin")
    assert found.parameters["template"]["source"]["snapshot"] == "{{ month }}"
    assert found.parameters["base"] == str(tmp_path)
    assert {"understudy", "account-clinic", "health"} <= set(found.tags)
    assert (found.work_pool_name, found.work_queue_name) == ("understudy-cpu", "account-clinic")
    assert client.read_work_queue_by_name("account-clinic", work_pool_name="understudy-cpu").concurrency_limit == 1
    assert client.read_concurrency_limit_by_tag("gpu").concurrency_limit == 1
    assert client.read_work_pool("understudy-cpu").type == "process"


def test_two_deployments_of_one_account_share_its_queue(tmp_path: Path, client: Any) -> None:
    second = SCHEDULED.replace("name: clinic-visits", "name: clinic-wards")
    deploy([read(written(tmp_path)), read(written(tmp_path, second, "wards.yaml"))], Options(pool="shared"))
    queues = {client.read_deployment_by_name(f"scheduled-release/{name}").work_queue_name
              for name in ("clinic-visits", "clinic-wards")}  # fmt: skip
    assert queues == {"account-clinic"}


def test_containers_get_their_image_and_template(tmp_path: Path, client: Any) -> None:
    deploy(
        [read(written(tmp_path))],
        Options(pool="understudy-kubernetes", pool_type="kubernetes", image="r/u:1", base="/srv"),
    )
    pool = client.read_work_pool("understudy-kubernetes")
    assert pool.type == "kubernetes"
    assert "home_claim" in pool.base_job_template["variables"]["properties"]
    found = client.read_deployment_by_name("scheduled-release/clinic-visits")
    assert found.job_variables == {"image": "r/u:1"}
    assert found.parameters["base"] == "/srv"


def test_a_schedule_without_a_period_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="only the first"):
        read(written(tmp_path, SCHEDULED.replace("{{ month }}", "2026-10")))


@pytest.mark.parametrize(
    ("old", "new"),
    [("0 6 1 * *", "every day"), ("Europe/Berlin", "Middle/Earth"), ("{{ month }}", "{{ moon }}"),
     ("marginals: all-2way", "marginals: all-9way"), ("tags: [health]", "pool: '../x'")],
)  # fmt: skip
def test_mistakes_are_found_when_deploying_not_at_night(tmp_path: Path, old: str, new: str) -> None:
    assert old in SCHEDULED
    with pytest.raises(SpecError):
        read(written(tmp_path, SCHEDULED.replace(old, new)))


def test_the_period_is_that_of_the_scheduled_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from understudy.flows import scheduled

    class Run:
        scheduled_start_time = dt.datetime(2026, 10, 31, 23, 30, tzinfo=dt.UTC)

    monkeypatch.setattr(scheduled, "flow_run", Run)
    template = read(written(tmp_path)).template
    assert scheduled.spec_at(template, None).source.snapshot == "2026-11"  # in Berlin it is November already
    assert scheduled.spec_at(template, "2026-03-05").source.snapshot == "2026-03"
    with pytest.raises(SpecError, match="at most"):
        scheduled.spec_at({**template, "name": "x" * 10_000_000}, None)
