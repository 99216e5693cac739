"""A warehouse in PostgreSQL: a schema of its own, and its address without a secret."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.postgres import new_database


@dataclass(frozen=True)
class Warehouse:
    """`uri` is what a spec may say; `schema` holds everything a test makes."""

    url: str
    schema: str
    uri: str

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True)

    def execute(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(query.encode()).fetchall()


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    url = new_database()
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    schema = query["options"][0].partition("=")[2]
    made = Warehouse(url, schema, f"postgresql://{parts.username}@{parts.path}?host={query['host'][0]}")
    yield made
    # Sources that a fixture or a traceback still holds keep their tables locked.
    made.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'understudy'")
    made.execute(f"DROP SCHEMA {schema} CASCADE")
