"""Backups of ledger, measurements and keys: whole, verified, and never a way to forget what was spent."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, inspect

from tests.postgres import new_database
from tests.privacy.ledger.conftest import UNIT, Bench
from understudy.cli.main import main
from understudy.pipelines.errors import ChargeBurnt, LedgerError, SpecError
from understudy.pipelines.privacy.ledger import schema
from understudy.pipelines.privacy.ledger.ledger import Holder, Ledger
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.releasing.backing_up import back_up, restore
from understudy.pipelines.releasing.workspace import Workspace


@pytest.fixture
def bench(ledger_url: str, tmp_path: Path) -> Bench:
    home = tmp_path / "home"
    ledger = Ledger(ledger_url)
    account = ledger.open_account("clinic", Relation.ADD_REMOVE, UNIT, Budget("3", "1e-6"), "for the tests")
    return Bench(ledger_url, ledger, MeasurementStore(home / "measurements"), account)


def backed_up(bench: Bench, tmp_path: Path, name: str = "backup") -> Path:
    back_up(Workspace(tmp_path / "home", bench.url), bench.store, tmp_path / name)
    return tmp_path / name


def elsewhere(tmp_path: Path, url: str = "", name: str = "new") -> tuple[Workspace, MeasurementStore]:
    place = Workspace(tmp_path / name, url or f"sqlite:///{tmp_path / name}/ledger.db")
    return place, MeasurementStore(place.measurements)


def restored_bench(bench: Bench, place: Workspace, store: MeasurementStore) -> Bench:
    return Bench(place.ledger_url, Ledger(place.ledger_url), store, bench.account)


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_a_backup_of_either_database_restores_into_either(bench: Bench, tmp_path: Path, target: str) -> None:
    first = bench.buy("2026-01")
    bench.buy("2026-02")
    backup = backed_up(bench, tmp_path)
    assert Ledger(f"sqlite:///{backup}/ledger.db").verify().ok
    place, store = elsewhere(tmp_path, new_database() if target == "postgresql" else "")
    done = restore(place, store, backup)
    assert (done.ledger, done.measurements, done.newer) == (True, 2, ())
    again = restored_bench(bench, place, store)
    assert again.ledger.export() == bench.ledger.export()
    assert again.ledger.verify().ok
    assert again.buy("2026-01").arrays["0,1"].tolist() == first.arrays["0,1"].tolist()
    assert (again.draws, again.events) == ([], ["reused"])
    again.buy("2026-03")
    assert again.events == ["reused", "charged", "measured"]


def test_every_table_of_the_ledger_is_copied(bench: Bench) -> None:
    engine = create_engine(bench.url)
    found = set(inspect(engine).get_table_names())
    engine.dispose()
    assert {name for name in found if name.startswith("ledger_")} == set(schema.metadata.tables)


def test_a_backup_never_replaces_anything_and_a_failed_one_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.buy("2026-01")
    backup = backed_up(bench, tmp_path)
    before = (backup / "backup.json").read_bytes()
    with pytest.raises(SpecError, match="never replaces"):
        backed_up(bench, tmp_path)
    assert (backup / "backup.json").read_bytes() == before
    bench.store.path(bench.store.mids()[0]).joinpath("arrays.parquet").write_bytes(b"")
    here = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(LedgerError, match="cannot be copied") as refused:
        backed_up(bench, tmp_path, "second")
    assert "--incomplete" in refused.value.fix
    assert {path.name for path in tmp_path.iterdir()} == here


def test_a_lost_measurement_comes_back_from_an_earlier_backup(bench: Bench, tmp_path: Path) -> None:
    bench.buy("2026-01")
    backup = backed_up(bench, tmp_path)
    bench.buy("2026-02")
    lost = bench.request("2026-01").mid
    shutil.rmtree(bench.store.path(lost))
    workspace = Workspace(tmp_path / "home", bench.url)
    made = back_up(workspace, bench.store, tmp_path / "incomplete", incomplete=True)
    assert (made.measurements, list(made.missing)) == (1, [lost])
    done = restore(workspace, bench.store, backup)
    assert (done.ledger, done.measurements) == (False, 1)
    assert bench.buy("2026-01").facts["std"] == 10.0
    assert len(bench.draws) == 2
    assert back_up(workspace, bench.store, tmp_path / "complete").missing == {}


def test_a_charge_in_flight_is_never_drawn_by_a_restored_ledger(bench: Bench, tmp_path: Path) -> None:
    bench.ledger.charge(bench.request("2026-01"), Holder.here())  # of this process, which is not measuring it: dead
    backup = backed_up(bench, tmp_path)
    place, store = elsewhere(tmp_path)
    restore(place, store, backup)
    again = restored_bench(bench, place, store)
    with pytest.raises(ChargeBurnt):
        again.buy("2026-01")
    assert again.draws == []
    assert again.ledger.balance("clinic").charges == 1


def test_a_store_that_knows_more_than_the_backup_outvotes_it(bench: Bench, tmp_path: Path) -> None:
    bench.buy("2026-01")
    backup = backed_up(bench, tmp_path)
    bench.buy("2026-02")
    place = Workspace(tmp_path / "home", f"sqlite:///{tmp_path}/empty/ledger.db")
    with pytest.raises(LedgerError, match="snapshot 2026-02") as refused:
        restore(place, bench.store, backup)
    assert "--older-is-fine" in refused.value.fix
    assert not (tmp_path / "empty").exists()
    done = restore(place, bench.store, backup, older_reason="the server burnt down")
    assert len(done.newer) == 1
    again = restored_bench(bench, place, bench.store)
    assert again.ledger.verify().ok
    line = again.ledger.history("clinic")[-1]
    assert (line.action, line.body["reason"]) == ("restored", "the server burnt down")
    again.buy("2026-01")
    for snapshot in ("2026-02", "2026-03"):  # what is stored was paid for, so the account stays closed
        with pytest.raises(LedgerError, match="does not know 1 measurement"):
            again.buy(snapshot)
    assert again.draws == []


def test_a_restored_ledger_goes_on_spending_where_nothing_newer_is_met(bench: Bench, tmp_path: Path) -> None:
    bench.buy("2026-01")
    backup = backed_up(bench, tmp_path)
    bench.buy("2026-02")
    place = Workspace(tmp_path / "home", f"sqlite:///{tmp_path}/empty/ledger.db")
    restore(place, bench.store, backup, older_reason="the server burnt down")
    again = restored_bench(bench, place, MeasurementStore(tmp_path / "other"))
    again.buy("2026-03")
    assert again.events == ["charged", "measured"]
    assert again.ledger.verify().ok


def manifest(account: str, head: str, mid: str) -> str:
    return json.dumps({"account": {"name": account, "history_head": head}, "guarantee": {"events": [{"mid": mid}]}})


@pytest.mark.parametrize("knows", ["a later line", "a later charge", "no more"])
def test_published_releases_that_know_more_outvote_a_backup(bench: Bench, tmp_path: Path, knows: str) -> None:
    bench.buy("2026-01")
    backup = backed_up(bench, tmp_path)
    head, mid = bench.ledger.balance("clinic").history_head, bench.request("2026-01").mid
    bench.buy("2026-02")
    release = tmp_path / "releases" / "visits" / "r1"
    release.mkdir(parents=True)
    later = bench.ledger.balance("clinic").history_head
    (release / "manifest.json").write_text(
        manifest(
            "clinic",
            later if knows == "a later line" else head,
            bench.request("2026-02").mid if knows == "a later charge" else mid,
        )
    )
    (tmp_path / "releases" / "manifest.json").write_text("[]")
    place, store = elsewhere(tmp_path)
    if knows == "no more":
        assert restore(place, store, backup, [str(tmp_path / "releases")]).ledger
        return
    with pytest.raises(LedgerError, match="published from a later history"):
        restore(place, store, backup, [str(tmp_path / "releases")])


def test_a_present_ledger_is_never_replaced(bench: Bench, tmp_path: Path) -> None:
    old = backed_up(bench, tmp_path, "old")
    bench.buy("2026-01")
    new = backed_up(bench, tmp_path)
    place, store = elsewhere(tmp_path)
    restore(place, store, old)
    with pytest.raises(LedgerError, match=r"lacks what the backup .* knows: 2 line"):
        restore(place, store, new)
    other, other_store = elsewhere(tmp_path, name="other")
    Ledger(other.ledger_url).open_account("clinic", Relation.ADD_REMOVE, UNIT, Budget("3", "1e-6"))
    with pytest.raises(LedgerError, match="another one"):
        restore(other, other_store, new)
    assert other_store.mids() == []


@pytest.mark.parametrize("change", ["ledger", "measurement", "facts", "key"])
def test_a_changed_backup_is_refused(bench: Bench, tmp_path: Path, change: str) -> None:
    (tmp_path / "home" / "keys").mkdir(parents=True)
    (tmp_path / "home" / "keys" / "release.pem").write_text("secret")
    empty = backed_up(bench, tmp_path, "empty")
    bench.buy("2026-01")
    backup = backed_up(bench, tmp_path)
    if change == "ledger":
        shutil.copy(empty / "ledger.db", backup / "ledger.db")
    elif change == "measurement":
        (backup / "measurements" / bench.store.mids()[0] / "arrays.parquet").write_bytes(b"x")
    elif change == "facts":
        (backup / "backup.json").write_text("{}")
    else:
        (backup / "keys" / "release.pem").write_text("another")
    place, store = elsewhere(tmp_path)
    with pytest.raises((LedgerError, SpecError)):
        restore(place, store, backup)
    assert not (place.home / "ledger.db").exists()


def test_a_ledger_that_does_not_verify_is_not_backed_up(bench: Bench, tmp_path: Path) -> None:
    bench.buy("2026-01")
    engine = create_engine(bench.url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE ledger_charges SET snapshot = '2020-01'")
    engine.dispose()
    with pytest.raises(LedgerError, match="does not verify"):
        backed_up(bench, tmp_path)


def test_keys_travel_with_their_modes_and_are_never_replaced(bench: Bench, tmp_path: Path) -> None:
    keys = tmp_path / "home" / "keys"
    (keys / "public").mkdir(parents=True)
    (keys / "release.pem").write_text("secret")
    (keys / "release.pem").chmod(0o600)
    (keys / "public" / "a.pem").write_text("public")
    backup = backed_up(bench, tmp_path)
    assert backup.stat().st_mode & 0o777 == 0o700
    place, store = elsewhere(tmp_path)
    assert restore(place, store, backup).keys == 2
    found = place.home / "keys" / "release.pem"
    assert (found.read_text(), found.stat().st_mode & 0o777) == ("secret", 0o600)
    found.write_text("another")
    with pytest.raises(LedgerError, match="another key"):
        restore(place, store, backup)
    assert found.read_text() == "another"


def test_backup_and_restore_by_command(home: Path, tmp_path: Path) -> None:
    def run(*words: object) -> tuple[int, str]:
        result = CliRunner().invoke(main, [str(word) for word in words])
        return result.exit_code, result.output

    code, said = run("ledger", "backup", tmp_path / "none")
    assert (code, home.exists()) == (2, False), said
    assert run("ledger", "open", "clinic", "--epsilon", "3", "--delta", "1e-6")[0] == 0
    assert run("ledger", "backup", tmp_path / "b") == (0, f"{tmp_path}/b: 1 accounts, 0 measurements, 0 key files; verified.\n")  # fmt: skip  # noqa: E501
    code, said = run("--home", tmp_path / "new", "ledger", "restore", tmp_path / "b")
    assert (code, "1 accounts; verified" in said) == (0, True), said
    code, said = run("--home", tmp_path / "new", "ledger", "restore", tmp_path / "b")
    assert (code, "stays as it is" in said) == (0, True), said
    assert "whole" in run("--home", tmp_path / "new", "ledger", "verify")[1]
    assert run("ledger", "restore", tmp_path / "b", "--older-is-fine")[0] == 2
    assert run("ledger", "restore", tmp_path)[0] == 2


def test_a_line_that_was_checked_before_the_ledger_was_lost_outvotes_a_backup(tmp_path: Path) -> None:
    place, store = elsewhere(tmp_path, name="home")
    ledger = Ledger(place.ledger_url)
    account = ledger.open_account("clinic", Relation.ADD_REMOVE, UNIT, Budget("3", "1e-6"))
    bench = Bench(place.ledger_url, ledger, store, account)
    bench.buy("2026-01")
    backup = backed_up(bench, tmp_path)
    bench.buy("2026-02")
    shutil.rmtree(store.root)  # all that still knows of the second charge is the line that was checked
    (place.home / "ledger.db").unlink()
    with pytest.raises(LedgerError, match="'clinic' was checked before the ledger was lost"):
        restore(place, store, backup)
    assert not (place.home / "ledger.db").exists()
    restore(place, store, backup, older_reason="the disk died")
    again = restored_bench(bench, place, store)
    again.buy("2026-03")
    assert again.events == ["charged", "measured"]
    assert [line.action for line in again.ledger.history("clinic")][-3:] == ["restored", "charged", "measured"]


def test_a_release_of_a_period_that_began_after_the_backup_outvotes_it(bench: Bench, tmp_path: Path) -> None:
    backup = backed_up(bench, tmp_path)
    release = tmp_path / "releases" / "visits" / "r1"
    release.mkdir(parents=True)
    period = bench.ledger.open_period_account("clinic", "monthly", "2026-10", Budget("1", "1e-6")).name
    head = bench.ledger.balance(period).history_head
    (release / "manifest.json").write_text(manifest(period, head, bench.request("2026-10").mid))
    place, store = elsewhere(tmp_path)
    with pytest.raises(LedgerError, match="published from a later history"):
        restore(place, store, backup, [str(tmp_path / "releases")])


def test_keys_made_by_command_are_in_the_backup_and_sign_after_it(home: Path, tmp_path: Path) -> None:
    def run(*words: object) -> str:
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.output

    run("ledger", "open", "clinic", "--epsilon", "3", "--delta", "1e-6")
    run("keys", "new")
    shown = run("keys", "show")
    assert "2 key files" in run("ledger", "backup", tmp_path / "b")
    assert "2 key files" in run("--home", tmp_path / "new", "ledger", "restore", tmp_path / "b")
    assert run("--home", tmp_path / "new", "keys", "show").replace(str(tmp_path / "new"), str(home)) == shown


@pytest.mark.parametrize(
    "facts",
    [
        "[" * 5000,
        json.dumps({"keys": {"../../../stolen.pem": "0"}}),
        json.dumps({"keys": {"/etc/stolen.pem": "0"}}),
        json.dumps({"heads": [1]}),
        json.dumps({"heads": {"clinic": 3}}),
    ],
)
def test_whatever_a_backup_says_of_itself_is_not_believed(bench: Bench, tmp_path: Path, facts: str) -> None:
    backup = backed_up(bench, tmp_path)
    told = json.loads((backup / "backup.json").read_text())
    (backup / "backup.json").write_text(facts if facts[0] == "[" else json.dumps(told | json.loads(facts)))
    place, store = elsewhere(tmp_path)
    with pytest.raises(SpecError, match="damaged"):
        restore(place, store, backup)
    assert not place.home.exists()


def test_a_pipe_in_place_of_the_facts_is_not_waited_for(bench: Bench, tmp_path: Path) -> None:
    backup = backed_up(bench, tmp_path)
    (backup / "backup.json").unlink()
    os.mkfifo(backup / "backup.json")
    with pytest.raises(SpecError, match="damaged"):
        restore(*elsewhere(tmp_path), backup)
