"""A source seen as the columns that are modelled: datetimes by their parts, moments by how long after others.

It wraps any source and is a source like any other; where the source has parts, each is taken apart where it is read, in
whichever process. Databases are not asked to count: they hold no such columns. What one row becomes depends on that row
alone (`table.modelled`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.modelled import modelled, names_to_read


@dataclass(frozen=True)
class ModelledPart:
    part: Part
    domain: TableDomain

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        for batch in self.part.read(names_to_read(columns, self.domain), batch_rows):
            yield modelled(batch, self.domain, columns)


@dataclass(frozen=True)
class ModelledSource:
    source: Source
    domain: TableDomain

    def schema(self) -> pa.Schema:
        return self.source.schema()

    def parts(self) -> Sequence[ModelledPart] | None:
        parts = self.source.parts()
        return None if parts is None else [ModelledPart(part, self.domain) for part in parts]

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        return ModelledPart(self.source, self.domain).read(columns, batch_rows)

    def counter(self) -> None:
        return None

    def snapshot_id(self) -> str | None:
        return self.source.snapshot_id()

    def row_estimate(self) -> int | None:
        return self.source.row_estimate()

    def close(self) -> None:
        self.source.close()


def as_modelled(source: Source, domain: TableDomain) -> Source:
    """The source itself, where every column is modelled as it stands."""
    return source if domain.as_modelled else ModelledSource(source, domain)
