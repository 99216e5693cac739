"""One date or moment written as text, read by its bytes without Python per row and without ever raising.

Understood without being told (white space around it does not count; docs/formats.md has examples):
- `2014-04-01`, with `/` or `.` as well, month and day of one or two digits; `20140401`, and `20140401180600`;
- a month by its English name: `1 Apr 2014`, `01-Apr-2014`, `April 1, 2014`, a weekday before it or not;
- after it, if anything: blanks, a comma or `T`, then `18:06`, `18:06:30`, a fraction (cut to microseconds), or a clock
  of 12 hours with AM or PM; after `T` also `1806` and `180630`; then `Z`, `UTC`, `GMT` or an offset (`+02`, `+0200`,
  `+02:00`).
Understood if the spec says which comes first, day or month: `01/04/2014`, also with `.` or `-`.
Anything else is unreadable: two digits of a year, 30 February, hour 24, other zones' names.

A reading is a state (UNREADABLE, LOCAL, or ZONED if an offset was given) and microseconds since 1970, in UTC if ZONED.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from understudy.pipelines.table.binning import MICROSECONDS_A_DAY
from understudy.pipelines.table.reading.date_pieces import (
    LOCAL,
    NO_OFFSET,
    UNREADABLE,
    ZONED,
    after_blanks,
    before_blanks,
    days_of,
    digits,
    fraction,
    half_of_day,
    is_day,
    month_name,
    offset_minutes,
    run_of_digits,
    run_of_letters,
    weekday_name,
)


@njit(cache=True, nogil=True)
def _clock(data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """State and microseconds of what follows a date, nothing or a time; they are to be added to midnight."""
    if at == end:
        return LOCAL, 0
    begin = at
    if data[at] == 44:
        at += 1
    is_t = at < end and data[at] | 32 == 116
    at = at + 1 if is_t else after_blanks(data, at, end)
    if at == begin:
        return UNREADABLE, 0
    count = run_of_digits(data, at, end)
    seconds, microseconds, to_the_second = 0, 0, False
    if is_t and (count == 4 or count == 6):
        hours, minutes = digits(data, at, 2, end), digits(data, at + 2, 2, end)
        to_the_second = count == 6
        seconds = digits(data, at + 4, 2, end) if to_the_second else 0
        at += count
    else:
        if count < 1 or count > 2 or at + count >= end or data[at + count] != 58:
            return UNREADABLE, 0
        hours, minutes = digits(data, at, count, end), digits(data, at + count + 1, 2, end)
        at += count + 3
        to_the_second = minutes >= 0 and at < end and data[at] == 58
        if to_the_second:
            seconds = digits(data, at + 1, 2, end)
            at += 3
    if to_the_second and seconds >= 0 and at < end and (data[at] == 46 or data[at] == 44):
        if not run_of_digits(data, at + 1, end):
            return UNREADABLE, 0
        microseconds, at = fraction(data, at + 1, end)
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59 or seconds < 0 or seconds > 59:
        return UNREADABLE, 0
    half, after = half_of_day(data, after_blanks(data, at, end), end)
    if half >= 0:
        if hours < 1 or hours > 12:
            return UNREADABLE, 0
        hours, at = hours % 12 + 12 * half, after
    moment = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + microseconds
    at = after_blanks(data, at, end)
    if at == end:
        return LOCAL, moment
    east, after = offset_minutes(data, at, end)
    if east == NO_OFFSET or after != end:
        return UNREADABLE, 0
    return ZONED, moment - east * 60_000_000


@njit(cache=True, nogil=True)
def iso_moment(data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """The form that nearly every source writes, read first: `YYYY-MM-DD`, T or one blank, `HH:MM`, and so on."""
    if end - at < 10 or data[at + 4] != 45 or data[at + 7] != 45:
        return UNREADABLE, 0
    year, month, day = digits(data, at, 4, end), digits(data, at + 5, 2, end), digits(data, at + 8, 2, end)
    if not is_day(year, month, day):
        return UNREADABLE, 0
    state, moment = _clock(data, at + 10, end)
    return state, days_of(year, month, day) * MICROSECONDS_A_DAY + moment


@njit(cache=True, nogil=True)
def loose_moment(data: np.ndarray, at: int, end: int, day_first: int) -> tuple[int, int]:
    """The other forms; `day_first` is 1, 0, or -1 where the spec does not say."""
    weekday, after = weekday_name(data, at, end)
    if weekday:
        at = after
        if at < end and (data[at] == 44 or data[at] == 46):
            at += 1
        at = after_blanks(data, at, end)
    count = run_of_digits(data, at, end)
    year, month, day = 0, 0, 0
    if count == 8 or count == 14:
        year, month, day = digits(data, at, 4, end), digits(data, at + 4, 2, end), digits(data, at + 6, 2, end)
        if count == 14:
            if at + 14 != end or not is_day(year, month, day):
                return UNREADABLE, 0
            hours, minutes = digits(data, at + 8, 2, end), digits(data, at + 10, 2, end)
            seconds = digits(data, at + 12, 2, end)
            if hours > 23 or minutes > 59 or seconds > 59:
                return UNREADABLE, 0
            return LOCAL, days_of(year, month, day) * MICROSECONDS_A_DAY + (
                (hours * 60 + minutes) * 60 + seconds
            ) * 1_000_000
        at += 8
    elif count == 4:
        mark, first = _mark(data, at + 4, end), at + 5
        second = first + run_of_digits(data, first, end) + 1
        if mark == 0 or _mark(data, second - 1, end) != mark:
            return UNREADABLE, 0
        year, month = digits(data, at, 4, end), _short(data, first, end)
        day, at = _short(data, second, end), second + run_of_digits(data, second, end)
    elif count == 1 or count == 2:
        number, at = digits(data, at, count, end), at + count
        mark = _mark(data, at, end)
        if mark and run_of_digits(data, at + 1, end) and day_first >= 0:
            other, at = _short(data, at + 1, end), at + 1 + run_of_digits(data, at + 1, end)
            if _mark(data, at, end) != mark:
                return UNREADABLE, 0
            day, month = (number, other) if day_first == 1 else (other, number)
            at += 1
        else:
            day = number
            at = at + 1 if mark else after_blanks(data, _after_ordinal(data, at, end), end)
            month, at = month_name(data, at, end)
            if at < end and mark:
                if data[at] != mark:
                    return UNREADABLE, 0
                at += 1
            else:
                at = _after_stop(data, at, end)
        if run_of_digits(data, at, end) != 4:
            return UNREADABLE, 0
        year, at = digits(data, at, 4, end), at + 4
    else:
        month, at = month_name(data, at, end)
        at = _after_stop(data, at, end)
        count = run_of_digits(data, at, end)
        if not month or count < 1 or count > 2:
            return UNREADABLE, 0
        day = digits(data, at, count, end)
        at = _after_stop(data, _after_ordinal(data, at + count, end), end)
        if run_of_digits(data, at, end) != 4:
            return UNREADABLE, 0
        year, at = digits(data, at, 4, end), at + 4
    if not is_day(year, month, day):
        return UNREADABLE, 0
    state, moment = _clock(data, at, end)
    return state, days_of(year, month, day) * MICROSECONDS_A_DAY + moment


@njit(cache=True, nogil=True)
def _mark(data: np.ndarray, at: int, end: int) -> int:
    """The dash, point or slash that stands here, or 0."""
    return int(data[at]) if at < end and 45 <= data[at] <= 47 else 0


@njit(cache=True, nogil=True)
def _short(data: np.ndarray, at: int, end: int) -> int:
    """The number of one or two digits that stands here, or -1."""
    count = run_of_digits(data, at, end)
    return digits(data, at, count, end) if 1 <= count <= 2 else -1


@njit(cache=True, nogil=True)
def _after_ordinal(data: np.ndarray, at: int, end: int) -> int:
    """Past the st, nd, rd or th of a day."""
    if at + 2 <= end and run_of_letters(data, at, end) == 2:
        first, second = data[at] | 32, data[at + 1] | 32
        if (
            (first == 115 and second == 116)
            or (first == 110 and second == 100)
            or (first == 114 and second == 100)
            or (first == 116 and second == 104)
        ):
            return at + 2
    return at


@njit(cache=True, nogil=True)
def _after_stop(data: np.ndarray, at: int, end: int) -> int:
    """Past a point or a comma, and blanks."""
    if at < end and (data[at] == 44 or data[at] == 46):
        at += 1
    return after_blanks(data, at, end)


def read_dates(offsets: np.ndarray, data: np.ndarray, day_first: int) -> tuple[np.ndarray, np.ndarray]:
    """Moments and states of texts: a first pass for the form that nearly every source writes, a second for the rest."""
    moments, states = np.zeros(len(offsets) - 1, np.int64), np.zeros(len(offsets) - 1, np.uint8)
    _read_iso(offsets, data, moments, states)
    if (rest := np.flatnonzero(states == UNREADABLE)).size:
        _read_loose(rest, offsets, data, day_first, moments, states)
    return moments, states


@njit(cache=True, nogil=True)
def _read_loose(
    rows: np.ndarray, offsets: np.ndarray, data: np.ndarray, day_first: int, moments: np.ndarray, states: np.ndarray
) -> None:
    for row in rows:
        at = after_blanks(data, offsets[row], offsets[row + 1])
        end = before_blanks(data, at, offsets[row + 1])
        states[row], moments[row] = loose_moment(data, at, end, day_first)


@njit(cache=True, nogil=True)
def _read_iso(offsets: np.ndarray, data: np.ndarray, moments: np.ndarray, states: np.ndarray) -> None:
    """`YYYY-MM-DD`, T or a blank, `HH:MM`, `:SS`, a fraction, a zone; what is not written so is left for later."""
    for row in range(len(moments)):
        at, end = offsets[row], offsets[row + 1]
        while at < end and (data[at] == 32 or 9 <= data[at] <= 13):
            at += 1
        while end > at and (data[end - 1] == 32 or 9 <= data[end - 1] <= 13):
            end -= 1
        if end - at < 10 or data[at + 4] != 45 or data[at + 7] != 45:
            continue
        year, month, day = digits(data, at, 4, end), digits(data, at + 5, 2, end), digits(data, at + 8, 2, end)
        if not is_day(year, month, day):
            continue
        moment = days_of(year, month, day) * MICROSECONDS_A_DAY
        state = LOCAL
        at += 10
        if at < end:
            if (data[at] != 84 and data[at] != 32) or end - at < 6 or data[at + 3] != 58:
                continue
            hours, minutes = digits(data, at + 1, 2, end), digits(data, at + 4, 2, end)
            seconds, microseconds = 0, 0
            at += 6
            if at < end and data[at] == 58:
                seconds = digits(data, at + 1, 2, end)
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
            east = 0
            if at < end:
                east, at = offset_minutes(data, at, end)
                state = ZONED
                if at != end or east == NO_OFFSET:
                    continue
            moment += ((hours * 60 + minutes - east) * 60 + seconds) * 1_000_000 + microseconds
        moments[row] = moment
        states[row] = state
