"""What a release needs after it has paid is asked for before it pays: with any of it missing, nothing is charged."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.commands import wait_for
from tests.flows.conftest import Clinic

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
TARGET = "publish: {to: releases/}"


def refused(clinic: Clinic, run: Run, *parts: str) -> None:
    result = run("release", clinic.spec)
    assert result.exit_code == 1, result.output
    assert all(part in result.output for part in parts), result.output
    assert clinic.charges == []
    assert clinic.ledger.verify().ok


def test_a_target_that_cannot_be_written_costs_nothing(clinic: Clinic, run: Run) -> None:
    in_the_way = clinic.folder / "releases"
    in_the_way.write_text("a file where a directory should be")
    refused(clinic, run, "releases", "nothing was spent")
    in_the_way.unlink()
    assert run("release", clinic.spec).exit_code == 0
    assert len(clinic.charges) == len(clinic.releases) == 1
    in_the_way.rename(clinic.folder / "moved")
    in_the_way.symlink_to("moved")
    assert run("release", clinic.spec).exit_code == 0  # what is published already needs no room


def test_a_disjoint_series_is_not_paid_for_a_target_that_cannot_be_written(clinic: Clinic, run: Run) -> None:
    clinic.write((TARGET, f"rolling: {{period: month, entities: disjoint}}\n{TARGET}"))
    (clinic.folder / "releases").write_text("in the way")
    refused(clinic, run, "releases")


@pytest.mark.parametrize("to", ["visits", "shelf/visits"])
def test_a_database_that_cannot_take_the_table_costs_nothing(clinic: Clinic, run: Run, to: str) -> None:
    if to == "visits":  # the source's own table, which was not published by Understudy
        clinic.write((TARGET, 'publish: {to: "duckdb:///clinic.duckdb", table: visits}'))
        refused(clinic, run, "not published by Understudy")
    else:
        (clinic.folder / "shelf").write_text("in the way")
        clinic.write((TARGET, 'publish: {to: "duckdb:///shelf/copy.duckdb", table: visits}'))
        refused(clinic, run, "copy.duckdb")


def test_a_role_that_may_not_create_costs_nothing(clinic: Clinic, run: Run, postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'reader'").fetchone():
            connection.execute("CREATE ROLE reader LOGIN")
        [schema] = connection.execute("SELECT current_schema()").fetchone() or [""]
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
        address = f"postgresql://reader@/{connection.info.dbname}?host={connection.info.host}"
    clinic.write((TARGET, f'publish: {{to: "{address}", table: {schema}.visits}}'))
    refused(clinic, run, f"may not create tables in schema {schema}")


@contextmanager
def scheduler(kind: str, place: Path) -> Iterator[str]:
    """The address of a Dask scheduler that is dead, says nothing, or has no workers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        if kind == "silent":
            yield address
            return
    if kind == "dead":
        yield address
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2],
         "--no-dashboard"],
        cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0

    try:
        wait_for(listens, lambda: "the scheduler does not listen")
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("kind", ["dead", "silent", "without workers"])
def test_a_dask_scheduler_that_cannot_count_costs_nothing(
    clinic: Clinic, run: Run, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    if kind != "without workers":
        monkeypatch.setattr("understudy.tasks.engines.dask_counting.CONNECT_SECONDS", 2.0)
    with scheduler(kind, tmp_path) as address:
        monkeypatch.setenv("UNDERSTUDY_DASK_SCHEDULER", address)
        clinic.write((TARGET, f"compute: {{engine: dask, scheduler: '{address}'}}\n{TARGET}"))
        refused(clinic, run, "no workers" if kind == "without workers" else "cannot reach", address)
