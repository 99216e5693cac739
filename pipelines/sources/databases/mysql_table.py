"""A table or view of MariaDB or MySQL: `mysql://user@host/database`, streamed by a server-side cursor (extra `mysql`).

Everything but whole numbers and floats comes as text, moments of type TIMESTAMP in UTC; counts are made in the engine
where it can. All of it in one consistent snapshot (`sqlalchemy_held`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from understudy.pipelines.sources.databases.mysql_connection import TERMS, server_of, url_of
from understudy.pipelines.sources.databases.sqlalchemy_table import SqlTable
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec


@dataclass(frozen=True)
class MySqlSource(SqlTable):
    database: Address
    table: str

    terms = TERMS

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> MySqlSource:
        assert source.table is not None
        return cls(source.address, source.table)

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        return server_of(address)

    @property
    def told(self) -> str:
        return str(self.database)

    def url(self) -> sa.URL:
        return url_of(self.database)
