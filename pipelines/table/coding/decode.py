"""Codes back to typed values, drawn within their bins. Post-processing: it sees codes and the public domain
only.

Types: integers int64, numbers double, dates date32, moments timestamp[us], booleans bool, categories text,
or int64 if every listed value is one. Within its bin a value follows the slope of the neighbouring bins
(placing.py); a spike is published as it is. Encoding a decoded table gives the codes back, with these exceptions, each
forced by what is published:
- `other` is the text "other", which a column that lists "other" reads as that value, and null where values
  are ints;
- a bin too narrow to hold a multiple of the declared step publishes the nearest one outside the bin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.coding.placing import place, tilts
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tensors import write_tensor

OTHER_TEXT = "other"


def decode(
    codes: np.ndarray,
    domain: TableDomain,
    rng: np.random.Generator,
    tensors: Sequence[np.ndarray] = (),
    first_id: int = 1,
) -> pa.Table:
    """A typed table from codes of shape (rows, columns) and tensors of shape (rows, size each).

    Fresh ids, from `first_id` on, come first, then the coded columns, then the tensors.
    """
    rows, width = codes.shape
    if width != len(domain.columns):
        raise ValueError(f"{width} columns of codes for a domain of {len(domain.columns)}")
    if len(tensors) != len(domain.tensors) or any(len(values) != rows for values in tensors):
        raise ValueError(f"a domain of {len(domain.tensors)} tensors needs as many arrays of {rows} rows")
    arrays = [fresh_ids(first_id, rows) for _ in domain.surrogates]
    arrays += [decode_column(codes[:, i], column, rng) for i, column in enumerate(domain.columns)]
    arrays += [write_tensor(values, tensor) for values, tensor in zip(tensors, domain.tensors, strict=True)]
    return pa.table(arrays, names=list(domain.generated_names))


def fresh_ids(first: int, rows: int) -> pa.Array:
    return pa.array(np.arange(first, first + rows, dtype=np.int64))


def decode_column(
    codes: np.ndarray, column: DomainColumn, rng: np.random.Generator, among: np.ndarray | None = None
) -> pa.Array:
    """Values of the codes; `among` are all the codes of the column, where these are only some, to know slopes by."""
    codes = codes.astype(np.int64)
    if codes.size and not 0 <= codes.min() <= codes.max() < column.size:
        raise ValueError(f"codes of column {column.name!r} must lie between 0 and {column.size - 1}")
    off_axis = codes >= column.value_codes
    if column.kind == "category":
        return _categories(codes, column)
    bins = np.where(off_axis, 0, codes)
    if column.kind == "boolean":
        return pa.array(bins == 1, mask=off_axis)
    known = codes if among is None else among.astype(np.int64)
    values = pa.array(place(bins, column, tilts(known[known < column.value_codes], column), rng), mask=off_axis)
    if column.kind == "number":
        return values
    if column.kind == "date":
        return values.cast(pa.int32()).cast(pa.date32())
    return values.cast(pa.timestamp("us")) if column.kind == "datetime" else values


def _categories(codes: np.ndarray, column: DomainColumn) -> pa.Array:
    whole = all(isinstance(value, int) for value in column.values)
    listed: list[str | int | None] = list(column.values) if whole else [str(value) for value in column.values]
    listed += [None if whole else OTHER_TEXT] * column.has_other + [None] * column.nullable
    if whole and not all(value is None or -(2**63) <= int(value) < 2**63 for value in listed):
        listed, whole = [None if value is None else str(value) for value in listed], False
    return pa.array(listed, pa.int64() if whole else pa.string()).take(pa.array(codes))
