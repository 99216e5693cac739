"""A thousand planted values appear nowhere: not in logs, tracebacks, databases, results, temporary or public files."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from prefect.settings import PREFECT_API_URL

from tests.flows.conftest import Clinic
from tests.flows.processes import run_command

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
TEXTS = [f"canary{i:03d}q7zx" for i in range(500)]
NUMBERS = [f"{3000 + i}.4142135" for i in range(500)]


def plant(clinic: Clinic) -> None:
    """Five hundred texts as patients, wards and sexes, and five hundred numbers as charges."""
    with duckdb.connect(str(clinic.folder / "clinic.duckdb")) as connection:
        connection.execute("CREATE TABLE planted (text VARCHAR, number DOUBLE)")
        connection.executemany(
            "INSERT INTO planted VALUES (?, ?)", [[t, float(n)] for t, n in zip(TEXTS, NUMBERS, strict=True)]
        )
        connection.execute(
            "INSERT INTO visits (patient_id, visit_id, age, sex, charge, visited_on, ward, smoker) "
            "SELECT text, 900000 + row_number() OVER (), 40, text, number, DATE '2026-03-03', text, true FROM planted"
        )
        connection.execute("DROP TABLE planted")


def found_in(paths: Iterable[Path]) -> list[str]:
    needles = [value.encode() for value in (*TEXTS, *NUMBERS)]
    hits = []
    for path in paths:
        content = path.read_bytes()
        hits += [f"{path}: {needle.decode()}" for needle in needles if needle in content]
    return hits


def files_below(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.name != "clinic.duckdb"]


def server_answers() -> bytes:
    """Everything Prefect keeps that could hold text: logs, runs with their states and parameters, artifacts."""
    import httpx

    base = str(PREFECT_API_URL.value())
    pages = []
    for kind in ("logs", "flow_runs", "task_runs", "artifacts"):
        offset = 0
        while True:
            body = {"limit": 200, "offset": offset}
            answer = httpx.post(f"{base}/{kind}/filter", json=body, timeout=30)
            answer.raise_for_status()
            pages.append(answer.content)
            if len(answer.json()) < 200:
                break
            offset += 200
    return b"".join(pages)


def test_no_planted_value_leaves_the_table(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.pipelines.counting.counting import LocalTable

    plant(clinic)
    with monkeypatch.context() as failing:

        def quote_the_rows(table: LocalTable, cliques: object) -> None:
            raise ValueError(f"bad rows: {[batch.to_pylist() for batch in table.record_batches()]}")

        failing.setattr(LocalTable, "counts", quote_the_rows)
        failed = run("release", clinic.spec)
    assert failed.exit_code == 1
    assert run_command(clinic.folder, clinic.home, "release", clinic.spec, fault="after_draw") == -signal.SIGKILL
    assert run("release", clinic.spec).exit_code == 4
    good = run("release", clinic.spec, "--pay-again")
    assert good.exit_code == 0, good.output
    (clinic.folder / "output.txt").write_text(failed.output + good.output)
    (clinic.folder / "prefect.json").write_bytes(server_answers())
    scanned = files_below(clinic.folder, clinic.home)
    assert len(scanned) > 6
    assert found_in(scanned) == []
    [place] = clinic.releases
    published = pq.read_table(place / "data").to_pandas().astype(str).to_csv()
    assert not [value for value in (*TEXTS, *NUMBERS) if value in published]


def test_the_scan_itself_finds_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"row {TEXTS[17]} and {NUMBERS[3]}")
    assert len(found_in(files_below(tmp_path))) == 2
