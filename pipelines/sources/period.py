"""The rows of one period: what `rolling.column` selects, before anything else sees a row.

Guarantee. A row is of a period if the value of its own period column lies between the first and the last day of it,
both included, moments with a zone taken in UTC; a value that cannot be read lies in no period. That is decided for each
row by itself, by the very reader that codes date columns, so no row is of two periods and none decides about another.
The selection comes before contribution bounding: at most k rows an entity *of the period* are kept.

It wraps any source. Where a source has parts, each part is filtered where it is read, in whichever process. Where it is
one stream, the stream is asked for without its own bounding, filtered, and bounded here. Databases are therefore not
asked to count: they would count rows of other periods.

Theorem, relation, sensitivity, noise unit, reference. This is what parallel composition of periods rests on where units
are rows: docs/proofs/periods.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source, read_parts
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.periods import Period
from understudy.pipelines.table.coding.encode import encode_column, readable
from understudy.pipelines.table.domain import MICROSECONDS_A_DAY, DomainColumn

_SINGLE_ROWS = Unit(None, 1)
_EPOCH = dt.date(1970, 1, 1).toordinal()
_WITHIN = 1


@runtime_checkable
class ReadAtOnce(Protocol):
    """A source that reads a table in one go, from one state of it, and can then be read again without asking it."""

    def at_once(self, columns: Sequence[str]) -> Source: ...


@dataclass(frozen=True)
class PeriodPart:
    """The rows of a part that are of the period."""

    part: Part
    column: str
    period: Period

    def read(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        for batch in self.part.read(_with(columns, self.column), batch_rows):
            yield rows_within(batch, columns, self.column, self.period)


@dataclass(frozen=True)
class _Unbounded:
    """A source that is one stream, as a part: every row, none chosen by entity."""

    source: Source
    key: bytes

    def read(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        return self.source.batches(columns, _SINGLE_ROWS, self.key, batch_rows)


@dataclass(frozen=True)
class PeriodSource:
    """The rows of a source that are of the period; a source like any other."""

    source: Source
    column: str
    period: Period

    def schema(self) -> pa.Schema:
        schema = self.source.schema()
        found = schema.get_all_field_indices(self.column)
        if len(found) != 1:
            many = "no column" if not found else f"{len(found)} columns"
            raise SpecError(f"the table has {many} {self.column!r}, which rolling.column names", "correct the spec")
        if not readable(schema.field(found[0]).type, "datetime"):
            raise SpecError(f"the column {self.column!r}, which rolling.column names, holds no dates", "name another")
        return schema

    def parts(self) -> Sequence[PeriodPart] | None:
        parts = self.source.parts()
        return None if parts is None else [PeriodPart(part, self.column, self.period) for part in parts]

    def batches(
        self, columns: Sequence[str], unit: Unit, key: bytes, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        parts = self.parts()
        if parts is None:
            whole = PeriodPart(_Unbounded(self._readable_twice(columns, unit), key), self.column, self.period)
            parts = [whole]
        return read_parts(parts, columns, unit, key, batch_rows, self.row_estimate())

    def row_estimate(self) -> int | None:
        """Of all periods together: no more is known without reading."""
        return self.source.row_estimate()

    def _readable_twice(self, columns: Sequence[str], unit: Unit) -> Source:
        if not isinstance(self.source, ReadAtOnce):
            return self.source
        return self.source.at_once(_with(_with(columns, unit.entity), self.column))


def of_period(source: Source, spec: ReleaseSpec) -> Source:
    """The rows that a release may read: all of them, unless `rolling.column` says which are its period's."""
    if spec.rolling is None or spec.rolling.column is None:
        return source
    assert spec.period is not None
    return PeriodSource(source, spec.rolling.column, spec.period)


def rows_within(batch: pa.RecordBatch, columns: Sequence[str], column: str, period: Period) -> pa.RecordBatch:
    """These columns of the batch's rows that are of the period."""
    stays = encode_column(batch.column(column), _before_within_after(column, period)) == _WITHIN
    wanted = batch.select(list(columns))
    return wanted if stays.all() else wanted.take(pa.array(np.flatnonzero(stays)))


@lru_cache(maxsize=64)
def _before_within_after(column: str, period: Period) -> DomainColumn:
    """The calendar in three bins, the outer ones without end, and a fourth code for what cannot be read."""
    first = (period.first.toordinal() - _EPOCH) * MICROSECONDS_A_DAY
    following = (period.last.toordinal() + 1 - _EPOCH) * MICROSECONDS_A_DAY
    edges = (first - MICROSECONDS_A_DAY, first, following, following + MICROSECONDS_A_DAY)
    return DomainColumn(column, "datetime", (), edges, has_other=False, nullable=True, ordered=True)


def _with(columns: Sequence[str], more: str | None) -> list[str]:
    return list(dict.fromkeys([*columns, *([more] if more is not None else [])]))
