"""Ledgers of every schema that was ever released: opened, they are what a new ledger is, on both databases; and so are
backups that older programs made."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

from tests.postgres import new_database
from understudy.pipelines.privacy.ledger import schema as ledger_schema
from understudy.pipelines.privacy.ledger.database import Database
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.releasing.backing_up import restore
from understudy.pipelines.releasing.workspace import Workspace

DUMP = Path(__file__).with_name("old_ledger.sql")
NEWEST = len(ledger_schema.MIGRATIONS)


def ledger_of(version: int, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program of that schema would hold, had it begun with the first one's dump."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for statement in filter(str.strip, DUMP.read_text().split(";\n")):
            connection.exec_driver_sql(statement.strip())
    with monkeypatch.context() as older:
        older.setattr(ledger_schema, "MIGRATIONS", ledger_schema.MIGRATIONS[:version])
        Database(url)


def shape(url: str) -> dict[str, Any]:
    """Tables, columns with type and nullability, primary keys, and unique and other indexes."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        look = inspect(connection)
        return {
            name: (
                sorted((c["name"], str(c["type"]), c["nullable"]) for c in look.get_columns(name)),
                look.get_pk_constraint(name)["constrained_columns"],
                sorted(tuple(u["column_names"]) for u in look.get_unique_constraints(name)),
                sorted((i["name"] or "", tuple(i["column_names"])) for i in look.get_indexes(name)),
            )
            for name in sorted(look.get_table_names())
        }


def version_of(url: str) -> int:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return int(connection.execute(text("SELECT version FROM ledger_schema")).scalar_one())


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_a_ledger_of_any_schema_becomes_what_a_new_one_is(
    version: int, ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ledger").mkdir()
    ledger_of(version, ledger_url, monkeypatch)
    assert version_of(ledger_url) == version
    ledger = Ledger(ledger_url)
    assert version_of(ledger_url) == NEWEST
    assert (ledger.verify().problems, ledger.verify().accounts > 3, ledger.verify().charges > 10) == ((), True, True)
    fresh = f"sqlite:///{tmp_path}/fresh.db" if ledger_url.startswith("sqlite") else new_database()
    Ledger(fresh)
    assert shape(ledger_url) == shape(fresh)
    before = ledger.export()
    assert Ledger(ledger_url).export() == before


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_a_backup_of_any_schema_is_restored_and_stays_as_it_was(
    version: int, ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    ledger_of(version, f"sqlite:///{backup}/ledger.db", monkeypatch)
    with sqlite3.connect(backup / "ledger.db") as connection:
        heads = dict(connection.execute("SELECT name, history_head FROM ledger_accounts"))
        ledger_id = connection.execute("SELECT ledger_id FROM ledger_schema").fetchone()[0]
        measured = connection.execute("SELECT mid FROM ledger_charges WHERE state = 'MEASURED'").fetchall()
    connection.close()
    facts = {"format": "understudy-backup", "version": 1, "at": "2026-10-01", "ledger": ledger_id, "heads": heads}
    missing = {mid: "not in the dump" for (mid,) in measured}
    (backup / "backup.json").write_text(json.dumps({**facts, "measurements": 0, "keys": {}, "missing": missing}))
    before = (backup / "ledger.db").read_bytes()
    done = restore(Workspace(tmp_path / "new", ledger_url), MeasurementStore(tmp_path / "new"), backup)
    assert (done.ledger, done.newer) == (True, ())
    assert (backup / "ledger.db").read_bytes() == before
    restored = Ledger(ledger_url)
    assert (version_of(ledger_url), restored.id, restored.verify().problems) == (NEWEST, ledger_id, ())
