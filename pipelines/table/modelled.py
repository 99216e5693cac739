"""Rows of a table as the columns that are modelled: datetimes by their parts, moments by how long after others.

The same for private rows, wherever they are read, and for published ones, when they are compared with what was
released. Total, and row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa

from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.durations import seconds_between
from understudy.pipelines.table.parts import take_apart

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def names_to_read(names: Sequence[str], domain: TableDomain) -> list[str]:
    """The columns of the source that hold what these columns are made of."""
    origin: dict[str, list[str]] = {}
    for split in domain.splits:
        origin |= {column.name: [split.name] for _, column in split.parts}
    origin |= {lapse.name: [lapse.after.name, lapse.name] for lapse in domain.lapses}
    return list(dict.fromkeys(source for name in names for source in origin.get(name, [name])))


def modelled(rows: Rows, domain: TableDomain, names: Sequence[str]) -> Rows:
    """These columns, which the rows hold or which are made of what they hold."""
    if domain.as_modelled:
        return rows
    made: dict[str, pa.Array] = {}
    for split in domain.splits:
        if any(column.name in names for _, column in split.parts):
            made |= take_apart(_whole(rows.column(split.name)), split)
    for lapse in domain.lapses:
        if lapse.name in names:
            start, end = _whole(rows.column(lapse.after.name)), _whole(rows.column(lapse.name))
            made[lapse.name] = seconds_between(start, end, lapse)
    arrays = [made[name] if name in made else rows.column(name) for name in names]
    return type(rows).from_arrays(arrays, names=list(names))


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
