"""Bad input ends with one message and its exit code; bad rows are released like any others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from prefect.settings import PREFECT_API_URL

from tests.cli.commands import Place
from tests.flows.conftest import Clinic

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
CANARY = "canary-7f3a"


def execute(clinic: Clinic, statement: str) -> None:
    with duckdb.connect(str(clinic.folder / "clinic.duckdb")) as connection:
        connection.execute(statement)


def refused(clinic: Clinic, run: Run, code: int, *parts: str) -> None:
    result = run("release", clinic.spec)
    assert result.exit_code == code, result.output
    assert all(part in result.output for part in parts), result.output
    assert CANARY not in result.output
    assert clinic.releases == []
    assert clinic.charges == []


def test_missing_source(clinic: Clinic, run: Run) -> None:
    (clinic.folder / "clinic.duckdb").unlink()
    refused(clinic, run, 1, "clinic.duckdb")


def test_unreadable_file(clinic: Clinic, run: Run) -> None:
    (clinic.folder / "clinic.duckdb").write_bytes(b"garbage" * 1000)
    refused(clinic, run, 1, "clinic.duckdb")


def test_missing_table(clinic: Clinic, run: Run) -> None:
    execute(clinic, "DROP TABLE visits")
    refused(clinic, run, 2, "visits")


def test_a_misspelt_table_is_two_lines_and_no_list_of_leaks(clinic: Clinic) -> None:
    clinic.write(("table: visits", "table: visit"))
    ended = Place(clinic.home.parent).run("release", clinic.spec, PREFECT_API_URL=str(PREFECT_API_URL.value()))
    assert ended.code == 2, ended.text
    waited = "EventsWorker - Still processing items"  # Prefect's own, where the machine is slow
    lines = [line for line in ended.err.splitlines() if not line.endswith((" ...", "`understudy keys show` prints"))]
    lines = [line for line in lines if waited not in line]
    assert len(lines) == 2, ended.err
    assert "'visit'" in lines[0]


def test_table_without_a_declared_column(clinic: Clinic, run: Run) -> None:
    execute(clinic, "ALTER TABLE visits RENAME ward TO station")
    refused(clinic, run, 2, "ward")


def test_table_without_the_entity_column(clinic: Clinic, run: Run) -> None:
    execute(clinic, "ALTER TABLE visits DROP patient_id")
    refused(clinic, run, 2, "patient_id")


def test_impossible_column_type(clinic: Clinic, run: Run) -> None:
    execute(clinic, f"ALTER TABLE visits ALTER ward TYPE STRUCT(a VARCHAR) USING {{'a': '{CANARY}'}}")
    refused(clinic, run, 2, "ward")


def parquet_visits(clinic: Clinic) -> Path:
    """The clinic's visits as two Parquet files that the spec reads instead."""
    folder = clinic.folder / "visits"
    folder.mkdir()
    with duckdb.connect(str(clinic.folder / "clinic.duckdb"), read_only=True) as connection:
        visits = connection.sql("SELECT * FROM visits").to_arrow_table()
    pq.write_table(visits.slice(0, 1000), folder / "0.parquet")
    pq.write_table(visits.slice(1000), folder / "1.parquet")
    clinic.write(('uri: "duckdb:///clinic.duckdb", table: visits', "uri: visits"))
    return folder / "1.parquet"


def test_parquet_that_is_cut_short(clinic: Clinic, run: Run) -> None:
    path = parquet_visits(clinic)
    path.write_bytes(path.read_bytes()[:-100])
    refused(clinic, run, 1, "1.parquet")


def test_parquet_whose_pages_are_damaged_behind_a_sound_footer(clinic: Clinic, run: Run) -> None:
    path = parquet_visits(clinic)
    damaged = bytearray(path.read_bytes())
    damaged[4:2000] = b"\xff" * 1996
    path.write_bytes(damaged)
    refused(clinic, run, 1, "1.parquet")


def test_parquet_files_that_disagree_on_a_type(clinic: Clinic, run: Run) -> None:
    path = parquet_visits(clinic)
    table = pq.read_table(path)
    drifted = table.set_column(table.schema.get_field_index("age"), "age", table.column("age").cast(pa.string()))
    pq.write_table(drifted, path)
    refused(clinic, run, 1, "age", "1.parquet")


