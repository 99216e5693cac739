"""Dates and moments written as text, read without Python per row and without ever raising.

Accepted, after trimming ASCII white space: `YYYY-MM-DD`, optionally followed by `T` or a space, `HH:MM`,
optional `:SS`, optional fraction of a second (cut to microseconds), optional `Z` or offset (`+HH`, `+HHMM`,
`+HH:MM`). Moments with an offset are taken in UTC. Anything else, such as 30 February, is unreadable.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

from understudy.pipelines.table.domain import MICROSECONDS_A_DAY
from understudy.pipelines.table.reading.arrow import INT64_MAX, is_text, text_buffers, texts, wholes

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def moments_of(values: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """Microseconds since 1970, nulls arbitrary; and which texts could be read, None where every value can."""
    type_ = values.type
    if is_text(type_):
        return read_moments(texts(values))
    if pa.types.is_date32(type_):
        return np.clip(wholes(values), -(10**8), 10**8) * MICROSECONDS_A_DAY, None
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return wholes(values) // 1_000, None
    factor = _MICROSECONDS["ms" if pa.types.is_date64(type_) else type_.unit]
    bound = INT64_MAX // factor
    return np.clip(wholes(values), -bound, bound) * factor, None


def read_moments(values: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds since 1970 and whether each text could be read; null texts give an arbitrary pair."""
    offsets, data = text_buffers(values)
    moments = np.zeros(len(values), np.int64)
    known = np.zeros(len(values), np.bool_)
    _read(offsets, data, moments, known)
    return moments, known


@njit(cache=True, nogil=True)
def _digits(data: np.ndarray, start: int, count: int, end: int) -> int:
    """The number spelled by `count` digits, or -1."""
    if start + count > end:
        return -1
    number = 0
    for i in range(start, start + count):
        if data[i] < 48 or data[i] > 57:
            return -1
        number = number * 10 + (data[i] - 48)
    return number


@njit(cache=True, nogil=True)
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar (Hinnant's days_from_civil), for years 1 to 9999."""
    shifted = year - 1 if month <= 2 else year
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


@njit(cache=True, nogil=True)
def _month_length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@njit(cache=True, nogil=True)
def _offset_minutes(data: np.ndarray, at: int, end: int) -> int:
    """Minutes east of UTC of the zone written in data[at:end], or 10_000 if it is not one."""
    if at == end or (at + 1 == end and (data[at] == 90 or data[at] == 122)):
        return 0
    if data[at] != 43 and data[at] != 45:
        return 10_000
    hours = _digits(data, at + 1, 2, end)
    minutes, rest = 0, at + 3
    if rest < end:
        if data[rest] == 58:
            rest += 1
        minutes = _digits(data, rest, 2, end)
        rest += 2
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59 or rest != end:
        return 10_000
    east = hours * 60 + minutes
    return east if data[at] == 43 else -east


@njit(cache=True, nogil=True)
def _read(offsets: np.ndarray, data: np.ndarray, moments: np.ndarray, known: np.ndarray) -> None:
    for row in range(len(moments)):
        at, end = offsets[row], offsets[row + 1]
        while at < end and (data[at] == 32 or 9 <= data[at] <= 13):
            at += 1
        while end > at and (data[end - 1] == 32 or 9 <= data[end - 1] <= 13):
            end -= 1
        if end - at < 10 or data[at + 4] != 45 or data[at + 7] != 45:
            continue
        year, month, day = (
            _digits(data, at, 4, end),
            _digits(data, at + 5, 2, end),
            _digits(data, at + 8, 2, end),
        )
        if year < 1 or month < 1 or month > 12 or day < 1 or day > _month_length(year, month):
            continue
        moment = _days(year, month, day) * MICROSECONDS_A_DAY
        at += 10
        if at < end:
            if (data[at] != 84 and data[at] != 32) or end - at < 6 or data[at + 3] != 58:
                continue
            hours, minutes = _digits(data, at + 1, 2, end), _digits(data, at + 4, 2, end)
            seconds, microseconds = 0, 0
            at += 6
            if at < end and data[at] == 58:
                seconds = _digits(data, at + 1, 2, end)
                at += 3
                if seconds >= 0 and at < end and data[at] == 46:
                    at += 1
                    scale, first = 100_000, at
                    while at < end and 48 <= data[at] <= 57:
                        microseconds += (data[at] - 48) * scale
                        scale //= 10
                        at += 1
                    if at == first:
                        continue
            if hours < 0 or hours > 23 or minutes < 0 or minutes > 59 or seconds < 0 or seconds > 59:
                continue
            east = _offset_minutes(data, at, end)
            if east == 10_000:
                continue
            moment += ((hours * 60 + minutes - east) * 60 + seconds) * 1_000_000 + microseconds
        moments[row] = moment
        known[row] = True
