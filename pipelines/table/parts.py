"""A datetime by its parts: the date in its bins, the weekday, the hour, the minute, each a column that is counted.

Taking apart is total and row by row, like all reading: a value that is null or cannot be read has no parts. Putting
together is post-processing. The date's bin says from which days the day is taken, and the weekday which of them: one of
the bin's days of that weekday, as far into the bin as the date was drawn. So weekday and date always agree. Only where
the bin has no such day (the first and last weeks are cut at the bounds) the date's own weekday stands. A part that came
out null beside a date that did not is taken from another row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.binning import MICROSECONDS_A_DAY
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.composed import Split
from understudy.pipelines.table.declared import MICROSECONDS_AN_HOUR
from understudy.pipelines.table.reading.values import UNDERSTOOD, read

MICROSECONDS_A_MINUTE = 60_000_000
THURSDAY = 3
"""The first of January 1970."""


def read_moments(values: pa.Array, column: DomainColumn) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds since 1970, arbitrary where the second array says that there is no moment."""
    found = read(values, column)
    return found.numbers, found.kinds(column) == UNDERSTOOD


def take_apart(values: pa.Array, split: Split) -> dict[str, pa.Array]:
    """Each part by the name of its column; clipped to the bounds, so that the date and the time agree."""
    moments, known = read_moments(values, split.whole)
    low, high = split.whole.declared_span
    moments = np.clip(np.where(known, moments, low), low, high)
    days, within = np.divmod(moments, MICROSECONDS_A_DAY)
    found = {
        "date": days.astype(np.int32),
        "weekday": (days + THURSDAY) % 7,
        "hour": within // MICROSECONDS_AN_HOUR,
        "minute": within // MICROSECONDS_A_MINUTE % 60,
    }
    arrays = {part: pa.array(found[part], mask=~known) for part, _ in split.parts}
    arrays["date"] = arrays["date"].cast(pa.date32())
    return {column.name: arrays[part] for part, column in split.parts}


def put_together(table: pa.Table, split: Split, rng: np.random.Generator) -> pa.Array:
    """The moments of generated parts, at the resolution of the whole and within its bounds."""
    columns = dict(split.parts)
    date = table.column(columns["date"].name).combine_chunks()
    null = np.asarray(date.is_null())
    days = date.fill_null(0).cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64)
    parts = {
        part: _whole_part(table.column(column.name).combine_chunks(), rng)
        for part, column in columns.items()
        if part != "date"
    }
    if "weekday" in parts:
        days = _with_weekday(days, parts["weekday"], columns["date"], rng)
    step = int(split.whole.step or 1)
    moments = days * MICROSECONDS_A_DAY
    if "hour" in parts:
        moments += parts["hour"] * MICROSECONDS_AN_HOUR
        slot = MICROSECONDS_AN_HOUR
        if "minute" in parts:
            moments += parts["minute"] * MICROSECONDS_A_MINUTE
            slot = MICROSECONDS_A_MINUTE
        moments += rng.integers(0, max(slot // step, 1), len(moments)) * min(step, slot)
    elif step < MICROSECONDS_A_DAY:
        moments += rng.integers(0, MICROSECONDS_A_DAY // step, len(moments)) * step
    moments = moments // step * step if step <= MICROSECONDS_A_DAY else moments
    low, high = split.whole.declared_span
    return pa.array(np.clip(moments, low, high), mask=null).cast(pa.timestamp("us"))


def _whole_part(values: pa.Array, rng: np.random.Generator) -> np.ndarray:
    missing = np.asarray(values.is_null())
    found = np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    if missing.any() and not missing.all():
        found = np.where(missing, rng.choice(found[~missing], len(found)), found)
    return np.asarray(found)


def _with_weekday(days: np.ndarray, weekdays: np.ndarray, column: DomainColumn, rng: np.random.Generator) -> np.ndarray:
    """For each day one of the wanted weekday from the same bin, as far into the bin as the day is."""
    edges = np.array(column.edges, np.int64)
    place = np.clip(np.searchsorted(edges, days, side="right") - 1, 0, len(edges) - 2)
    start, end = edges[place], edges[place + 1]
    first = start + (weekdays - (start + THURSDAY)) % 7
    count = np.where(first < end, (end - 1 - first) // 7 + 1, 0)
    deep = (days - start + rng.random(len(days))) / np.maximum(end - start, 1)
    chosen = first + 7 * np.minimum((deep * count).astype(np.int64), np.maximum(count - 1, 0))
    return np.asarray(np.where(count > 0, chosen, days))
