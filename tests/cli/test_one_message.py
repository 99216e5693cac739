"""Each of these ended in a traceback, a wrong word or an endless wait once; now it is one message and its exit code."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pytest

from tests.cli.commands import Ended, Place, new_place
from tests.cli.hostile import CANARY, PUBLIC, SOURCE, TARGET, _corrupt, _encrypted, run_all

SHOWN = (', snapshot: "2026-10"', PUBLIC)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return new_place(tmp_path_factory.mktemp("message"))


def one_message(ended: Ended, code: int, *parts: str) -> None:
    assert ended.code == code, ended.text
    assert "Traceback" not in ended.text
    assert CANARY not in ended.text
    assert ended.err.startswith("understudy: "), ended.err
    assert len(ended.err.splitlines()) <= 3, ended.err
    assert all(part in ended.err for part in parts), ended.err


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [("2026-01-01", "2026-02-30", ("line 9", "not a possible date")),
     ("max: 110", "max: " + "9" * 5000, ("line 6", "not a possible whole number")),
     (TARGET, "x: " + "[" * 900 + "]" * 900 + f"\n{TARGET}", ("nested too deeply",)),
     (TARGET, f'schedule: {{cron: "99 99 99 99 99"}}\n{TARGET}', ("schedule.cron",)),
     ("min: 2026-01-01, max: 2026-12-31, bins: month", "min: 1990-01-01, max: 2026-12-31, bins: day", ("13,514 bins",)),
     (SOURCE, 'uri: "oracle://h/x", table: t', ("oracle://", "not a source"))],
    ids=["date", "digits", "depth", "cron", "days", "scheme"],
)  # fmt: skip
def test_a_spec_that_cannot_be_is_refused_by_plan(place: Place, old: str, new: str, parts: tuple[str, ...]) -> None:
    one_message(place.run("plan", place.spec("2026-10", (old, new))), 2, *parts)


def test_a_bad_cron_is_refused_by_deploy_before_any_server_is_asked(place: Place) -> None:
    spec = place.spec("{{ month }}", (TARGET, f'schedule: {{cron: "0 0 32 1 *"}}\n{TARGET}'))
    one_message(place.run("deploy", spec, PREFECT_API_URL="http://127.0.0.1:1/api"), 2, "schedule.cron")


def test_plan_says_that_a_source_is_not_there(place: Place) -> None:
    ended = place.run("plan", place.spec("2026-10", (SOURCE, "uri: nothing.parquet")))
    assert ended.code == 0, ended.text
    assert "there is no" in ended.out
    assert "nothing.parquet" in ended.out


def test_a_pipe_is_no_table_and_no_spec(place: Place) -> None:
    for name in ("pipe.csv", "pipe.yaml"):
        os.mkfifo(place.folder / name)
    spec = place.spec("2026-10", (SOURCE, "uri: pipe.csv"))
    one_message(place.run("plan", spec), 1, "pipe or a device")
    one_message(place.run("plan", "pipe.yaml"), 2, "not a file")


def what_the_metadata_say(place: Place, source: str) -> str:
    """`plan` opens the source's metadata where its size is declared public, and says why it cannot."""
    ended = place.run("plan", place.spec("2026-10", (SOURCE, source), SHOWN))
    assert ended.code == 0, ended.text
    assert CANARY not in ended.text
    return ended.out


def test_a_corrupt_database_is_not_called_locked_and_a_locked_one_is(place: Place) -> None:
    _corrupt(place.folder)
    told = what_the_metadata_say(place, 'uri: "duckdb:///corrupt.duckdb", table: visits')
    assert "locked" not in told
    assert "could not read" in told or "not a readable DuckDB database" in told
    shutil.copy(place.folder / "clinic.duckdb", place.folder / "busy.duckdb")
    with duckdb.connect(place.folder / "busy.duckdb"):
        assert "locked" in what_the_metadata_say(place, 'uri: "duckdb:///busy.duckdb", table: visits')


def test_an_encrypted_file_is_called_encrypted(place: Place) -> None:
    _encrypted(place.folder)
    assert "it is encrypted" in what_the_metadata_say(place, "uri: crypt.parquet")


