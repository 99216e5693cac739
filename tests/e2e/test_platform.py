"""Deploy, a scheduled run fires, is killed with SIGKILL, is tried again, and publishes exactly once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.e2e.conftest import Platform, wait_for
from tests.examples import SPEC
from understudy.pipelines.privacy.ledger.ledger import Ledger, State

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

PLATFORM_SPEC = (
    SPEC.replace('"duckdb:///clinic.duckdb"', '"postgresql+env://WAREHOUSE_URL"')
    .replace('snapshot: "2026-10"', 'snapshot: "{{ year }}"')
    .replace("{to: releases/}", '{to: "postgresql+env://WAREHOUSE_URL", table: visits_synthetic}')
    + "generate: {epochs: 2, particles: 400, device: cpu}\n"
    + "rolling: {period: year}\n"
    + 'schedule: {cron: "* * * * *", timezone: Europe/Berlin, tags: [clinic]}\n'
    + "compute: {engine: dask, scheduler: SCHEDULER}\n"
)
ROWS = """
INSERT INTO visits SELECT 'P' || (g % 900), g, 20 + (g * 7) % 70, (ARRAY['F','M','X'])[1 + g % 3], (g * 13) % 9000,
 date '2026-01-01' + (g % 300), (ARRAY['A','B','C','Z'])[1 + g % 4], g % 2 = 0 FROM generate_series(1, 3000) g
"""


def warehouse(platform: Platform, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(platform.warehouse.replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def flow_runs(platform: Platform) -> list[dict[str, Any]]:
    import urllib.request

    request = urllib.request.Request(
        f"{platform.environment['PREFECT_API_URL']}/flow_runs/filter",
        data=json.dumps({"sort": "EXPECTED_START_TIME_ASC"}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return [run for run in found if run["state_type"] != "SCHEDULED" or run["run_count"]]


def tasks_done_by_dask(platform: Platform) -> int:
    code = (
        "from distributed import Client\n"
        f"with Client({platform.scheduler!r}, timeout=20) as client:\n"
        "    print(client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter))\n"
    )
    return int(platform.run("python", "-c", code).split()[-1])


MAKE_BLOCK = """
from prefect.blocks.notifications import CustomWebhookNotificationBlock
text = {"subject": "{{subject}}", "body": "{{body}}"}
CustomWebhookNotificationBlock(name="operators", url="URL", json_data=text, allow_private_urls=True).save("operators")
"""


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """Where operators are told: a web server that keeps what is posted to it."""
    with Inbox(("127.0.0.1", 0), Post) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class Inbox(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.letters: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Post(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Inbox)
        self.server.letters.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


def test_operators_are_told_when_a_release_fails(platform: Platform, inbox: Inbox) -> None:
    spec = platform.folder / "clinic.yaml"
    spec.write_text(PLATFORM_SPEC.replace("SCHEDULER", platform.scheduler))
    platform.run("python", "-c", MAKE_BLOCK.replace("URL", inbox.url))
    deploy = ("understudy", "deploy", str(spec), "--paused", "--notify", "custom-webhook/operators")
    assert "automation made: understudy: tell custom-webhook/operators" in platform.run(*deploy)
    assert "automation there already" in platform.run(*deploy)

    platform.start("worker", "prefect", "worker", "start", "--pool", "understudy-cpu")
    platform.run("prefect", "deployment", "run", "scheduled-release/clinic-visits")  # there is no account to pay for it
    wait_for("the operators to be told", lambda: inbox.letters)
    assert "understudy.release.failed" in inbox.letters[0]
    assert "Account clinic" in inbox.letters[0]


def test_a_scheduled_run_is_killed_tried_again_and_publishes_once(platform: Platform) -> None:
    warehouse(platform, "CREATE TABLE visits (patient_id text, visit_id bigint, age integer, sex text, charge float8,"
                        " visited_on date, ward text, smoker boolean)")  # fmt: skip
    warehouse(platform, ROWS)
    spec = platform.folder / "clinic.yaml"
    spec.write_text(PLATFORM_SPEC.replace("SCHEDULER", platform.scheduler))
    opened = platform.run("understudy", "ledger", "open", "clinic", "--epsilon", "3", "--delta", "1e-6",
                          "--entity", "patient_id", "--max-rows", "4")  # fmt: skip
    assert "Account clinic" in opened

    told = platform.run("understudy", "deploy", str(spec))
    assert "deployed scheduled-release/clinic-visits: * * * * * Europe/Berlin" in told
    assert platform.run("understudy", "deploy", str(spec)) == told  # twice is once
    # The worker's runs kill themselves, with SIGKILL, right after the budget is spent.
    platform.start(
        "worker", "prefect", "worker", "start", "--pool", "understudy-cpu", UNDERSTUDY_FAULT="after_privatize"
    )

    crashed = wait_for(
        "the scheduled run to be killed", lambda: [run for run in flow_runs(platform) if run["state_type"] == "CRASHED"]
    )[0]
    again = wait_for(
        "the killed run to be tried again and to complete",
        lambda: [r for r in flow_runs(platform) if "again-1" in r["tags"] and r["state_type"] == "COMPLETED"],
    )[0]
    assert crashed["auto_scheduled"]
    assert again["parameters"]["at"][:16] == crashed["expected_start_time"][:16]  # the same period, whenever it runs
    assert again["name"] == f"clinic-visits {crashed['expected_start_time'][:4]}"
    assert "SIGKILL" in platform.log("worker")

    [charge] = Ledger(platform.environment["UNDERSTUDY_LEDGER"]).charges("clinic")
    assert charge.state is State.MEASURED
    [(manifest, current)] = warehouse(platform, "SELECT manifest, current FROM understudy_releases")
    stated = json.loads(manifest)
    assert current
    assert [event["mid"] for event in stated["guarantee"]["events"]] == [charge.mid]
    assert warehouse(platform, "SELECT count(*) FROM visits_synthetic") == [(stated["rows"],)]
    assert tasks_done_by_dask(platform) > 0  # the private rows were counted by the cluster

    wait_for(
        "another scheduled run of the same period, which finds everything done",
        lambda: [r for r in flow_runs(platform) if r["state_type"] == "COMPLETED" and r["auto_scheduled"]],
    )
    assert Ledger(platform.environment["UNDERSTUDY_LEDGER"]).charges("clinic") == [charge]
    assert warehouse(platform, "SELECT count(*) FROM understudy_releases") == [(1,)]
    check_no_secret_or_row(platform)


def check_no_secret_or_row(platform: Platform) -> None:
    """Logs, flow parameters and the orchestrator's own database hold neither an address with credentials nor a row."""
    secrets = [platform.environment["UNDERSTUDY_LEDGER"], platform.warehouse, "P899"]
    places = [path for path in Path(platform.environment["PREFECT_HOME"]).rglob("*") if path.is_file()]
    places += list(platform.folder.glob("*.log"))
    assert any(path.suffix == ".db" for path in places)
    for path in places:
        content = path.read_bytes()
        for secret in secrets:
            assert secret.encode() not in content, f"{path} holds {secret[:12]}..."
