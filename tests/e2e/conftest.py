"""A small platform on loopback: Prefect server, process worker, Dask scheduler and worker, PostgreSQL. All real.

Every process runs in a session of its own and is ended by its own id.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import new_database

BIN = Path(sys.executable).parent
PATIENCE = 400.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, look: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Poll until `look` returns something true; a platform has no other way to say that it is ready."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with suppress(OSError):
            if found := look():
                return found
        time.sleep(0.25)
    raise AssertionError(f"waited {patience:g} s in vain for {what}")


@dataclass
class Platform:
    folder: Path
    environment: dict[str, str]
    scheduler: str
    warehouse: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("wb")
        process = subprocess.Popen(
            command, env=self.environment | environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        self.processes.append(process)
        return process

    def run(self, *command: str, **environment: str) -> str:
        done = subprocess.run(
            command, env=self.environment | environment, cwd=self.folder, capture_output=True, text=True, timeout=180
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self) -> None:
        for process in reversed(self.processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def is_up(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    server, dask = free_port(), free_port()
    environment = os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{server}/api",
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "PREFECT_API_SERVICES_SCHEDULER_LOOP_SECONDS": "2",
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2",
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_WORKER_PREFETCH_SECONDS": "1",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        "UNDERSTUDY_HOME": str(tmp_path / "home"),
        "UNDERSTUDY_LEDGER": new_database(),
    }
    environment.pop("UNDERSTUDY_FAULT", None)
    made = Platform(tmp_path, environment, f"tcp://127.0.0.1:{dask}", new_database())
    made.environment["WAREHOUSE_URL"] = made.warehouse
    made.environment["UNDERSTUDY_DASK_SCHEDULER"] = made.scheduler
    try:
        made.start("server", "prefect", "server", "start", "--no-ui", "--port", str(server))
        made.start("scheduler", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(dask), "--no-dashboard")
        made.start("dask-worker", "dask", "worker", made.scheduler, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        wait_for("the Prefect server", lambda: is_up(f"{environment['PREFECT_API_URL']}/health"))
        yield made
    finally:
        made.stop()
