"""One transaction in which every read of a source sees the same state of the table, until the source is closed.

SQLite: a read transaction; in WAL mode writers go on beside it, otherwise they wait until it ends. PostgreSQL:
REPEATABLE READ. MariaDB and MySQL: a consistent snapshot, which InnoDB keeps; the first look locks the table's
definition, so ALTER and TRUNCATE wait. Tables of other engines there, and views, which may stand on such, have no state
that can be named.
"""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import sqlalchemy as sa

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.databases.sqlalchemy_values import prepared

HELD = frozenset({"sqlite", "postgresql", "mysql"})


class HeldTransaction:
    def __init__(self, engine: sa.Engine, table: sa.Table) -> None:
        self._table = table
        self._busy = threading.Lock()
        connection = engine.connect()
        self.close = weakref.finalize(self, _end, connection)
        try:
            self._encoding = self._begun(connection)
            connection.execute(sa.select(sa.text("1")).select_from(table).limit(1)).all()
            self.name = str(uuid.uuid4()) if self._is_transactional(connection) else None
        except BaseException:
            self.close()
            raise
        self._connection = connection

    @property
    def alive(self) -> bool:
        return self.close.alive

    @contextmanager
    def in_use(self) -> Iterator[tuple[sa.Connection, str]]:
        """The connection, which one reader has at a time: it carries one stream of rows."""
        if not self._busy.acquire(blocking=False):
            raise SourceError("the table is being read already", "read it in one pass after the other")
        try:
            yield self._connection, self._encoding
        finally:
            self._busy.release()

    def _begun(self, connection: sa.Connection) -> str:
        match connection.dialect.name:
            case "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                return prepared(connection)
            case "sqlite":
                encoding = prepared(connection)
                connection.exec_driver_sql("BEGIN")
                connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").all()
                return encoding
        encoding = prepared(connection)
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return encoding

    def _is_transactional(self, connection: sa.Connection) -> bool:
        if connection.dialect.name not in ("mysql", "mariadb"):
            return True
        engine = connection.execute(
            sa.text(
                "SELECT engine FROM information_schema.tables WHERE table_name = :name"
                " AND table_schema = COALESCE(:schema, DATABASE())"
            ),
            {"name": self._table.name, "schema": self._table.schema},
        ).scalar()
        return str(engine).lower() == "innodb"


def _end(connection: sa.Connection) -> None:
    with suppress(Exception):  # the server may have ended it already
        connection.invalidate()  # a stream that was not read to its end is not read now
    with suppress(Exception):
        connection.close()
