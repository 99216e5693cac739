"""Dates and moments in the column's units, whatever holds them: Arrow's own types, text, or numbers since 1970.

Text is read as `date_text` says, or as the column's `format` does. Whole numbers are dates only where a format says how
(`epoch`, or `%Y%m%d`). Moments that come with an offset or a zone are taken in UTC, or on the wall clock of the
column's `zone`; those without stay as they are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.spec.formats import EPOCHS, DateForm
from understudy.pipelines.table.binning import MICROSECONDS_A_DAY
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.reading.arrow import INT64_MAX, is_number, is_text, text_buffers, texts, unboxed, wholes
from understudy.pipelines.table.reading.date_formats import FEWEST, MOST, read_epochs, read_formats
from understudy.pipelines.table.reading.date_pieces import UNREADABLE, ZONED
from understudy.pipelines.table.reading.date_text import read_dates
from understudy.pipelines.table.reading.zones import on_the_wall

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_PLAIN = DateForm()


def dates_of(values: pa.Array, column: DomainColumn) -> tuple[np.ndarray, np.ndarray | None]:
    """Days or microseconds since 1970, nulls arbitrary; and which could not be read, None where every value can."""
    form = column.form_of(DateForm) or _PLAIN
    moments, zoned, unreadable = _moments(values, form)
    if form.zone is not None and zoned is not False:
        unit = MICROSECONDS_A_DAY if column.kind == "date" else 1
        shown = on_the_wall(moments, form.zone, int(column.edges[0]) * unit, int(column.edges[-1]) * unit)
        moments = shown if zoned is True else np.where(zoned, shown, moments)
    return (moments // MICROSECONDS_A_DAY if column.kind == "date" else moments), unreadable


def _moments(values: pa.Array, form: DateForm) -> tuple[np.ndarray, np.ndarray | bool, np.ndarray | None]:
    """Microseconds, which are in UTC since they came with a zone, and which could not be read."""
    type_ = values.type
    if is_text(type_):
        return _of_texts(texts(values), form)
    if is_number(type_):
        return _of_numbers(values, form)
    if pa.types.is_date32(type_):
        return np.clip(wholes(values), -(10**8), 10**8) * MICROSECONDS_A_DAY, False, None
    zoned = bool(pa.types.is_timestamp(type_) and type_.tz is not None)
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return wholes(values) // 1_000, zoned, None
    factor = _MICROSECONDS["ms" if pa.types.is_date64(type_) else type_.unit]
    bound = INT64_MAX // factor
    return np.clip(wholes(values), -bound, bound) * factor, zoned, None


def _of_texts(values: pa.LargeStringArray, form: DateForm) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    offsets, data = text_buffers(values)
    if not form.formats:
        moments, states = read_dates(offsets, data, -1 if form.day_first is None else int(form.day_first))
    elif form.formats[0] in EPOCHS:
        moments, states = read_epochs(offsets, data, EPOCHS[form.formats[0]])
    else:
        moments, states = read_formats(offsets, data, form.formats)
    return moments, states == ZONED, _or_none(states == UNREADABLE)


def _or_none(rows: np.ndarray) -> np.ndarray | None:
    return rows if rows.any() else None


def _of_numbers(values: pa.Array, form: DateForm) -> tuple[np.ndarray, np.ndarray | bool, np.ndarray]:
    """Numbers since 1970; or the digits of whole numbers, such as 20140401, in a format."""
    unreadable = np.zeros(len(values), np.bool_)
    if pa.types.is_integer(values.type):
        numbers = wholes(values)
    else:
        doubles = unboxed(pc.fill_null(pc.cast(values, pa.float64(), safe=False), 0.0))
        unit = EPOCHS.get(form.formats[0], 1)
        with np.errstate(all="ignore"):
            scaled = np.floor(doubles * unit if unit > 1 else doubles / 1_000 if unit == 0 else doubles)
            unreadable = ~(np.abs(scaled) < 2.0**62) | ((form.formats[0] not in EPOCHS) & (scaled != doubles))
        numbers = np.where(unreadable, 0.0, scaled).astype(np.int64)
    if form.formats[0] not in EPOCHS:
        moments, states = read_formats(*text_buffers(texts(pc.cast(pa.array(numbers), pa.string()))), form.formats)
        return moments, states == ZONED, unreadable | (states == UNREADABLE)
    if pa.types.is_integer(values.type):
        unit = EPOCHS[form.formats[0]]
        bound = MOST // max(unit, 1)
        numbers = np.clip(numbers, -bound, bound) * unit if unit else numbers // 1_000
    return numbers, True, unreadable | (numbers < FEWEST) | (numbers >= MOST)
