"""Planning reads no row; the ledger's commands say what happened."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from tests.flows.conftest import Clinic
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.ledger.ledger import ChargeRequest, Holder
from understudy.pipelines.spec.reading import load_spec

Run = Callable[..., Result]


def charge_by_hand(clinic: Clinic, snapshot: str, noise_multiplier: float = 5.0) -> str:
    spec = load_spec(clinic.spec)
    request = ChargeRequest(
        "clinic", spec.privacy.relation, spec.privacy.protected_unit, spec.name, spec.hash, snapshot, "marginals",
        Gaussian(noise_multiplier),
    )  # fmt: skip
    return clinic.ledger.charge(request, Holder.here()).mid


def test_plan_reads_no_row(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is destroyed, and reading from any is made an error: the plan asks the catalogue alone, in vain."""
    (clinic.folder / "clinic.duckdb").write_bytes(b"not a database")
    for reads in ("read", "query", "row_estimate"):
        monkeypatch.setattr(
            f"understudy.pipelines.sources.databases.duckdb_table.DuckDBSource.{reads}",
            lambda self, *words: pytest.fail("plan read the source"),
        )
    result = run("plan", clinic.spec)
    assert "its catalogue cannot be read" in result.output
    assert result.exit_code == 0, result.output
    for part in ("would spend epsilon 1.0000", "noise std", "age x sex", "account clinic: spent 0.0000 of 1.7",
                 "the cap pays for 2 such"):  # fmt: skip
        assert part in result.output, result.output


def test_plan_as_json(clinic: Clinic, run: Run) -> None:
    plan = json.loads(run("plan", clinic.spec, "--json").output)
    assert plan["charges"][0]["event"]["kind"] == "gaussian"
    assert len(plan["noise"]) == 6 + 15 + 6 + 2  # columns, pairs, columns by level; levels and numbers of rows


def test_plan_says_when_the_account_cannot_pay(clinic: Clinic, run: Run) -> None:
    charge_by_hand(clinic, "2026-08", noise_multiplier=2.8)
    result = run("plan", clinic.spec)
    assert result.exit_code == 0
    assert "would be refused" in result.output


def test_ledger_show_history_verify_export(clinic: Clinic, run: Run) -> None:
    mid = charge_by_hand(clinic, "2026-09")
    shown = run("ledger", "show").output
    assert "clinic" in shown
    assert "one patient_id with at most 4 rows" in shown
    assert mid[:12] in run("ledger", "history", "clinic").output
    assert "whole" in run("ledger", "verify").output
    assert json.loads(run("ledger", "export").output)


def test_verify_finds_a_changed_row(clinic: Clinic, run: Run) -> None:
    import sqlite3

    charge_by_hand(clinic, "2026-09")
    connection = sqlite3.connect(clinic.home / "ledger.db")
    connection.execute("UPDATE ledger_charges SET snapshot = '2020-01'")
    connection.commit()
    connection.close()
    result = run("ledger", "verify")
    assert result.exit_code == 1
    assert "does not verify" in result.output


def test_burn_and_cap_need_a_reason_and_are_recorded(clinic: Clinic, run: Run) -> None:
    mid = charge_by_hand(clinic, "2026-09")
    assert run("ledger", "burn", mid[:10]).exit_code == 2
    assert run("ledger", "burn", mid[:10], "--reason", "machine lost").exit_code == 0
    assert run("ledger", "cap", "clinic", "--epsilon", 4, "--delta", "1e-6", "--reason", "board").exit_code == 0
    history = run("ledger", "history", "clinic").output
    assert "machine lost" in history
    assert "board" in history


