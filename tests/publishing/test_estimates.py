"""Estimates beside the rows in databases: what `ask` answers, hashed, replaced with the release, theirs untouched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.cli.test_verifying import said
from tests.inference.tables import PAIRS, some_codes, told_of
from tests.publishing.test_measured import PRIVATE, SPEC
from tests.sources.tree.test_kinds import clinic_of
from tests.trees import CLINIC
from tests.warehouse import Warehouse
from understudy import Release, synthesize
from understudy.pipelines.inference.asking import Asked
from understudy.pipelines.publishing.estimates import estimates_table

Execute = Callable[[str], list[Any]]


@pytest.mark.parametrize("std", [1e-9, 3.0, 400.0])
def test_the_table_says_what_questions_are_answered(std: float) -> None:
    told = told_of(some_codes(500, 3), PAIRS, std, 1)
    asked = Asked(told, lambda: pytest.fail("no row is needed"))
    rows = estimates_table(told).to_pylist()
    for grouped, names in (("ward", ["ward"]), ("sex, age", ["sex", "age"])):
        own = {(row["value_1"], row["value_2"]): row for row in rows if row["grouped_by"] == grouped}
        for counted, share in zip(
            asked.answer(f"count by {grouped}"), asked.answer(f"share by {grouped}"), strict=True
        ):
            key = [None if counted.group[name] is None else str(counted.group[name]) for name in names]
            row = own[key[0], key[1] if len(key) > 1 else None]
            assert counted.interval is not None
            assert share.interval is not None
            assert row["estimate"] == pytest.approx(counted.estimate, abs=1e-6)
            assert (row["low"], row["high"]) == pytest.approx((counted.interval.low, counted.interval.high), abs=1e-6)
            if std < 100:  # beyond, where the total itself may be zero, everything is possible in either way of asking
                assert row["share"] == pytest.approx(share.estimate, abs=1e-6)
                low, high = share.interval.low, share.interval.high
                assert (row["share_low"], row["share_high"]) == pytest.approx((low, high), abs=1e-6)
    assert {row["counted"] for row in rows} == {"rows"}


@pytest.fixture(params=["duckdb", "postgresql"])
def database(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str, Execute]:
    if request.param == "postgresql":
        warehouse: Warehouse = request.getfixturevalue("warehouse")
        monkeypatch.setenv("WAREHOUSE_URL", warehouse.uri)

        def in_postgres(query: str) -> list[Any]:
            if query.startswith("SELECT"):
                return warehouse.rows(query)
            warehouse.execute(query)
            return []

        return "postgresql+env://WAREHOUSE_URL", f"{warehouse.schema}.copies", in_postgres
    file = tmp_path / "out.duckdb"

    def in_duckdb(query: str) -> list[Any]:
        with duckdb.connect(file) as connection:
            return list(connection.execute(query).fetchall())

    return f"duckdb:///{file}", "copies", in_duckdb


def released(home: Path, to: str, table: str, snapshot: str) -> Release:
    spec = {**SPEC, "publish": {"to": to, "table": table}, "snapshot": snapshot}
    release = synthesize(PRIVATE, spec, cap=(9, 1e-6), home=home)
    release.save(to)
    return release


def test_sql_finds_counts_with_intervals_beside_the_rows(home: Path, database: tuple[str, str, Execute]) -> None:
    to, table, execute = database
    for snapshot in ("2026-08", "2026-09"):
        release = released(home, to, table, snapshot)
    query = f"SELECT value_1, estimate, low, high FROM {table}_estimates WHERE grouped_by = 'ward' ORDER BY value_1"
    found = execute(query)
    answers = {answer.group["ward"]: answer for answer in release.estimate("count by ward")}
    assert [row[0] for row in found] == sorted(answers)
    for value, estimate, low, high in found:
        interval = answers[value].interval
        assert interval is not None
        assert (estimate, low, high) == pytest.approx((answers[value].estimate, interval.low, interval.high))
    assert said("verify", f"{to}#{table}")[0] == 0
    execute(f"UPDATE {table}_estimates SET estimate = estimate + 1 WHERE value_1 = 'A'")
    code, text = said("verify", f"{to}#{table}")
    assert (code, "NO   table" in text) == (5, True), text


def test_a_table_of_that_name_that_is_somebody_elses_is_left_alone(
    home: Path, database: tuple[str, str, Execute]
) -> None:
    to, table, execute = database
    execute(f"CREATE TABLE {table}_estimates (mine integer)")
    execute(f"INSERT INTO {table}_estimates VALUES (7)")
    released(home, to, table, "2026-08")
    assert execute(f"SELECT mine FROM {table}_estimates") == [(7,)]
    assert said("verify", f"{to}#{table}")[0] == 0


def test_estimates_of_an_older_release_go_with_it(
    home: Path, database: tuple[str, str, Execute], monkeypatch: pytest.MonkeyPatch
) -> None:
    import understudy.pipelines.releasing.preparing as preparing

    to, table, execute = database
    released(home, to, table, "2026-08")
    monkeypatch.setattr(preparing, "measured_files", lambda *given: ())
    released(home, to, table, "2026-09")
    assert said("verify", f"{to}#{table}")[0] == 0
    tables = execute("SELECT table_name FROM information_schema.tables")
    assert (f"{table.rpartition('.')[2]}_estimates",) not in tables


def test_several_tables_have_one_of_estimates_by_full_names(home: Path, tmp_path: Path) -> None:
    to, kept = f"duckdb:///{tmp_path / 'out.duckdb'}", {"epochs": 1, "particles": 100, "device": "cpu"}
    spec = {key: value for key, value in CLINIC.items() if key != "source"}
    frames = {name: pa.Table.from_pylist(rows) for name, rows in clinic_of(3).items()}
    changed = {"snapshot": "2026-08", "generate": kept, "publish": {"to": to, "table": "copies"}}
    release = synthesize(frames, {**spec, **changed}, cap=(9, 1e-5), home=home)
    release.save(to)
    with duckdb.connect(tmp_path / "out.duckdb") as connection:
        query = "SELECT value_1, value_2, counted, estimate, low, high FROM copies_estimates WHERE grouped_by = ?"
        found = connection.execute(query, ["visits.ward, patients.sex"]).fetchall()
    answers = {tuple(each.group.values()): each for each in release.estimate("count by visits.ward, patients.sex")}
    assert len(found) == len(answers) == 8
    for ward, sex, counted, estimate, low, high in found:
        interval = answers[ward, sex].interval
        assert interval is not None
        assert counted == "patients"
        assert (estimate, low, high) == pytest.approx((answers[ward, sex].estimate, interval.low, interval.high))
    assert said("verify", f"{to}#copies")[0] == 0
