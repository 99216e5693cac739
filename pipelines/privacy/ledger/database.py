"""Transactions on SQLite or PostgreSQL that are durable when they return, and errors in words.

Durability. SQLite: WAL with `synchronous=FULL`, writers take the lock at BEGIN IMMEDIATE. PostgreSQL: READ
COMMITTED with `synchronous_commit=on`; callers lock the account's row first, so writers of one account queue
and never deadlock.

Lost acknowledgements. A connection may break after COMMIT was sent, when nobody knows whether it took
effect. `write` then runs the work again on a new connection; every unit of work in `ledger` is written to
recognise its own earlier success, so running it twice does it once. If the database stays away the caller
gets a LedgerError and must not draw.

No connection outlives its transaction: nothing to leak across a fork, nothing stale after a failover.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, create_engine, event, literal_column
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from understudy.pipelines.errors import LedgerError, SpecError
from understudy.pipelines.privacy.ledger import schema as ledger_schema
from understudy.pipelines.privacy.ledger.migrating import migrate
from understudy.pipelines.privacy.ledger.schema import refuse_newer, schema_version

Result = TypeVar("Result")

_SQLITE_NOW = "((julianday('now') - 2440587.5) * 86400.0)"
_POSTGRES_NOW = "extract(epoch from clock_timestamp())::double precision"
_RETRY_PAUSE = 0.1


class Database:
    """`busy_seconds` bounds the wait for another writer, `patience_seconds` that for a server that went
    away."""

    def __init__(self, url: str, busy_seconds: float = 60.0, patience_seconds: float = 10.0) -> None:
        self._url = _checked_url(url)
        self._busy_seconds = busy_seconds
        self._patience_seconds = patience_seconds
        self.where = self._url.render_as_string(hide_password=True)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        if self.is_sqlite:
            _make_parents(self._url)
        self._engine = create_engine(self._url, poolclass=NullPool, connect_args=self._connect_arguments())
        if self.is_sqlite:
            event.listen(self._engine, "connect", self._prepare_sqlite)
            event.listen(self._engine, "begin", self._begin_sqlite)
        self._bring_up_to_date()

    @property
    def beside(self) -> Path | None:
        """Where SQLite's file has room for what is remembered about it; a server's database has no such place."""
        return beside(self._url)

    @property
    def now(self) -> ColumnElement[float]:
        """Seconds by the database's clock, the one clock all holders share."""
        return literal_column(_SQLITE_NOW if self.is_sqlite else _POSTGRES_NOW)

    def read(self, work: Callable[[Connection], Result]) -> Result:
        return self._run(work, writing=False, patient=False)

    def write(self, work: Callable[[Connection], Result], patient: bool = False) -> Result:
        """Commit `work` or raise. `patient` also waits for a server that cannot be reached at all."""
        return self._run(work, writing=True, patient=patient)

    def _run(self, work: Callable[[Connection], Result], writing: bool, patient: bool) -> Result:
        deadline = time.monotonic() + self._patience_seconds
        collided = False
        while True:
            connected = False
            try:
                with self._engine.connect() as connection:
                    connected = True
                    if writing or self.is_sqlite:
                        connection.execution_options(understudy_writing=writing)
                    else:
                        # One snapshot for all statements of a read, as SQLite gives by itself.
                        connection.execution_options(isolation_level="REPEATABLE READ")
                    with connection.begin():
                        result = work(connection)
                return result
            except IntegrityError as error:
                if collided:
                    raise self._explained(error) from error
                collided = True  # another writer was first: run again, and the work finds what that one wrote
            except DBAPIError as error:
                lost = error.connection_invalidated if connected else patient
                if not lost or time.monotonic() > deadline:
                    raise self._explained(error) from error
                patient = True  # it was there a moment ago
            except SQLAlchemyError as error:
                raise self._explained(error) from error
            time.sleep(_RETRY_PAUSE)

    def _bring_up_to_date(self) -> None:
        found = self.read(schema_version)
        refuse_newer(found)
        if found < len(ledger_schema.MIGRATIONS):
            self.write(migrate)

    def _connect_arguments(self) -> dict[str, Any]:
        if self.is_sqlite:
            return {"timeout": self._busy_seconds}
        milliseconds = int(self._busy_seconds * 1000)
        return {
            "connect_timeout": 10,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
            # A server may default to asynchronous commit; an acknowledged charge must survive its crash.
            # A client that vanished inside T1 must not keep the account locked.
            "options": f"{self._url.query.get('options', '')} -c synchronous_commit=on"
            f" -c lock_timeout={milliseconds} -c idle_in_transaction_session_timeout=300000"
            " -c default_transaction_isolation=read\\ committed",
        }

    def _prepare_sqlite(self, connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not open transactions of its own
        cursor = connection.cursor()
        try:
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.execute("PRAGMA foreign_keys=ON")
            if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                cursor.execute("PRAGMA journal_mode=WAL")
        finally:
            cursor.close()

    def _begin_sqlite(self, connection: Connection) -> None:
        if not connection.get_execution_options().get("understudy_writing", False):
            connection.exec_driver_sql("BEGIN")
            return
        # SQLite's own waiting backs off to naps of 100 ms, so that under load the longest waiter is the least
        # likely to be awake when the lock comes free. Short waits begun anew give every writer a chance.
        deadline = time.monotonic() + self._busy_seconds
        cursor = connection.connection.cursor()
        try:
            cursor.execute("PRAGMA busy_timeout=10")
            while True:
                try:
                    cursor.execute("BEGIN IMMEDIATE")
                    break
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise OperationalError("BEGIN IMMEDIATE", {}, error) from error
            cursor.execute(f"PRAGMA busy_timeout={int(self._busy_seconds * 1000)}")
        finally:
            cursor.close()

    def _explained(self, error: SQLAlchemyError) -> LedgerError:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()
        detail = cause[0] if cause else type(error).__name__
        if "locked" in detail or "lock timeout" in detail:
            return LedgerError(
                f"The ledger {self.where} is locked: another process kept it busy for {self._busy_seconds:g} s.",
                "Wait for the other run, or find the process that holds the database open, and run again.",
            )
        if "not a database" in detail or "malformed" in detail:
            return LedgerError(
                f"{self.where} is not a usable ledger ({detail}).",
                "Restore it from a backup. Do not start a new ledger in its place: past spending would be forgotten.",
            )
        return LedgerError(
            f"The ledger {self.where} cannot be used: {detail}.",
            "Check the URL and that the database is up and writable, then run again: a retry finds "
            "every charge already made.",
        )


def beside(url: URL | str) -> Path | None:
    parsed = make_url(url)
    return Path(f"{parsed.database}.checked") if parsed.get_backend_name() == "sqlite" else None


def _checked_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise SpecError(
            "The ledger URL is neither SQLite nor PostgreSQL.",
            "Use sqlite:///path/to/ledger.db or postgresql+psycopg://user@host/database.",
        )
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise SpecError("A ledger in memory would forget what was spent.", "Use sqlite:///path/to/ledger.db.")
        return parsed
    return parsed.set(drivername="postgresql+psycopg")


def _make_parents(url: URL) -> None:
    assert url.database is not None
    try:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"The ledger's directory cannot be made: {error.strerror}: {Path(url.database).parent}.",
            "Name a path you may write to.",
        ) from error
