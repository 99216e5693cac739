"""Codes back to typed values, drawn within their bins. Post-processing: it sees codes and the public domain
only.

Types: integers int64, numbers double, dates date32, moments timestamp[us], booleans bool, categories text,
or int64 if every listed value is one. A value is uniform within its bin, on the log scale where the column
has one. Encoding a decoded table gives the codes back, with these exceptions, each forced by what is
published:
- `other` is the text "other", which a column that lists "other" reads as that value, and null where values
  are ints;
- a bin too narrow to hold a number of the declared decimals publishes the nearest one outside the bin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.domain import DomainColumn, TableDomain
from understudy.pipelines.table.tensors import write_tensor

OTHER_TEXT = "other"


def decode(
    codes: np.ndarray, domain: TableDomain, rng: np.random.Generator, tensors: Sequence[np.ndarray] = ()
) -> pa.Table:
    """A typed table from codes of shape (rows, columns) and tensors of shape (rows, size each).

    Fresh ids 1, 2, ... come first, then the coded columns, then the tensors.
    """
    rows, width = codes.shape
    if width != len(domain.columns):
        raise ValueError(f"{width} columns of codes for a domain of {len(domain.columns)}")
    if len(tensors) != len(domain.tensors) or any(len(values) != rows for values in tensors):
        raise ValueError(f"a domain of {len(domain.tensors)} tensors needs as many arrays of {rows} rows")
    arrays = [pa.array(np.arange(1, rows + 1, dtype=np.int64)) for _ in domain.surrogates]
    arrays += [decode_column(codes[:, i], column, rng) for i, column in enumerate(domain.columns)]
    arrays += [write_tensor(values, tensor) for values, tensor in zip(tensors, domain.tensors, strict=True)]
    return pa.table(arrays, names=list(domain.published_names))


def decode_column(codes: np.ndarray, column: DomainColumn, rng: np.random.Generator) -> pa.Array:
    codes = codes.astype(np.int64)
    if codes.size and not 0 <= codes.min() <= codes.max() < column.size:
        raise ValueError(f"codes of column {column.name!r} must lie between 0 and {column.size - 1}")
    off_axis = codes >= column.value_codes
    if column.kind == "category":
        return _categories(codes, column)
    bins = np.where(off_axis, 0, codes)
    if column.kind == "boolean":
        return pa.array(bins == 1, mask=off_axis)
    if column.kind == "number":
        return pa.array(_numbers(bins, column, rng), mask=off_axis)
    wholes = pa.array(_wholes(bins, column, rng), mask=off_axis)
    if column.kind == "date":
        return wholes.cast(pa.int32()).cast(pa.date32())
    return wholes.cast(pa.timestamp("us")) if column.kind == "datetime" else wholes


def _categories(codes: np.ndarray, column: DomainColumn) -> pa.Array:
    whole = all(isinstance(value, int) for value in column.values)
    listed: list[str | int | None] = list(column.values) if whole else [str(value) for value in column.values]
    listed += [None if whole else OTHER_TEXT] * column.has_other + [None] * column.nullable
    if whole and not all(value is None or -(2**63) <= int(value) < 2**63 for value in listed):
        listed, whole = [None if value is None else str(value) for value in listed], False
    return pa.array(listed, pa.int64() if whole else pa.string()).take(pa.array(codes))


def _numbers(bins: np.ndarray, column: DomainColumn, rng: np.random.Generator) -> np.ndarray:
    """Doubles in [low, high) of each bin; only rounding to decimals may reach the last upper edge."""
    edges = np.array(column.edges, np.float64)
    low, high = edges[bins], edges[bins + 1]
    share = rng.random(len(bins))
    values = low * (1.0 - share) + high * share
    if column.log_scale:
        values = _on_log_scale(low, high, edges[0], share)
    values = np.clip(values, low, np.maximum(low, np.nextafter(high, -np.inf)))
    return values if column.decimals is None else _rounded(values, bins, edges, column.decimals)


def _wholes(bins: np.ndarray, column: DomainColumn, rng: np.random.Generator) -> np.ndarray:
    edges = np.array(column.edges, np.int64)
    low, high = edges[bins], edges[bins + 1]
    if not column.log_scale:
        whole: np.ndarray = rng.integers(low, high)
        return whole
    start = edges[0]
    offsets = _on_log_scale((low - start).astype(float), (high - start).astype(float), 0.0, rng.random(len(bins)))
    drawn: np.ndarray = np.clip(start + np.floor(offsets).astype(np.int64), low, high - 1)
    return drawn


def _on_log_scale(low: np.ndarray, high: np.ndarray, start: float, share: np.ndarray) -> np.ndarray:
    """Uniform in log(1 + x - start), the scale on which such bins have equal width."""
    from_, to = np.log1p(low - start), np.log1p(high - start)
    values: np.ndarray = start + np.expm1(from_ * (1.0 - share) + to * share)
    return values


def _rounded(values: np.ndarray, bins: np.ndarray, edges: np.ndarray, decimals: int) -> np.ndarray:
    """The nearest multiple of 10^-decimals within the value's bin; failing that, within the bounds."""
    unit = 10.0**decimals
    first, last = _multiples(edges[:-1], edges[1:], unit)
    last[-1] = np.floor(edges[-1] * unit)
    last[-1] -= last[-1] / unit > edges[-1]
    outer_first, outer_last = first[0], last[-1]
    nearest = np.rint(values * unit)
    inside = first[bins] <= last[bins]
    nearest = np.where(inside, np.clip(nearest, first[bins], last[bins]), np.clip(nearest, outer_first, outer_last))
    return nearest / unit if outer_first <= outer_last else values


def _multiples(low: np.ndarray, high: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """The first and last k with low <= k / unit < high, exact in doubles however the products round."""
    first, last = np.ceil(low * unit), np.ceil(high * unit) - 1
    first += first / unit < low
    first -= (first - 1) / unit >= low
    last -= last / unit >= high
    last += (last + 1) / unit < high
    return first, last