JUNK = (
    "UPDATE ledger_accounts SET relation = 'sideways'",
    "UPDATE ledger_accounts SET epsilon = 'much'",
    "UPDATE ledger_history SET body = '{'",
)


@pytest.mark.parametrize("statement", JUNK)
def test_verify_gives_a_verdict_on_whatever_is_in_the_tables(place: Place, tmp_path: Path, statement: str) -> None:
    shutil.copytree(place.home, tmp_path / "home")
    with closing(sqlite3.connect(tmp_path / "home" / "ledger.db")) as database:
        database.execute(statement)
        database.commit()
    ended = place.run("--home", tmp_path / "home", "ledger", "verify")
    assert ended.code == 1, ended.text
    assert "does not verify" in ended.err
    assert "Traceback" not in ended.text


def test_an_export_shows_whatever_is_in_the_tables(place: Place, tmp_path: Path) -> None:
    """It ended in the middle of its JSON at a value of another type."""
    shutil.copytree(place.home, tmp_path / "home")
    with closing(sqlite3.connect(tmp_path / "home" / "ledger.db")) as database:
        database.execute("UPDATE ledger_accounts SET delta = x'ff00'")
        database.commit()
    ended = place.run("--home", tmp_path / "home", "ledger", "export")
    assert ended.code == 0, ended.text
    assert json.loads(ended.out)["accounts"][0]["delta"] == "x'ff00'"


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Mounted again, for reading alone; only root may, and only root is not stopped by permissions."""
    mount: Callable[..., object] = lambda *words: subprocess.run(["mount", *words, folder], check=True)  # noqa: E731
    if os.geteuid() != 0:
        folder.chmod(0o555)
        try:
            yield
        finally:
            folder.chmod(0o755)
        return
    try:
        mount("--bind", folder)
        mount("-o", "remount,ro,bind")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_ledger_on_a_read_only_disk_is_shown_verified_and_exported(place: Place, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(place.home, home)
    with read_only(home):
        for words in (("show",), ("verify",), ("export",), ("history", "clinic")):
            ended = place.run("--home", home, "ledger", *words)
            assert ended.code == 0, ended.text
            assert any(word in ended.out for word in ("clinic", "1 accounts: whole", "opened")), ended.out
        refused = place.run(
            "--home", home, "ledger", "cap", "clinic", "--epsilon", "1", "--delta", "1e-6", "--reason", "x"
        )
        one_message(refused, 1, "ledger")


def test_a_second_demo_in_one_directory_is_refused(place: Place) -> None:
    import fcntl

    (place.folder / "demo").mkdir()
    held = os.open(place.folder / "demo", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        one_message(place.run("demo"), 2, "another demo is running")
    finally:
        os.close(held)


UNEXPECTED = f"""
import sys
import understudy.cli.ledger as ledger
def show(account): raise KeyError("{CANARY}")
ledger.show = show
from understudy.cli.main import main
main(["ledger", "show"])
"""


def test_an_error_nobody_expected_is_told_without_its_text(place: Place) -> None:
    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        known = os.environ | {"UNDERSTUDY_HOME": str(place.home)} | environment
        return subprocess.run(
            [sys.executable, "-c", UNEXPECTED], env=known, capture_output=True, text=True, check=False
        )

    hidden = run()
    assert hidden.returncode == 1
    assert CANARY not in hidden.stdout + hidden.stderr
    assert hidden.stderr.startswith("understudy: unexpected KeyError at __main__:4;"), hidden.stderr
    debugged = run(UNDERSTUDY_DEBUG="1")
    assert debugged.returncode == 1
    assert "Traceback" in debugged.stderr


@pytest.mark.slow
def test_three_hundred_hostile_specs_sources_and_environments(tmp_path: Path) -> None:
    (tmp_path / "hostile").mkdir()
    outcomes = run_all(tmp_path / "hostile")
    assert len(outcomes) >= 300
    assert {outcome.case.name: outcome.problems for outcome in outcomes if outcome.problems} == {}
