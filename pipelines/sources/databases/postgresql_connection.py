"""Connections to PostgreSQL as a source and a target share them: bounded waits, settled spelling, errors in words."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from understudy.pipelines.errors import SpecError, UnderstudyError
from understudy.pipelines.spec.address import Address, Terms, fingerprint

# What a value looks like as text must not depend on the server's or the role's defaults: rows are hashed as text.
SETTINGS = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "synchronize_seqscans": "off",
    "max_parallel_workers_per_gather": "0",
    "idle_in_transaction_session_timeout": "0",
}


DOING = "reading the table"
TERMS = Terms(table=True, hidden_in=frozenset({"env", "block"}))
_OPTIONS = frozenset({"host", "port", "sslmode", "sslrootcert", "connect_timeout", "application_name",
                      "channel_binding", "target_session_attrs", "gssencmode"})  # fmt: skip


def database_at(address: Address) -> Address:
    """The address, unless it sets what a spec may not decide."""
    if not address.hidden_in:
        unknown = [name for name, _ in parse_qsl(urlsplit(address.text).query) if name not in _OPTIONS]
        if unknown:
            raise SpecError(
                f"{address.key} has connection options that a spec may not set: {', '.join(sorted(unknown))[:200]}",
                f"allowed: {', '.join(sorted(_OPTIONS))}",
            )
    return address


def conninfo(database: Address) -> str:
    """What libpq is given, with whatever secret it needs. Never log, store or raise what this returns."""
    return re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", database.revealed())


def server_of(database: Address) -> str:
    """Which database this is, as the worker's environment fills the address in; empty where nobody can tell."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:  # then it cannot be read either, and `connected` says so
        return ""
    try:
        given = conninfo_to_dict(conninfo(database_at(database)))
    except (UnderstudyError, ProgrammingError):  # told when it is connected to, if it ever is
        return ""
    service = str(given.get("service") or os.environ.get("PGSERVICE") or "")
    host = str(given.get("host") or os.environ.get("PGHOST") or "")
    port = str(given.get("port") or os.environ.get("PGPORT") or "5432")
    user = str(given.get("user") or os.environ.get("PGUSER") or "")
    name = str(given.get("dbname") or os.environ.get("PGDATABASE") or user)
    place = f"{host.lower()}:{port}/{name}" + (f" service {service}" if service else "")
    return f"database postgresql {fingerprint(place) if database.hidden_in else place}"


@contextmanager
def connected(database: Address, error: type[UnderstudyError], doing: str) -> Iterator[Any]:
    """A psycopg connection. Whatever PostgreSQL says becomes an error without any value or address in it."""
    try:
        import psycopg
    except ImportError:
        raise error("the PostgreSQL driver is not installed", "pip install 'understudy[postgres]'") from None
    connection = None
    try:
        connection = open_connection(database)
        yield connection
    except psycopg.Error as problem:
        raise explained(problem, database, error, doing, connection is None) from None
    finally:
        if connection is not None:
            connection.close()


def open_connection(database: Address) -> Any:
    import psycopg

    return psycopg.connect(**settled(database))


def settled(database: Address) -> dict[str, Any]:
    """What libpq is given, as names and values. Never log, store or raise it."""
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(conninfo(database))
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    ours = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in SETTINGS.items())
    settings["options"] = f"{settings.get('options', '')} {ours}".strip()
    defaults: dict[str, Any] = {"connect_timeout": 20, "fallback_application_name": "understudy"}
    return defaults | settings | {"client_encoding": "utf8"}


def explained(
    problem: Exception, database: Address, error: type[UnderstudyError], doing: str, connecting: bool
) -> UnderstudyError:
    code = getattr(problem, "sqlstate", None)
    kind = f"{type(problem).__name__}{f', SQLSTATE {code}' if code else ''}"
    if connecting:
        return error(
            f"cannot connect to PostgreSQL at {database} ({kind})",
            "check that it is up and that the worker has the address and the credentials; see docs/platform.md",
        )
    if code == "42501":
        return error(f"{doing} at {database} is not permitted to this role", "grant what docs/platform.md lists")
    if code == "55P03":
        return error(
            f"{doing} at {database} had to wait too long for somebody who rewrites or alters it; nothing was spent",
            "run again when that (CLUSTER, VACUUM FULL, ALTER TABLE ...) is done",
        )
    return error(
        f"{doing} at {database} failed ({kind}); PostgreSQL's own message is withheld since it may quote values",
        "look at the server's log, then run again: nothing is spent twice",
    )


def located(connection: Any, table: str) -> tuple[str, str, str, int] | None:
    """Schema, name, kind and oid by the catalogue; `table` is `name`, on the search path, or `schema.name`."""
    found = connection.execute(
        "SELECT n.nspname, c.relname, c.relkind::text, c.oid::bigint FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f')"
        " AND ((pg_catalog.pg_table_is_visible(c.oid) AND c.relname = %(table)s)"
        "  OR n.nspname || '.' || c.relname = %(table)s)"
        " ORDER BY pg_catalog.pg_table_is_visible(c.oid) DESC LIMIT 1",
        {"table": table},
    ).fetchone()
    return tuple(found) if found else None


def python_encoding(name: str) -> str:
    """Python's name of a PostgreSQL encoding; UTF-8 for one that has none, or says nothing (SQL_ASCII)."""
    try:
        return codecs.lookup(name.replace("WIN", "cp")).name
    except LookupError:
        return "utf-8"
