"""Measurements in the ledger's PostgreSQL: workers on several hosts share them without sharing a volume.

One row for a measurement, so one INSERT is the whole of `put`: committed with both files, or not there. The table is
beside the ledger's and none of them: it is made when first needed and has no part in the ledger's schema version. Each
of the two files may be up to 1 GB, PostgreSQL's limit for a value.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, LargeBinary, MetaData, Table, Text, delete, inspect, select, text
from sqlalchemy.dialects.postgresql import insert

from understudy.pipelines.errors import LedgerError, SpecError
from understudy.pipelines.privacy.ledger.database import Database
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.shelves import (
    JSON_NAME,
    PARQUET_NAME,
    StoreAway,
    already_there,
    is_mid,
    require_mid,
    unreadable,
)

measurements = Table(
    "understudy_measurements",
    MetaData(),
    Column("mid", Text, primary_key=True),
    Column("document", LargeBinary, nullable=False),
    Column("arrays", LargeBinary, nullable=False),
)
_COLUMNS = {JSON_NAME: measurements.c.document, PARQUET_NAME: measurements.c.arrays}
_LOCK = "SELECT pg_advisory_xact_lock(7103483)"
Result = TypeVar("Result")


class PostgresShelf:
    def __init__(self, url: str) -> None:
        self._database = Database(url)
        if self._database.is_sqlite:
            raise SpecError(
                "UNDERSTUDY_STORE=ledger keeps measurements in PostgreSQL, and the ledger is an SQLite file.",
                "Leave it out, or name a PostgreSQL ledger in UNDERSTUDY_LEDGER.",
            )

    @property
    def where(self) -> str:
        return f"{self._database.where} ({measurements.name})"

    def ready(self, probe: bytes) -> None:
        def work(connection: Connection) -> None:
            _make_table(connection)
            name = f"probe-{uuid.uuid4().hex}"
            connection.execute(insert(measurements).values(mid=name, document=b"", arrays=probe))
            connection.execute(delete(measurements).where(measurements.c.mid == name))

        try:
            self._database.write(work)
            return
        except LedgerError as error:
            problem = error.problem
        raise StoreAway(
            f"Measurements cannot be stored in {self.where}: {problem}",
            "Check that the database is up and lets its user create and write tables. Nothing was charged.",
        )

    def put(self, mid: str, document: bytes, arrays: bytes) -> None:
        row = {"mid": require_mid(mid), "document": document, "arrays": arrays}

        def work(connection: Connection) -> bool:
            _make_table(connection)
            connection.execute(insert(measurements).values(row).on_conflict_do_nothing())
            fault_point("measurement_staged")
            # This may be the second time, after an acknowledgement that was lost: what counts is what is there.
            return dict(connection.execute(_row(mid)).one()._mapping) == row

        if not self._database.write(work, patient=True):
            raise already_there(self.where, mid)

    def read(self, mid: str, name: str) -> bytes:
        query = select(_COLUMNS[name]).where(measurements.c.mid == require_mid(mid))
        found = self._ask(lambda connection: connection.execute(query).scalar_one_or_none(), None)
        if found is None:
            raise unreadable(f"{mid}/{name} in {self.where}", "it is not there")
        return bytes(found)

    def holds(self, mid: str) -> bool:
        query = select(measurements.c.mid).where(measurements.c.mid == require_mid(mid))
        return self._ask(lambda connection: connection.execute(query).scalar_one_or_none() is not None, False)

    def mids(self) -> list[str]:
        query = select(measurements.c.mid)
        return sorted(filter(is_mid, self._ask(lambda connection: list(connection.execute(query).scalars()), [])))

    def discard(self, mid: str) -> None:
        with suppress(LedgerError):  # its charge is burnt, so no release can use it
            self._database.write(
                lambda connection: (
                    _has_table(connection)
                    and connection.execute(delete(measurements).where(measurements.c.mid == require_mid(mid)))
                )
            )

    def _ask(self, work: Callable[[Connection], Result], nothing: Result) -> Result:
        """Where there is no table yet, there is nothing in it; a database that is away is another matter."""
        try:
            return self._database.read(lambda connection: work(connection) if _has_table(connection) else nothing)
        except LedgerError as error:
            problem, fix = error.problem, error.fix
        raise StoreAway(problem, fix)


def _row(mid: str) -> Any:
    return select(measurements).where(measurements.c.mid == mid)


def _has_table(connection: Connection) -> bool:
    return inspect(connection).has_table(measurements.name)


def _make_table(connection: Connection) -> None:
    if not _has_table(connection):  # asked first: a user who may only write rows needs no right to make tables
        connection.execute(text(_LOCK))
        measurements.create(connection, checkfirst=True)
