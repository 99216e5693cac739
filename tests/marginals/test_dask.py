"""Counting on Dask gives the counts of the local table: in threads, on a cluster, and after a worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("distributed")

from distributed import Client

from tests.marginals.slow_source import SlowSource
from tests.marginals.test_local_table import CLIQUES, DOMAIN, same, visits
from understudy.pipelines.errors import SourceError
from understudy.pipelines.marginals.counting import LocalTable
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.csv_file import CsvSource
from understudy.pipelines.sources.parquet import ParquetSource
from understudy.tasks.dask_counting import DaskTable, Sealed

FILES = 12


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("visits")
    for i in range(FILES):
        pq.write_table(visits(300, seed=i), place / f"{i:02d}.parquet", row_group_size=100)
    return place


@pytest.mark.parametrize("unit", [Unit(), Unit("who", 3)])
def test_threads_give_the_local_counts(directory, unit):
    source = ParquetSource(directory)
    expected = LocalTable(source, DOMAIN, unit, b"key").counts(CLIQUES)
    assert same(DaskTable(source, DOMAIN, unit, b"key").counts(CLIQUES), expected)


def test_a_source_that_is_one_stream_is_counted_here(tmp_path):
    (tmp_path / "t.csv").write_text("age,ward,cost\n5,A,1\n50,B,\n")
    table = DaskTable(CsvSource(tmp_path / "t.csv"), DOMAIN, Unit(), b"key", scheduler="tcp://127.0.0.1:1")
    assert table.counts([(1,)])[0].tolist() == [1, 1, 0, 0]
    assert sum(batch.num_rows for batch in table.record_batches()) == 2


def test_an_unreachable_scheduler_is_a_source_error(directory, monkeypatch):
    monkeypatch.setattr("understudy.tasks.dask_counting.CONNECT_SECONDS", 0.5)
    with pytest.raises(SourceError, match="cannot reach the Dask scheduler at tcp://127"):
        DaskTable(ParquetSource(directory), DOMAIN, Unit(), b"key", scheduler="tcp://127.0.0.1:1").counts(CLIQUES)


def test_a_file_lost_after_the_check_is_a_source_error(tmp_path):
    for i in range(2):
        pq.write_table(visits(50, seed=i), tmp_path / f"{i}.parquet")
    source = ParquetSource(tmp_path)
    source.schema()
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(SourceError, match=r"1\.parquet"):
        DaskTable(source, DOMAIN, Unit(), b"key").counts(CLIQUES)


def test_sealed_values_show_nothing():
    assert "secret" not in repr(Sealed("secret"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A `dask scheduler` and two `dask worker` processes on loopback: the address, and the workers."""
    place = tmp_path_factory.mktemp("cluster")
    scheduler_file = place / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    dask = [sys.executable, "-m", "dask"]

    def start(*arguments: str) -> subprocess.Popen:
        with (place / "log").open("ab") as log:
            return subprocess.Popen([*dask, *arguments], stdout=log, stderr=log, env=environment, cwd=place)

    shared = ["--scheduler-file", str(scheduler_file), "--no-dashboard"]
    running = [start("scheduler", "--host", "127.0.0.1", "--port", "0", *shared)]
    worker = ["worker", *shared, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1"]
    running += [start(*worker, "--name", name) for name in ("one", "two")]
    deadline = time.monotonic() + 120
    while not scheduler_file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    with Client(scheduler_file=str(scheduler_file), timeout=120) as client:
        client.wait_for_workers(2, timeout=120)
        yield client, running[1:]
    for process in running:
        process.kill()
        process.wait()


def test_a_real_cluster_counts_alike_and_survives_the_loss_of_a_worker(cluster, directory):
    client, workers = cluster
    address, unit = client.scheduler.address, Unit("who", 3)
    expected = LocalTable(ParquetSource(directory), DOMAIN, unit, b"key").counts(CLIQUES)
    assert same(DaskTable(ParquetSource(directory), DOMAIN, unit, b"key", address).counts(CLIQUES), expected)

    victim = next(w for w, info in client.scheduler_info()["workers"].items() if info["name"] == "one")
    killed = threading.Event()

    def kill_while_it_reads() -> None:
        while not client.processing().get(victim):
            time.sleep(0.02)
        os.kill(workers[0].pid, signal.SIGKILL)
        killed.set()

    killer = threading.Thread(target=kill_while_it_reads, daemon=True)
    killer.start()
    slow = DaskTable(SlowSource(directory, 0.15), DOMAIN, unit, b"key", address)
    assert same(slow.counts(CLIQUES), expected)
    assert killed.is_set()
    assert workers[0].wait(10) == -signal.SIGKILL
    assert len(client.scheduler_info()["workers"]) == 1