@pytest.mark.parametrize(
    "words",
    [
        ["ledger", "open", "x", "--epsilon", "0", "--delta", "1e-6"],
        ["ledger", "open", "x", "--epsilon", "one", "--delta", "1e-6"],
        ["ledger", "open", "x", "--epsilon", "1", "--delta", "1e-6", "--max-rows", "3"],
        ["ledger", "open", "clinic", "--epsilon", "9", "--delta", "1e-6"],
        ["ledger", "show", "nobody"],
        ["ledger", "history", "nobody"],
        ["ledger", "burn", "ffff", "--reason", "r"],
        ["plan", "missing.yaml"],
        ["release", "missing.yaml"],
        ["no-such-command"],
    ],
)
def test_wrong_use_is_explained_with_code_2(clinic: Clinic, run: Run, words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert len(result.output.strip().splitlines()) <= 6


def test_schema_is_json(run: Run) -> None:
    assert "properties" in json.loads(run("schema").output)


def test_plan_says_what_is_lost_where_the_source_holds_whole_numbers(clinic: Clinic, run: Run) -> None:
    """By the catalogue: the file's rows are overwritten, and the words are the same."""
    import duckdb

    declared = "  visits: {type: number, min: 0, max: 9, nullable: true}\n"
    spec = clinic.write(("age: {type: integer", "age: {type: number"), ("columns:\n", f"columns:\n{declared}"))
    path = clinic.folder / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("ALTER TABLE visits ADD COLUMN visits SMALLINT")
        connection.execute("CHECKPOINT")
        size = connection.execute("SELECT block_size FROM pragma_database_size()").fetchone()
        blocks = connection.execute(
            "SELECT DISTINCT block_id FROM pragma_storage_info('visits') WHERE block_id >= 0"
        ).fetchall()
    assert size is not None
    with path.open("r+b") as file:
        for (block,) in blocks:
            file.seek(3 * 4096 + block * size[0])
            file.write(bytes(size[0]))
    told = run("plan", spec).output
    for name, type_ in (("age", "int64"), ("visits", "int16")):
        assert f"   ! {name}: the source holds whole numbers ({type_}), `number` is declared: exact zeros" in told, told
    assert "charge: the source" not in told
    lost = json.loads(run("plan", spec, "--json").output)["types_lost"]
    assert [line.partition(":")[0] for line in lost] == ["visits", "age"]


def test_plan_estimates_counting_without_asking_how_many_rows_there_are(
    clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for way in ("read", "parts", "query", "row_estimate"):
        monkeypatch.setattr(
            f"understudy.pipelines.sources.databases.duckdb_table.DuckDBSource.{way}",
            lambda *_: pytest.fail("plan asked for rows"),
        )
    assert "counting 15 marginals of 100,000 rows (assumed" in run("plan", clinic.spec).output
    assumed = run("plan", clinic.spec, "--assume-rows", 50_000_000).output
    assert "counting 15 marginals of 50,000,000 rows (assumed)" in assumed
    assert "passes" in assumed
    # Whoever assumes a number needs no metadata, declared public or not.
    clinic.write(("source: {", "source: {rows_are_public: true, "))
    assert "of 7 rows (assumed)" in run("plan", clinic.spec, "--assume-rows", 7).output


def test_plan_reads_the_number_of_rows_only_if_it_is_declared_public(
    clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata is read, rows are not: every way to a row is an error."""
    before = load_spec(clinic.spec).hash
    clinic.write(("source: {", "source: {rows_are_public: true, "))
    assert load_spec(clinic.spec).hash == before
    source = "understudy.pipelines.sources.databases.duckdb_table.DuckDBSource"
    for way in ("read", "parts", "query"):
        monkeypatch.setattr(f"{source}.{way}", lambda *_: pytest.fail("plan read rows"))
    plan = json.loads(run("plan", clinic.spec, "--json").output)
    assert plan["counting"]["rows"] > 0
    assert plan["counting"]["rows_from"] == "by the source's metadata, declared public"
    assert plan["counting"]["peak_mb"] > 0
    assert "declared public" in run("plan", clinic.spec).output


def test_plan_without_access_to_the_metadata_says_so_and_assumes(clinic: Clinic, run: Run) -> None:
    clinic.write(("source: {", "source: {rows_are_public: true, "))
    (clinic.folder / "clinic.duckdb").unlink()
    result = run("plan", clinic.spec)
    assert result.exit_code == 0, result.output
    assert "cannot be read: there is no database" in result.output


def test_the_filter_of_an_account_is_chosen_shown_and_named_with_its_theorem(clinic: Clinic, run: Run) -> None:
    assert "filter gdp: Gaussian DP filter (Smith & Thakurta 2022)" in run("plan", clinic.spec).output
    opened = run("ledger", "open", "pictures", "--epsilon", "4", "--delta", "1e-6", "--filter", "renyi")
    assert "filter renyi at order 7.2: Renyi filter at one fixed order (Feldman & Zrnic 2021)" in opened.output
    charge_by_hand(clinic, "2026-09")
    shown = run("ledger", "show", "clinic").output
    for part in ("gdp", "counted mu 0.2 of mu 0.3864", "the cap is also epsilon 1.266 at 0.0001"):
        assert part in shown, shown
    assert "renyi" in run("ledger", "show").output
    assert "at order 9" in run("ledger", "open", "x", "--epsilon", "4", "--delta", "1e-6", "--filter", "renyi",
                               "--order", "9", "--own-delta", "1e-7").output  # fmt: skip
    assert "1E-7" in run("ledger", "show", "x").output
    assert run("ledger", "verify").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--order", "8"],
        ["--filter", "renyi", "--order", "1"],
        ["--filter", "renyi", "--order", "1.1"],
        ["--filter", "natural"],
        ["--own-delta", "1e-6"],
        ["--own-delta", "some"],
    ],
)
def test_a_filter_that_cannot_be_is_explained_with_code_2(run: Run, home: object, words: list[str]) -> None:
    refused = run("ledger", "open", "x", "--epsilon", "1", "--delta", "1e-6", *words)
    assert refused.exit_code == 2, refused.output
    assert "no accounts yet" in run("ledger", "show").output


def test_plan_and_release_refuse_what_the_filter_cannot_hold_before_anything_is_read(clinic: Clinic, run: Run) -> None:
    (clinic.folder / "clinic.duckdb").write_bytes(b"not a database")
    clinic.write(("delta: 1e-6", "delta: 1e-6, noise: opendp"))
    for command in ("plan", "release"):
        refused = run(command, clinic.spec)
        assert refused.exit_code == 2, refused.output
        assert "understudy ledger open NAME --filter renyi --order" in refused.output
    assert clinic.charges == []
