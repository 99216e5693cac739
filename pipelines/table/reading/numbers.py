"""Arrow columns to fixed-point numbers: total, row by row, exact in its bounds.

No value can raise, and the result for a row depends on that row alone. A null, NaN, infinity or unreadable value of a
nullable column is null; of any other it is the column's least value, as in `encoding`. The rest is clipped.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from understudy.pipelines.table.coding.encode import NUMBER_TEXT, readable
from understudy.pipelines.table.domain import MICROSECONDS_A_DAY, DomainColumn
from understudy.pipelines.table.reading.dates import read_moments

_UNITS_A_DAY = {"D": 1, "s": 86_400, "ms": 86_400_000, "us": MICROSECONDS_A_DAY, "ns": 86_400_000_000_000}


def bounds(column: DomainColumn) -> tuple[float, float]:
    """The least and greatest value of a numeric column in its own units; the last edge of wholes is exclusive."""
    last = column.edges[-1] - 1 if column.kind in ("integer", "date") else column.edges[-1]
    return float(column.edges[0]), float(last)


def read_numbers(values: pa.Array, column: DomainColumn) -> np.ndarray:
    """The column as doubles in its own units (days or microseconds for dates); NaN where null or unreadable.

    Always doubles: a row must not be rounded another way because its file holds it in a dictionary, or beside a null.
    """
    if isinstance(values, pa.ExtensionArray):
        return read_numbers(values.storage, column)
    if pa.types.is_run_end_encoded(values.type):
        return read_numbers(pc.run_end_decode(values), column)
    if pa.types.is_dictionary(values.type):
        table = np.append(read_numbers(values.dictionary, column), np.nan)
        indices = pc.fill_null(values.indices.cast(pa.int64()), len(table) - 1)
        looked_up: np.ndarray = table[indices.to_numpy(zero_copy_only=False)]
        return looked_up
    if pa.types.is_null(values.type) or not readable(values.type, column.kind):
        return np.full(len(values), np.nan)
    if column.kind in ("date", "datetime"):
        return _moments(values, column)
    return _plain_numbers(values)


def _plain_numbers(values: pa.Array) -> np.ndarray:
    type_ = values.type
    if pa.types.is_floating(type_) or pa.types.is_integer(type_):
        return _or_nan(values)
    if pa.types.is_boolean(type_):
        return _or_nan(values.cast(pa.int8()))
    if pa.types.is_decimal(type_):
        return _or_nan(pc.cast(values, pa.float64(), safe=False))
    text = pc.ascii_trim_whitespace(pc.cast(values, pa.large_string(), safe=False))
    spelled = pc.if_else(pc.match_substring_regex(text, NUMBER_TEXT), text, "nan")
    return _or_nan(pc.cast(spelled, pa.float64()))


def _moments(values: pa.Array, column: DomainColumn) -> np.ndarray:
    type_ = values.type
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        whole = values.view(pa.int32()) if pa.types.is_date32(type_) else values.view(pa.int64())
        in_a_day = _UNITS_A_DAY["D" if pa.types.is_date32(type_) else "ms" if pa.types.is_date64(type_) else type_.unit]
        numbers = _or_nan(whole)
        if column.kind == "date":
            return np.floor(numbers / in_a_day)
        return numbers * (MICROSECONDS_A_DAY / in_a_day)
    moments, known = read_moments(pc.cast(values, pa.large_string(), safe=False))
    if column.kind == "date":
        moments = moments // MICROSECONDS_A_DAY
    missing = ~np.asarray(known) | ~np.asarray(values.is_valid())
    return np.where(missing, np.nan, moments.astype(np.float64))


def _or_nan(values: pa.Array) -> np.ndarray:
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return numbers


def to_grid(numbers: np.ndarray, column: DomainColumn, grid: int, out: np.ndarray, missing: np.ndarray) -> None:
    """Write integers in [-grid, grid] (as doubles) to `out` and 1.0 to `missing` where the value is null.

    The public bounds map to -grid and grid, on a log scale where the column has one. The clip acts on the integers,
    so the bound that the sensitivity rests on holds exactly whatever the floating point did before it.
    """
    low, high = bounds(column)
    absent = 0.0 if column.nullable else float(-grid)
    if high <= low:
        _scale(numbers, 0.0, 0.0, 0.0, absent, out, missing)
    elif column.log_scale:
        half = np.log1p(high - low) / 2
        _scale(stretched(numbers, low), half, grid / half, float(grid), absent, out, missing)
    else:
        _scale(numbers, low / 2 + high / 2, grid / (high / 2 - low / 2), float(grid), absent, out, missing)
    if not column.nullable:
        missing[:] = 0.0


@njit(cache=True, nogil=True)
def stretched(numbers: np.ndarray, low: float) -> np.ndarray:
    """log(1 + x - low), 0 below `low`: one number after the other, where NumPy may take several at once and round some
    of them as its vector unit does and the last ones as its library does."""
    found = np.empty(len(numbers))
    for row in range(len(numbers)):
        above = numbers[row] - low
        found[row] = math.log1p(0.0 if above < 0.0 else above)
    return found


@njit(cache=True, nogil=True)
def _scale(
    numbers: np.ndarray,
    middle: float,
    factor: float,
    grid: float,
    absent: float,
    out: np.ndarray,
    missing: np.ndarray,
) -> None:
    """One fused pass, so that a block stays in the cache. NaN fails every comparison and so is not finite."""
    for row in range(len(numbers)):
        value = float(numbers[row])
        finite = abs(value) < np.inf
        position = min(max(np.rint((value - middle) * factor), -grid), grid)
        out[row] = position if finite else absent
        missing[row] = 0.0 if finite else 1.0
