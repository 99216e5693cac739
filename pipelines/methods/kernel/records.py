"""Rows to grid records and back. Reading is total and row by row; writing always lands in the domain.

A record is its tensors, flattened in spec order, then its numeric columns, all scaled to [0, 1] by public bounds.
What cannot be read becomes the middle of the range; what lies outside is clipped; an unknown label goes where
`encoding` puts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from understudy.pipelines.methods.kernel.features import on_levels
from understudy.pipelines.methods.kernel.options import KernelOptions, numeric_columns, width_of
from understudy.pipelines.methods.unit_values import from_unit, typed, unit_column
from understudy.pipelines.table.coding.decode import decode_column, fresh_ids
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tensors import read_tensor, write_tensor


def grid_batches(
    batches: Iterable[pa.RecordBatch], options: KernelOptions, domain: TableDomain
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for batch in batches:
        yield on_levels(scaled_values(batch, options, domain)), class_codes(batch, options, domain)


def grid_records(
    batches: Iterable[pa.RecordBatch], options: KernelOptions, domain: TableDomain
) -> tuple[np.ndarray, np.ndarray]:
    """All rows at once: two bytes a value."""
    nothing = np.zeros((0, width_of(options, domain)), dtype=np.uint16), np.zeros(0, dtype=np.int64)
    return joined([nothing, *grid_batches(batches, options, domain)])


def joined(several: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([records for records, _ in several]), np.concatenate([labels for _, labels in several])


def scaled_values(rows: pa.RecordBatch | pa.Table, options: KernelOptions, domain: TableDomain) -> np.ndarray:
    """Values in [0, 1] as float32, NaN where a number is missing."""
    values = np.empty((rows.num_rows, width_of(options, domain)), dtype=np.float32)
    start = 0
    for tensor in domain.tensors:
        raw = read_tensor(rows.column(tensor.name), tensor)
        values[:, start : start + tensor.size] = (raw - tensor.low) / (tensor.high - tensor.low)
        start += tensor.size
    for j, column in enumerate(numeric_columns(options, domain), start):
        values[:, j] = (unit_column(rows.column(column.name), column) + 1) / 2
    return values


def class_codes(rows: pa.RecordBatch | pa.Table, options: KernelOptions, domain: TableDomain) -> np.ndarray:
    if options.label is None:
        return np.zeros(rows.num_rows, dtype=np.int64)
    label = domain.columns[domain.index(options.label)]
    return encode_column(rows.column(options.label), label).astype(np.int64)


def to_table(
    values: np.ndarray, labels: np.ndarray, options: KernelOptions, domain: TableDomain, first: int = 0
) -> pa.Table:
    """Typed rows as every published table lays them out: surrogate ids, coded columns, tensors."""
    rng = np.random.default_rng()  # decode_column asks for one; a category draws nothing from it
    made: dict[str, pa.Array] = {name: fresh_ids(first + 1, len(labels)) for name in domain.surrogates}
    start = 0
    for tensor in domain.tensors:
        part = values[:, start : start + tensor.size]
        made[tensor.name] = write_tensor(tensor.low + part * (tensor.high - tensor.low), tensor)
        start += tensor.size
    for j, column in enumerate(numeric_columns(options, domain), start):
        made[column.name] = typed(from_unit(2 * values[:, j] - 1, column), column)
    if options.label is not None:
        label = domain.columns[domain.index(options.label)]
        made[label.name] = decode_column(labels, label, rng)
    return pa.table({name: made[name] for name in domain.generated_names})
