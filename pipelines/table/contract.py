"""The public contract of a synthetic table: what must hold for every release, whatever was in the private rows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import pyarrow as pa

from understudy.pipelines.table.domain import EPOCH, DomainColumn, TableDomain, TensorDomain
from understudy.pipelines.table.tensors import published_type

OTHER = "other"


@dataclass(frozen=True)
class ColumnContract:
    """Type, nullability, and either the allowed values or the bounds of one published column.

    With a `shape` the bounds are those of each number of a tensor; the type says how many there are.
    """

    name: str
    arrow_type: str
    nullable: bool
    allowed: tuple[str | int | bool, ...] | None = None
    low: float | int | dt.datetime | None = None
    high: float | int | dt.datetime | None = None
    unique: bool = False
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TableContract:
    columns: tuple[ColumnContract, ...]
    rows: int | None


def contract_of(domain: TableDomain, rows: int | None) -> TableContract:
    """Surrogate ids first, then the coded columns, then the tensors, as `decode` lays them out."""
    surrogates = tuple(
        ColumnContract(name, str(pa.int64()), nullable=False, low=1, unique=True) for name in domain.surrogates
    )
    coded = tuple(_column_contract(column) for column in domain.columns)
    return TableContract(surrogates + coded + tuple(_tensor_contract(tensor) for tensor in domain.tensors), rows)


def _tensor_contract(tensor: TensorDomain) -> ColumnContract:
    kind = str(published_type(tensor))
    return ColumnContract(tensor.name, kind, nullable=False, low=tensor.low, high=tensor.high, shape=tensor.shape)


def _column_contract(column: DomainColumn) -> ColumnContract:
    match column.kind:
        case "category":
            whole = all(isinstance(value, int) for value in column.values)
            texts = tuple(str(value) for value in column.values) + ((OTHER,) if column.has_other else ())
            # `other` has no number of its own, so among whole-number categories it is published as null.
            nullable = column.nullable or (whole and column.has_other)
            kind = pa.int64() if whole else pa.string()
            return ColumnContract(column.name, str(kind), nullable, column.values if whole else texts)
        case "boolean":
            return ColumnContract(column.name, str(pa.bool_()), column.nullable, (False, True))
        case "integer":
            low, high = _ends(column)
            return ColumnContract(column.name, str(pa.int64()), column.nullable, low=int(low), high=int(high))
        case "number":
            low, high = _ends(column)
            return ColumnContract(column.name, str(pa.float64()), column.nullable, low=low, high=high)
        case "date":
            first, last = (_midnight(int(end)) for end in _ends(column))
            return ColumnContract(column.name, str(pa.date32()), column.nullable, low=first, high=last)
        case "datetime":
            start, end = (_moment(int(end)) for end in _ends(column))
            return ColumnContract(column.name, str(pa.timestamp("us")), column.nullable, low=start, high=end)


def _ends(column: DomainColumn) -> tuple[float | int, float | int]:
    """The least and greatest value that may be published, spikes included."""
    low, high = column.declared_span
    if column.kind in ("integer", "date"):
        high -= 1
    spikes = [value for _, value in column.spikes]
    return min([low, *spikes]), max([high, *spikes])


def _midnight(days: int) -> dt.datetime:
    return dt.datetime.combine(EPOCH + dt.timedelta(days=days), dt.time())


def _moment(microseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=microseconds)
