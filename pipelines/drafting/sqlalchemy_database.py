"""What any database says about a table through SQLAlchemy's inspector: MySQL, MariaDB, SQLite and the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from understudy.pipelines.drafting.conditions import with_checks
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts, only_key, with_values
from understudy.pipelines.drafting.sql_types import typed
from understudy.pipelines.errors import SourceError, SpecError, UnderstudyError

_DIALECTS = {"mysql": "mysql", "mariadb": "mysql", "sqlite": "sqlite", "postgresql": "postgres", "mssql": "tsql"}


def sqlalchemy_facts(variable: str, table: str | None, address: str | None = None) -> TableFacts:
    """`variable` is where the worker will find the address; `address` is given where it is not set yet."""
    url = address or os.environ.get(variable, "").strip()
    if not url:
        raise SourceError(f"the environment variable {variable} is not set here", "set it to a SQLAlchemy URL")
    try:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        facts = _inspected(engine, table)
    except UnderstudyError:
        raise
    except ImportError as error:
        missing = getattr(error, "name", None) or "that the address names"
        raise SourceError(f"the driver {missing} is not installed", "pip install it") from None
    except Exception as error:  # a driver may raise anything, and quote the address in it
        kind = type(error).__name__
    else:
        return replace(facts, uri=f"sql+env://{variable}")
    raise SourceError(f"the catalogue behind {variable} cannot be read ({kind})", "check the address and the rights")


def _inspected(engine: sa.Engine, table: str | None) -> TableFacts:
    inspector = sa.inspect(engine)
    if table is None:
        names = sorted([*inspector.get_table_names(), *inspector.get_view_names()])
        if len(names) != 1:
            listed = ", ".join(names[:20]) or "none"
            raise SpecError(f"which table of the database is meant? it has: {listed}", "name one as --table")
        table = names[0]
    schema, _, name = table.rpartition(".")
    asked: dict[str, Any] = {"table_name": name, "schema": schema or None}
    if not inspector.has_table(name, schema=schema or None):
        raise SpecError(f"the database has no table or view {table!r}", "correct --table (name or schema.name)")
    dialect = _DIALECTS.get(engine.dialect.name, "")
    columns = [_column(described, engine.dialect, dialect) for described in inspector.get_columns(**asked)]
    columns = _with_keys(columns, inspector, asked)
    comment = _if_known(lambda: inspector.get_table_comment(**asked)["text"]) or ""
    checks = [
        *(
            (check.get("name") or "", check["sqltext"])
            for check in _if_known(lambda: inspector.get_check_constraints(**asked)) or ()
        ),
        *_mariadb_checks(engine, name, schema),
    ]
    origin = f"the {engine.dialect.name} catalogue of {table}"
    return with_checks(TableFacts(tuple(columns), origin, "", table, comment), checks, dialect)


def _mariadb_checks(engine: sa.Engine, table: str, schema: str) -> list[tuple[str, str]]:
    """MariaDB keeps the CHECK of a column with the column, where SQLAlchemy does not look."""
    if not getattr(engine.dialect, "is_mariadb", False):
        return []
    asked = "SELECT constraint_name, check_clause FROM information_schema.check_constraints WHERE level = 'Column'"
    with engine.connect() as connection:
        found = connection.execute(
            sa.text(f"{asked} AND table_name = :table AND constraint_schema = COALESCE(:schema, DATABASE())"),
            {"table": table, "schema": schema or None},
        )
        return [(str(name), str(clause)) for name, clause in found]


def _column(described: Any, dialect: sa.Dialect, sql: str) -> ColumnFacts:
    type_ = described["type"]
    column = ColumnFacts(
        str(described["name"]), nullable=bool(described.get("nullable", True)), comment=described.get("comment") or ""
    )
    if isinstance(type_, sa.Enum):
        return with_values(replace(column, kind="text", type_name="enum"), type_.enums, "its enum", enforced=True)
    try:
        spelled = type_.compile(dialect=dialect)
    except sa.exc.CompileError:
        return replace(column, kind="other", type_name=type(type_).__name__)
    return typed(column, spelled.partition(" COLLATE")[0].partition(" CHARACTER SET")[0], sql)


def _with_keys(columns: list[ColumnFacts], inspector: sa.Inspector, asked: dict[str, Any]) -> list[ColumnFacts]:
    primary = _if_known(lambda: inspector.get_pk_constraint(**asked)["constrained_columns"]) or []
    unique = _if_known(lambda: inspector.get_unique_constraints(**asked)) or []
    foreign = _if_known(lambda: inspector.get_foreign_keys(**asked)) or []
    alone = {names[0] for names in [primary, *(key["column_names"] for key in unique)] if len(names) == 1}
    refers = {
        key["constrained_columns"][0]: str(key["referred_table"])
        for key in foreign
        if len(key["constrained_columns"]) == 1
    }
    return [
        replace(
            column,
            primary=only_key(primary, column.name),
            unique=column.name in alone,
            references=refers.get(column.name, ""),
        )
        for column in columns
    ]


def _if_known(ask: Callable[[], Any]) -> Any:
    """Not every dialect answers everything, and views have no constraints."""
    with suppress(NotImplementedError, sa.exc.SQLAlchemyError):
        return ask()
    return None
