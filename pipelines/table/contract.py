"""The public contract of a synthetic table: what must hold for every release, whatever was in the private rows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.binning import EPOCH
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.composed import Lapse, Made
from understudy.pipelines.table.domain import TableDomain, TensorDomain
from understudy.pipelines.table.keeping import Kept, Types, at_clock, kept_types
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
    allowed: tuple[str | int | float | bool, ...] | None = None
    low: float | int | dt.datetime | None = None
    high: float | int | dt.datetime | None = None
    unique: bool = False
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TableContract:
    """`made` are recomputed in every row, and every moment of `lapses` follows its other one."""

    columns: tuple[ColumnContract, ...]
    rows: int | None
    made: tuple[Made, ...] = ()
    lapses: tuple[Lapse, ...] = ()


def where_keys_repeat(contract: TableContract, by: str | None) -> TableContract:
    """The same, where the key of a parent stands in as many rows as it has children."""
    columns = tuple(replace(each, unique=False) if each.name == by else each for each in contract.columns)
    return replace(contract, columns=columns)


def contract_of(domain: TableDomain, rows: int | None, types: Types | None = None) -> TableContract:
    """Surrogate ids first, then the columns in the spec's order, then the tensors, as they are published.

    `types` are those of the source's catalogue, which columns keep where they can.
    """
    found = {
        name: ColumnContract(name, str(pa.int64()), nullable=False, low=1, unique=True) for name in domain.surrogates
    }
    found |= {column.name: _column_contract(column) for column in domain.columns}
    found |= {tensor.name: _tensor_contract(tensor) for tensor in domain.tensors}
    found |= {split.name: _column_contract(split.whole) for split in domain.splits}
    found |= {lapse.name: ColumnContract(lapse.name, "", lapse.seconds.nullable) for lapse in domain.lapses}
    found |= {made.name: ColumnContract(made.name, "", nullable=True) for made in domain.made}
    for name, kept in kept_types(domain, types or {}).items():
        found[name] = _in_type(found[name], kept)
    return TableContract(tuple(found[name] for name in domain.published_names), rows, domain.made, domain.lapses)


def _in_type(column: ColumnContract, kept: Kept) -> ColumnContract:
    """The contract of a column that is published in its source's type."""
    type_, allowed, low, high = kept.type, column.allowed, column.low, column.high
    if allowed is not None and pa.types.is_floating(type_):
        allowed = tuple(float(value) for value in allowed)
    elif allowed is not None and pa.types.is_integer(type_):
        allowed = tuple(int(value) for value in allowed)
    elif allowed is not None and pa.types.is_dictionary(type_):
        allowed = tuple(str(value) for value in allowed)
    if kept.zone is not None and isinstance(low, dt.datetime) and isinstance(high, dt.datetime):
        low, high = at_clock(pa.array([low, high], pa.timestamp("us")), kept.zone).to_pylist()
    if pa.types.is_float32(type_) and isinstance(low, int | float) and isinstance(high, int | float):
        low, high = float(np.float32(low)), float(np.float32(high))
    return replace(column, arrow_type=str(type_), allowed=allowed, low=low, high=high)


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
            low, high = column.ends
            return ColumnContract(column.name, str(pa.int64()), column.nullable, low=int(low), high=int(high))
        case "number":
            low, high = column.ends
            return ColumnContract(column.name, str(pa.float64()), column.nullable, low=low, high=high)
        case "date":
            first, last = (_midnight(int(end)) for end in column.ends)
            return ColumnContract(column.name, str(pa.date32()), column.nullable, low=first, high=last)
        case "datetime":
            start, end = (_moment(int(end)) for end in column.ends)
            return ColumnContract(column.name, str(pa.timestamp("us")), column.nullable, low=start, high=end)


def _midnight(days: int) -> dt.datetime:
    return dt.datetime.combine(EPOCH + dt.timedelta(days=days), dt.time())


def _moment(microseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=microseconds)
