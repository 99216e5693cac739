from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from decimal import Decimal

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

from understudy.pipelines.errors import LedgerError, SpecError
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.filters import GaussianFilter, RenyiFilter
from understudy.pipelines.privacy.ledger import rows as ledger_rows
from understudy.pipelines.privacy.ledger import schema as ledger_schema
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.relation import Budget, Relation, Unit


def test_an_account_opened_again_with_the_same_terms_is_the_same_account(bench):
    again = bench.ledger.open_account("clinic", Relation.ADD_REMOVE, Unit("patient", 5), Budget("3", "1e-6"))
    assert again == bench.account == bench.ledger.account("clinic")
    assert [entry.action for entry in bench.ledger.history("clinic")] == ["opened"]


def test_a_key_that_signs_is_sealed_once(bench):
    for key in ("one", "two", "one"):
        bench.ledger.record_key("clinic", f"id of {key}", key)
    assert [entry.action for entry in bench.ledger.history("clinic")] == ["opened", "key", "key"]
    assert [public for _, public in bench.ledger.keys("clinic")] == ["one", "two"]


def test_two_who_open_the_same_account_at_once_both_get_it(bench, monkeypatch):
    both, insert, opened = threading.Barrier(2), ledger_rows.insert_account, []

    def insert_together(connection, account, reason, who):
        with suppress(threading.BrokenBarrierError):  # SQLite lets only one in at a time
            both.wait(0.5)
        insert(connection, account, reason, who)

    monkeypatch.setattr(ledger_rows, "insert_account", insert_together)

    def open_account():
        opened.append(bench.ledger.open_account("new", Relation.ADD_REMOVE, Unit(), Budget("1", "1e-6")))

    threads = [threading.Thread(target=open_account) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == [bench.ledger.account("new")] * 2
    assert bench.ledger.verify().ok


@pytest.mark.parametrize(
    "terms",
    [
        (Relation.REPLACE_ONE, Unit("patient", 5), Budget("3", "1e-6")),
        (Relation.ADD_REMOVE, Unit("patient", 6), Budget("3", "1e-6")),
        (Relation.ADD_REMOVE, Unit("patient", 5), Budget("3.1", "1e-6")),
        (Relation.ADD_REMOVE, Unit("patient", 5), Budget("3", "1e-6"), RenyiFilter(8.0)),
        (Relation.ADD_REMOVE, Unit("patient", 5), Budget("3", "1e-6"), GaussianFilter(Decimal("1e-7"))),
    ],
)
def test_other_terms_for_an_open_account_are_refused(bench, terms):
    with pytest.raises(SpecError, match="already open") as refused:
        bench.ledger.open_account("clinic", *terms[:3], filter=terms[3] if terms[3:] else None)
    assert "ledger cap" in refused.value.fix
    assert bench.ledger.account("clinic") == bench.account


def test_an_unknown_account_names_the_known_ones_and_the_command(bench):
    with pytest.raises(SpecError, match="clinic") as refused:
        bench.ledger.balance("clinik")
    assert "understudy ledger open clinik" in refused.value.fix


def test_a_cap_changes_only_with_a_reason_which_is_recorded(bench):
    with pytest.raises(SpecError, match="reason"):
        bench.ledger.change_cap("clinic", Budget("4", "1e-6"), " ")
    bench.ledger.change_cap("clinic", Budget("4", "1e-6"), "board decision 12")
    bench.ledger.change_cap("clinic", Budget("4", "1e-6"), "the same again changes nothing")
    assert bench.ledger.account("clinic").cap == Budget("4", "1e-6")
    *_, last = bench.ledger.history("clinic")
    assert (last.action, last.body["reason"], last.body["was"]["epsilon"]) == (
        "cap_changed",
        "board decision 12",
        "3",
    )
    assert len(bench.ledger.history("clinic")) == 2
    assert bench.ledger.verify().ok


def test_a_cap_below_what_is_spent_closes_the_account_and_stays_verifiable(bench):
    bench.buy()
    bench.ledger.change_cap("clinic", Budget("0.1", "1e-6"), "project ended")
    balance = bench.ledger.balance("clinic")
    assert (balance.left, balance.remaining(Gaussian(1000.0))) == (Decimal(0), 0)
    assert bench.ledger.verify().ok


def test_the_tables_have_the_columns_the_program_uses(bench):
    engine = create_engine(bench.ledger._database._url, poolclass=NullPool)
    found = inspect(engine)
    for table in ledger_schema.metadata.tables.values():
        assert {c["name"] for c in found.get_columns(table.name)} == set(table.columns.keys())
    assert found.get_pk_constraint("ledger_charges")["constrained_columns"] == ["mid"]
    assert found.get_unique_constraints("ledger_charges")[0]["column_names"] == [
        "account", "spec_hash", "snapshot", "stage", "attempt",
    ]  # fmt: skip


def test_an_older_schema_is_migrated_and_keeps_what_it_held(bench, monkeypatch):
    bench.buy()
    added = (("ALTER TABLE ledger_accounts ADD COLUMN note TEXT",),)
    monkeypatch.setattr(ledger_schema, "MIGRATIONS", ledger_schema.MIGRATIONS + added)
    reopened = Ledger(bench.url)
    assert reopened.balance("clinic").charges == 1
    assert reopened.id == bench.ledger.id
    engine = create_engine(reopened._database._url, poolclass=NullPool)
    assert "note" in {c["name"] for c in inspect(engine).get_columns("ledger_accounts")}


def test_a_newer_schema_is_refused(bench):
    bench.ledger._database.write(lambda connection: connection.execute(text("UPDATE ledger_schema SET version = 99")))
    with pytest.raises(LedgerError, match="version 99") as refused:
        Ledger(bench.url)
    assert "Upgrade" in refused.value.fix


def test_sqlite_is_durable_on_every_connection(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/a/b/ledger.db")
    pragma = ledger._database.read(
        lambda c: [c.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    )
    assert pragma == ["wal", 2]


@pytest.mark.parametrize(
    "url", ["mysql://somewhere/x", "nonsense", "sqlite://", "sqlite:///:memory:", "postgres://u:secret@h/x"]
)
def test_urls_that_cannot_be_a_ledger(url):
    with pytest.raises(SpecError) as refused:
        Ledger(url)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "ledger.db"
    path.write_bytes(b"these are somebody's notes, not a ledger" * 100)
    with pytest.raises(LedgerError, match="not a usable ledger") as refused:
        Ledger(f"sqlite:///{path}")
    assert "backup" in refused.value.fix
    assert path.read_bytes().startswith(b"these are")


def test_an_unreachable_server_is_one_clear_message_without_the_password():
    with pytest.raises(LedgerError, match="cannot be used") as refused:
        Ledger("postgresql+psycopg://user:hunter2@127.0.0.1:9/ledger")
    assert "hunter2" not in str(refused.value)


def test_a_path_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="directory cannot be made"):
        Ledger(f"sqlite:///{tmp_path}/file/ledger.db")
    with pytest.raises(LedgerError, match="unable to open"):
        Ledger(f"sqlite:///{tmp_path}")


def test_a_locked_database_says_so(tmp_path):
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = Ledger(url, busy_seconds=0.2)
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(LedgerError, match="locked"):
            ledger.open_account("a", Relation.ADD_REMOVE, Unit(), Budget("1", "1e-6"))
    finally:
        other.close()
    ledger.open_account("a", Relation.ADD_REMOVE, Unit(), Budget("1", "1e-6"))
