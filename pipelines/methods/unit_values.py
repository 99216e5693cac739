"""Tables to feature vectors and back. Reading is total and row by row; writing always lands in the domain.

A number x of a column with bounds [a, b] becomes (2 f(x) - f(a) - f(b)) / (f(b) - f(a)) in [-1, 1], f the
identity or, on another scale, its coordinate (table/scales.py). Nulls and unreadable values become NaN here and 0, the
centre, on the grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import pyarrow as pa

from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.methods.over_rows import gathered
from understudy.pipelines.table.coding.decode import decode_column
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.coding.grid import bounds, stretched
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.reading.values import read_numbers
from understudy.pipelines.table.scales import Scale


def read_vectors(table: PrivateTable, label: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows as float32 features in [-1, 1] (NaN: missing) and class codes."""
    read = gathered(table, partial(vectors_of, label=label, domain=table.domain))
    return np.concatenate([values for values, _ in read]), np.concatenate([labels for _, labels in read])


def vectors_of(batches: Iterable[pa.RecordBatch], label: str, domain: TableDomain) -> tuple[np.ndarray, np.ndarray]:
    features = [column for column in domain.columns if column.name != label]
    label_column = domain.columns[domain.index(label)]
    values, labels = [np.zeros((0, len(features)), dtype=np.float32)], [np.zeros(0, dtype=np.int64)]
    for batch in batches:
        block = np.empty((batch.num_rows, len(features)), dtype=np.float32)
        for j, column in enumerate(features):
            block[:, j] = unit_column(batch.column(column.name), column)
        values.append(block)
        labels.append(encode_column(batch.column(label), label_column).astype(np.int64))
    return np.concatenate(values), np.concatenate(labels)


def unit_column(values: pa.Array | pa.ChunkedArray, column: DomainColumn) -> np.ndarray:
    """Unit coordinates of one column; NaN where null or unreadable."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return np.concatenate([np.zeros(0), *(to_unit(read_numbers(chunk, column), column) for chunk in chunks)])


def to_unit(numbers: np.ndarray, column: DomainColumn) -> np.ndarray:
    low, high = bounds(column)
    numbers = np.asarray(numbers, dtype=np.float64)
    clipped = np.clip(np.where(np.isfinite(numbers), numbers, np.nan), low, high)
    if high <= low:
        return np.zeros(len(numbers))
    if column.log_scale:
        unit: np.ndarray = 2 * stretched(clipped, low) / np.log1p(high - low) - 1
        return unit
    if column.scale != "linear":
        scale = Scale(column.scale, low, high)
        first, last = scale.ends
        return np.asarray((2 * scale.forward(clipped) - first - last) / (last - first))
    return (clipped - (low / 2 + high / 2)) / (high / 2 - low / 2)


def from_unit(unit: np.ndarray, column: DomainColumn) -> np.ndarray:
    """Back to the column's own units, clipped to its bounds."""
    low, high = bounds(column)
    inside = np.clip(unit.astype(np.float64), -1.0, 1.0)
    if column.log_scale:
        numbers = low + np.expm1((inside + 1) / 2 * np.log1p(high - low))
    elif column.scale != "linear":
        scale = Scale(column.scale, low, high)
        first, last = scale.ends
        numbers = scale.backward(first + (inside + 1) / 2 * (last - first))
    else:
        numbers = (low / 2 + high / 2) + inside * (high / 2 - low / 2)
    clipped: np.ndarray = np.clip(numbers, low, high)
    return clipped


def to_batch(units: np.ndarray, labels: np.ndarray, label: str, domain: TableDomain, first_id: int) -> pa.RecordBatch:
    """Typed rows as `decoding.decode` lays them out: surrogate ids, then the columns in domain order."""
    rng = np.random.default_rng()  # decode_column asks for one; a category draws nothing from it
    arrays = [pa.array(np.arange(first_id, first_id + len(labels), dtype=np.int64)) for _ in domain.surrogates]
    feature = 0
    for column in domain.columns:
        if column.name == label:
            arrays.append(decode_column(labels, column, rng))
        else:
            arrays.append(typed(from_unit(units[:, feature], column), column))
            feature += 1
    return pa.record_batch(arrays, names=[*domain.surrogates, *domain.names])


def typed(numbers: np.ndarray, column: DomainColumn) -> pa.Array:
    low, high = bounds(column)
    if column.kind == "number":
        if column.decimals is not None:
            rounded = np.round(numbers, column.decimals)
            numbers = np.where((rounded >= low) & (rounded <= high), rounded, numbers)
        return pa.array(numbers)
    wholes = pa.array(np.clip(np.rint(numbers), low, high).astype(np.int64))
    if column.kind == "date":
        return wholes.cast(pa.int32()).cast(pa.date32())
    return wholes.cast(pa.timestamp("us")) if column.kind == "datetime" else wholes
