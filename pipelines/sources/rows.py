"""What is kept of a row that is bounded, and the bytes by which rows are told apart.

Rows are ranked by their codes, so that counts and whole rows come from the same choice; where whole rows are kept,
rows of equal codes are told apart by their values. Two rows of equal bytes are kept alike, so which of them stays is
no matter. The bytes are those of values as they are read by the public domain, not as they are stored: `5`, 5 and 5.0
of an integer column are one value, so that CSV, Parquet and databases keep the same rows of the same table. They
depend on the row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.coding.encode import code_type, encode_column
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.reading.values import read_numbers
from understudy.pipelines.table.tensors import read_tensor

Kept: TypeAlias = Any
"""Codes, a row of the table each, or the rows themselves."""


class Seen(NamedTuple):
    """Of each row of a batch: the bytes (rows, width) of its codes, those of its values if they matter too, and what
    is kept."""

    codes: np.ndarray
    values: np.ndarray | None
    kept: Kept


class View(Protocol):
    @property
    def columns(self) -> Sequence[str]:
        """What has to be read, beside the entity."""
        ...

    def look(self, batch: pa.RecordBatch) -> Seen: ...


@dataclass(frozen=True)
class CodeView:
    """Keeps the codes of some columns, and how some were understood (the higher numbers of `used`, which is sorted).

    Which rows of an entity stay depends on the codes of all columns; among rows of equal codes, on how they were
    understood.
    """

    domain: TableDomain
    used: Sequence[int]

    @property
    def columns(self) -> Sequence[str]:
        understood = [self.domain.countable[i].name for i in self.used if i >= len(self.domain.columns)]
        return list(dict.fromkeys([*self.domain.counted_names, *understood]))

    @property
    def row_bytes(self) -> int:
        return self._type.itemsize * len(self.used)

    def look(self, batch: pa.RecordBatch) -> Seen:
        codes = _codes(batch, self.domain.columns, self._type)
        width = len(self.domain.columns)
        qualities = [self.domain.countable[i] for i in self.used if i >= width]
        if not qualities:
            everything = list(self.used) == list(range(width))
            return Seen(_bytes(codes), None, codes if everything else np.ascontiguousarray(codes[:, list(self.used)]))
        cells = _codes(batch, qualities, self._type)
        kept = np.concatenate([codes[:, [i for i in self.used if i < width]], cells], axis=1)
        return Seen(_bytes(codes), _bytes(cells), np.ascontiguousarray(kept))

    @property
    def _type(self) -> np.dtype:
        return _code_type(self.domain)


@dataclass(frozen=True)
class RecordView:
    """Keeps the rows as they are."""

    domain: TableDomain

    @property
    def columns(self) -> Sequence[str]:
        return self.domain.record_names

    def look(self, batch: pa.RecordBatch) -> Seen:
        numeric = [column for column in self.domain.columns if column.kind not in ("category", "boolean")]
        numbers = np.empty((batch.num_rows, len(numeric)), np.float64)
        for place, column in enumerate(numeric):
            found = read_numbers(batch.column(column.name), column).astype(np.float64) + 0.0  # -0.0 and 0.0 are one
            numbers[:, place] = np.where(np.isnan(found), np.nan, found)
        parts = [_bytes(numbers)]
        parts += [_bytes(read_tensor(batch.column(each.name), each) + np.float32(0.0)) for each in self.domain.tensors]
        values = [_plain(batch.column(name)) for name in self.columns]
        kept = pa.table(values, names=list(self.columns))
        return Seen(
            _bytes(_codes(batch, self.domain.columns, _code_type(self.domain))), np.concatenate(parts, axis=1), kept
        )


def _code_type(domain: TableDomain) -> np.dtype:
    return code_type(max(domain.sizes, default=0))


def _plain(values: pa.Array) -> pa.Array:
    """Without dictionaries, which differ from batch to batch and may be too long to be joined."""
    return values.dictionary.take(values.indices) if pa.types.is_dictionary(values.type) else values


def _codes(batch: pa.RecordBatch, columns: Sequence[DomainColumn], type_: np.dtype) -> np.ndarray:
    """(rows, columns): a row's codes lie together, since rows are moved about."""
    codes = np.empty((len(columns), batch.num_rows), type_)
    for place, column in enumerate(columns):
        codes[place] = encode_column(batch.column(column.name), column)
    return np.ascontiguousarray(codes.T)


def _bytes(rows: np.ndarray) -> np.ndarray:
    return rows.view(np.uint8).reshape(len(rows), rows.shape[1] * rows.itemsize)


def joined(several: Sequence[Kept]) -> Kept:
    first = several[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(several)
    return pa.concat_tables(several)


def taken(kept: Kept, rows: np.ndarray | slice) -> Kept:
    if isinstance(kept, np.ndarray):
        return kept[rows]
    if isinstance(rows, slice):
        return kept.slice(rows.start, rows.stop - rows.start)
    return kept.combine_chunks().take(pa.array(rows))
