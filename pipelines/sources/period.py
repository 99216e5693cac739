"""The rows of one period: what `rolling.column` selects, before anything else sees a row.

Guarantee. A row is of a period if the value of its own period column lies between the first and the last day of it,
both included, moments with a zone taken in UTC or on the clock of the column's `zone`; a value that cannot be read lies
in no period. That is decided for each row by itself, by the very reader that codes date columns, so no row is of two
periods and none decides about another.
The selection comes before contribution bounding: at most k rows an entity *of the period* are kept.

It wraps any source and is a source like any other; where the source has parts, each is filtered where it is read, in
whichever process. Databases are not asked to count: they would count rows of other periods.

Theorem, relation, sensitivity, noise unit, reference. This is what parallel composition of periods rests on where units
are rows: docs/proofs/periods.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source, SourceBase
from understudy.pipelines.spec.dates import DateColumn, DatetimeColumn
from understudy.pipelines.spec.formats import Form
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.periods import Period
from understudy.pipelines.table.binning import MICROSECONDS_A_DAY
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.reading.arrow import readable

_EPOCH = dt.date(1970, 1, 1).toordinal()
_WITHIN = 1


@dataclass(frozen=True)
class PeriodPart:
    """The rows of a part that are of the period."""

    part: Part
    column: str
    period: Period
    form: Form | None = None

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        for batch in self.part.read(list(dict.fromkeys([*columns, self.column])), batch_rows):
            yield rows_within(batch, columns, self.column, self.period, self.form)


@dataclass(frozen=True)
class PeriodSource(SourceBase):
    """The rows of a source that are of the period; a source like any other."""

    source: Source
    column: str
    period: Period
    form: Form | None = None
    """How the column is written, where the spec declares it."""

    def schema(self) -> pa.Schema:
        schema = self.source.schema()
        found = schema.get_all_field_indices(self.column)
        if len(found) != 1:
            many = "no column" if not found else f"{len(found)} columns"
            raise SpecError(f"the table has {many} {self.column!r}, which rolling.column names", "correct the spec")
        if not readable(schema.field(found[0]).type, "datetime", self.form):
            raise SpecError(f"the column {self.column!r}, which rolling.column names, holds no dates", "name another")
        return schema

    def parts(self) -> Sequence[PeriodPart] | None:
        parts = self.source.parts()
        return None if parts is None else [PeriodPart(part, self.column, self.period, self.form) for part in parts]

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        return PeriodPart(self.source, self.column, self.period, self.form).read(columns, batch_rows)

    def row_estimate(self) -> int | None:
        """Of all periods together: no more is known without reading."""
        return self.source.row_estimate()

    def snapshot_id(self) -> str | None:
        return self.source.snapshot_id()

    def close(self) -> None:
        self.source.close()


def of_period(source: Source, spec: ReleaseSpec) -> Source:
    """The rows that a release may read: all of them, unless `rolling.column` says which are its period's."""
    if spec.rolling is None or spec.rolling.column is None:
        return source
    assert spec.period is not None
    declared = spec.columns.get(spec.rolling.column)
    form = declared.form if isinstance(declared, DateColumn | DatetimeColumn) else None
    return PeriodSource(source, spec.rolling.column, spec.period, form)


def rows_within(
    batch: pa.RecordBatch, columns: Sequence[str], column: str, period: Period, form: Form | None = None
) -> pa.RecordBatch:
    """These columns of the batch's rows that are of the period."""
    stays = encode_column(batch.column(column), _before_within_after(column, period, form)) == _WITHIN
    wanted = batch.select(list(columns))
    return wanted if stays.all() else wanted.take(pa.array(np.flatnonzero(stays)))


@lru_cache(maxsize=64)
def _before_within_after(column: str, period: Period, form: Form | None) -> DomainColumn:
    """The calendar in three bins, the outer ones without end, and a fourth code for what cannot be read."""
    first = (period.first.toordinal() - _EPOCH) * MICROSECONDS_A_DAY
    following = (period.last.toordinal() + 1 - _EPOCH) * MICROSECONDS_A_DAY
    edges = (first - MICROSECONDS_A_DAY, first, following, following + MICROSECONDS_A_DAY)
    return DomainColumn(column, "datetime", (), edges, has_other=False, nullable=True, ordered=True, form=form)
