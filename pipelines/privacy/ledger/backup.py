"""A copy of a ledger and of what its charges bought, taken while releases run, and put back.

Consistency. The ledger is copied first, as of one moment: SQLite by its online backup in one step, PostgreSQL by one
REPEATABLE READ snapshot. T2 comes after the measurement is stored and MEASURED is final, so every measurement that the
copy calls MEASURED is in the store and stays there; exactly those are copied afterwards, with every hash checked. A
charge that is in flight is copied as CHARGED: a ledger restored from the copy never draws it again, it is recovered
from the store or burnt.

The copy is an SQLite file whatever the ledger is, so that each command reads it and a backup of one database can be
restored into the other.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, text
from sqlalchemy.engine import make_url

from understudy.pipelines.errors import LedgerError, SpecError
from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger.database import Database
from understudy.pipelines.privacy.ledger.records import State
from understudy.pipelines.privacy.ledger.schema import accounts, charges, metadata, schema
from understudy.pipelines.privacy.ledger.staging import flush
from understudy.pipelines.privacy.ledger.store import MeasurementStore

LEDGER_NAME = "ledger.db"
_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class Contents:
    """A ledger as of one moment. `lines` are the hashes of each account's history, oldest first."""

    ledger: str
    lines: dict[str, tuple[str, ...]]
    states: dict[str, str]
    measured: dict[str, str]

    def lacks(self, other: Contents) -> dict[str, int]:
        """For each account, how many lines the other's history has from the first one on that this one lacks."""
        missing = {}
        for account, lines in other.lines.items():
            mine = self.lines.get(account, ())
            same = next((i for i, (a, b) in enumerate(zip(mine, lines, strict=False)) if a != b), len(mine))
            if same < len(lines):
                missing[account] = len(lines) - same
        return missing


def exists(url: str) -> bool:
    """Whether there is a ledger: opening an SQLite address would make one."""
    parsed = make_url(url)
    return parsed.get_backend_name() != "sqlite" or Path(parsed.database or "").exists()


def contents(url: str) -> Contents:
    return Database(url).read(_contents)


def _contents(connection: Connection) -> Contents:
    lines: dict[str, list[str]] = {name: [] for name in connection.execute(select(accounts.c.name)).scalars()}
    for line in ledger_history.entries(connection):
        lines.setdefault(line.account, []).append(line.hash)
    found = list(connection.execute(select(charges.c.mid, charges.c.state, charges.c.measurement_sha256)))
    return Contents(
        str(connection.execute(select(schema.c.ledger_id)).scalar_one()),
        {name: tuple(hashes) for name, hashes in lines.items()},
        {row.mid: row.state for row in found},
        {row.mid: row.measurement_sha256 for row in found if row.state == State.MEASURED.value},
    )


def copy_ledger(url: str, into: Path) -> Contents:
    """The ledger as of one moment in `into`/ledger.db, verified; what it holds."""
    source, file = Database(url), into / LEDGER_NAME
    if source.is_sqlite:
        source.read(lambda connection: _copy_pages(connection, file))
        copy = Database(f"sqlite:///{file}")
    else:
        copy = Database(f"sqlite:///{file}")
        source.read(lambda connection: copy.write(lambda fresh: _copy_rows(connection, fresh)))
    _require_verified(copy.read(ledger_history.verify).problems, source.where)
    found = copy.read(_contents)
    _settle(file)
    return found


def put_ledger(copy: Path, url: str, reason: str = "") -> None:
    """Everything in one transaction into a ledger without accounts, verified before it is committed.

    `reason` is sealed into the history of every account: the copy is older than something that is known elsewhere.
    """
    source, target = Database(f"sqlite:///{copy}"), Database(url)
    wanted = source.read(_contents)

    def work(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text("LOCK TABLE ledger_accounts IN EXCLUSIVE MODE"))
        if connection.execute(select(func.count()).select_from(accounts)).scalar_one():
            present = _contents(connection)
            if present.ledger == wanted.ledger and not present.lacks(wanted):
                return  # this very work, whose acknowledgement was lost
            raise SpecError(
                f"The ledger {target.where} has accounts; a backup is restored into an empty one.",
                "Move it away, or name another place in UNDERSTUDY_LEDGER.",
            )
        source.read(lambda old: _copy_rows(old, connection))
        if reason:
            for name in sorted(wanted.lines):
                body = {"reason": reason, "lines": len(wanted.lines[name])}
                ledger_history.append(connection, name, ledger_history.RESTORED, "", body)
        _require_verified(ledger_history.verify(connection).problems, str(copy))

    target.write(work)


def copy_measurements(found: Contents, source: MeasurementStore, into: MeasurementStore) -> tuple[int, dict[str, str]]:
    """What the ledger calls MEASURED: how many were copied, and why each of the others could not be."""
    copied, failed = 0, dict[str, str]()
    for mid, sha256 in found.measured.items():
        try:
            copied += source.copy_to(into, mid, sha256)
        except LedgerError as error:
            failed[mid] = error.problem
    return copied, failed


def _copy_pages(connection: Connection, file: Path) -> None:
    original: Any = connection.connection.driver_connection
    fresh = sqlite3.connect(file)
    try:
        original.backup(fresh, pages=-1)
        return
    except sqlite3.Error as error:
        problem = str(error)
    finally:
        fresh.close()
    raise LedgerError(
        f"The ledger cannot be copied to {file.parent}: {problem}.", "Make room or name another directory."
    )


def _copy_rows(source: Connection, target: Connection) -> None:
    target.execute(delete(schema))  # a fresh ledger has an id of its own
    for table in metadata.sorted_tables:
        for part in source.execute(select(table)).mappings().partitions(_ROWS_AT_ONCE):
            target.execute(insert(table), [dict(row) for row in part])


def _settle(file: Path) -> None:
    """One file, readable from a read-only disk, and on the disk."""
    connection = sqlite3.connect(file)
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
    finally:
        connection.close()
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
    flush(file.parent)


def _require_verified(problems: tuple[str, ...], where: str) -> None:
    if problems:
        raise LedgerError(
            f"The ledger {where} does not verify ({len(problems)} problems, the first: {problems[0]}); "
            "nothing was copied.",
            "See `understudy ledger verify`; restore an earlier backup that verifies.",
        )
