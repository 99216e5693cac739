"""A real Dask cluster for tests: `dask scheduler` and two `dask worker` processes on loopback, one of which may die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cluster:
    client: Any
    workers: list[subprocess.Popen[bytes]]

    @property
    def address(self) -> str:
        return str(self.client.scheduler.address)

    @contextmanager
    def killing_a_worker(self) -> Iterator[None]:
        """SIGKILL the first worker as soon as it has something to do; leaving, check that this happened."""
        victim = next(w for w, info in self.client.scheduler_info()["workers"].items() if info["name"] == "one")
        killed = threading.Event()

        def kill_while_it_reads() -> None:
            while not self.client.processing().get(victim):
                time.sleep(0.02)
            os.kill(self.workers[0].pid, signal.SIGKILL)
            killed.set()

        threading.Thread(target=kill_while_it_reads, daemon=True).start()
        yield
        assert killed.is_set()
        assert self.workers[0].wait(10) == -signal.SIGKILL
        assert len(self.client.scheduler_info()["workers"]) == 1


@contextmanager
def dask_cluster(place: Path) -> Iterator[Cluster]:
    from distributed import Client

    scheduler_file = place / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    dask = [sys.executable, "-m", "dask"]

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        with (place / "log").open("ab") as log:
            return subprocess.Popen([*dask, *arguments], stdout=log, stderr=log, env=environment, cwd=place)

    shared = ["--scheduler-file", str(scheduler_file), "--no-dashboard"]
    running = [start("scheduler", "--host", "127.0.0.1", "--port", "0", *shared)]
    worker = ["worker", *shared, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1"]
    running += [start(*worker, "--name", name) for name in ("one", "two")]
    try:
        deadline = time.monotonic() + 120
        while not scheduler_file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        with Client(scheduler_file=str(scheduler_file), timeout=120) as client:
            client.wait_for_workers(2, timeout=120)
            yield Cluster(client, running[1:])
    finally:
        for process in running:
            process.kill()
            process.wait()
