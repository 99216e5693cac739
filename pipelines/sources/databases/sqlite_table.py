"""A table or view of a SQLite file: `sqlite:///file.db`, read and counted in one read transaction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.databases.sqlalchemy_table import SqlTable
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec


@dataclass(frozen=True)
class SqliteSource(SqlTable):
    path: Path
    table: str

    terms = Terms(table=True, local=True)

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> SqliteSource:
        path = source.address.path(base)
        assert path is not None
        assert source.table is not None
        return cls(path, source.table)

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        path = address.path(base)
        return "" if path is None else f"database {path.resolve()}"

    @property
    def told(self) -> str:
        return str(self.path)

    def url(self) -> sa.URL:
        if not self.path.is_file():  # which SQLite would make
            raise SourceError(f"there is no database {self.path}", "check source.uri; relative paths start at the spec")
        return sa.URL.create("sqlite", database=str(self.path))