def test_parquet_with_a_column_missing_from_one_file(clinic: Clinic, run: Run) -> None:
    path = parquet_visits(clinic)
    pq.write_table(pq.read_table(path).drop_columns(["ward"]), path)
    refused(clinic, run, 1, "1.parquet lacks the column(s) ward")


def test_unknown_account(clinic: Clinic, run: Run) -> None:
    clinic.write(("account: clinic,", "account: nobody,"))
    refused(clinic, run, 2, "nobody", "ledger open")


def test_another_relation_or_unit_than_the_account(clinic: Clinic, run: Run) -> None:
    clinic.write(("add_remove", "replace_one"))
    refused(clinic, run, 2, "relation")
    clinic.write(("max_rows: 4", "max_rows: 9"))
    refused(clinic, run, 2, "9")


def test_unknown_method_option(clinic: Clinic, run: Run) -> None:
    clinic.write(("marginals: all-2way", "marginal: all-2way"))
    refused(clinic, run, 2, "marginal", "one_way_share")


def test_locked_ledger(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import understudy.pipelines.privacy.ledger.ledger as ledger_module

    impatient = ledger_module.Ledger.__init__
    monkeypatch.setattr(ledger_module.Ledger, "__init__", lambda self, url: impatient(self, url, 0.2, 0.2))
    holder = sqlite3.connect(clinic.home / "ledger.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        result = run("release", clinic.spec)
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert result.exit_code == 1, result.output
    assert clinic.releases == []
    assert clinic.charges == []


def test_a_ledger_that_is_no_database(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (clinic.folder / "other.db").write_bytes(b"something else entirely" * 100)
    monkeypatch.setenv("UNDERSTUDY_LEDGER", f"sqlite:///{clinic.folder / 'other.db'}")
    result = run("release", clinic.spec)
    assert result.exit_code == 1
    assert "ledger" in result.output.lower()


def hostile_table() -> pa.Table:
    n = 40
    return pa.table(
        {
            "patient_id": [CANARY, None, "", "P1"] * (n // 4),
            "visit_id": [None] * n,
            "age": ["41", "-99999999999999999999", "NaN", CANARY] * (n // 4),
            "sex": ["F", "\x00\x07", None, "🙈" * 500] * (n // 4),
            "charge": pa.array([float("nan"), float("inf"), -float("inf"), 1e308] * (n // 4)),
            "visited_on": ["2026-02-30", "0000-00-00", "2026-03-01", None] * (n // 4),
            "ward": [CANARY, "A", "b", None] * (n // 4),
            "smoker": ["maybe", "true", "", None] * (n // 4),
        }
    )


@pytest.mark.parametrize("rows", [0, 40])
def test_hostile_and_empty_tables_are_released_like_any_other(clinic: Clinic, run: Run, rows: int) -> None:
    pq.write_table(hostile_table().slice(0, rows), clinic.folder / "visits.parquet")
    clinic.write(('"duckdb:///clinic.duckdb", table: visits', "visits.parquet"))
    result = run("release", clinic.spec)
    assert result.exit_code == 0, result.output
    [place] = clinic.releases
    for path in [p for root in (place, clinic.home) for p in root.rglob("*") if p.is_file()]:
        assert CANARY.encode() not in path.read_bytes(), path


def test_csv_with_garbage(clinic: Clinic, run: Run) -> None:
    lines = ["patient_id,visit_id,age,sex,charge,visited_on,ward,smoker"]
    lines += [f"P{i},{i},{'x' if i % 7 else 30},F,{i}.5,2026-0{1 + i % 9}-11,A,true" for i in range(50)]
    (clinic.folder / "visits.csv").write_text("\n".join(lines))
    clinic.write(('"duckdb:///clinic.duckdb", table: visits', "visits.csv"))
    assert run("release", clinic.spec).exit_code == 0


def test_errors_in_code_that_touches_rows_do_not_quote_them(
    clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.pipelines.counting.counting import LocalTable

    def explode(self: object, *asked: object) -> None:
        raise ValueError(f"cannot count {CANARY}")

    monkeypatch.setattr(LocalTable, "counts", explode)
    refused(clinic, run, 1, "privatize failed with ValueError", "withheld")
