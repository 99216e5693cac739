"""The pieces that dates and moments are written of, read by their bytes: digits, days, names, clocks and offsets."""

from __future__ import annotations

import numpy as np
from numba import njit

UNREADABLE, LOCAL, ZONED = 0, 1, 2
NO_OFFSET = 10_000
_MONTHS = (
    b"january  february march    april    may      june     july     august   septemberoctober  november december "
)
_MONTH_NAMES = np.frombuffer(_MONTHS, np.uint8).copy()
_WEEKDAYS = np.frombuffer(b"monday   tuesday  wednesdaythursday friday   saturday sunday   ", np.uint8).copy()
_LONGEST_NAME = 9


@njit(cache=True, nogil=True)
def digits(data: np.ndarray, start: int, count: int, end: int) -> int:
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
def run_of_digits(data: np.ndarray, at: int, end: int) -> int:
    """How many digits follow one another."""
    found = at
    while found < end and 48 <= data[found] <= 57:
        found += 1
    return found - at


@njit(cache=True, nogil=True)
def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar (Hinnant's days_from_civil), for years 1 to 9999."""
    shifted = year - 1 if month <= 2 else year
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


@njit(cache=True, nogil=True)
def is_day(year: int, month: int, day: int) -> bool:
    if year < 1 or year > 9999 or month < 1 or month > 12 or day < 1:
        return False
    if month == 2:
        return day <= (29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28)
    return day <= (30 if month in (4, 6, 9, 11) else 31)


@njit(cache=True, nogil=True)
def after_blanks(data: np.ndarray, at: int, end: int) -> int:
    while at < end and (data[at] == 32 or 9 <= data[at] <= 13):
        at += 1
    return at


@njit(cache=True, nogil=True)
def before_blanks(data: np.ndarray, at: int, end: int) -> int:
    while end > at and (data[end - 1] == 32 or 9 <= data[end - 1] <= 13):
        end -= 1
    return end


@njit(cache=True, nogil=True)
def run_of_letters(data: np.ndarray, at: int, end: int) -> int:
    found = at
    while found < end and 97 <= data[found] | 32 <= 122:
        found += 1
    return found - at


@njit(cache=True, nogil=True)
def _name(data: np.ndarray, at: int, end: int, names: np.ndarray) -> tuple[int, int]:
    """Which of the names stands here, from 1, and where it ends: in full or its first three letters; 0 if none does."""
    length = run_of_letters(data, at, end)
    if length < 3 or length > _LONGEST_NAME:
        return 0, at
    for number in range(len(names) // _LONGEST_NAME):
        start = number * _LONGEST_NAME
        same = True
        for i in range(length):
            same = same and data[at + i] | 32 == names[start + i]
        whole = length == _LONGEST_NAME or names[start + length] == 32
        if same and (length == 3 or whole or (number == 8 and length == 4)):  # "Sept" is usual
            return number + 1, at + length
    return 0, at


@njit(cache=True, nogil=True)
def month_name(data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    return _name(data, at, end, _MONTH_NAMES)


@njit(cache=True, nogil=True)
def weekday_name(data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    return _name(data, at, end, _WEEKDAYS)


@njit(cache=True, nogil=True)
def half_of_day(data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """0 for AM, 1 for PM, -1 if neither stands here, and where it ends; `a.m.` is AM."""
    if at >= end or (data[at] | 32 != 97 and data[at] | 32 != 112):
        return -1, at
    half = 1 if data[at] | 32 == 112 else 0
    dotted = at + 1 < end and data[at + 1] == 46
    after = at + 2 if dotted else at + 1
    if after >= end or data[after] | 32 != 109:
        return -1, at
    after += 1
    if dotted and after < end and data[after] == 46:
        after += 1
    return half, after


@njit(cache=True, nogil=True)
def offset_minutes(data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """Minutes east of UTC and where the zone ends, for Z, UTC, GMT, +HH, +HHMM or +HH:MM; NO_OFFSET if none is here."""
    if at >= end:
        return NO_OFFSET, at
    first = data[at] | 32
    if first == 122:
        return 0, at + 1
    if at + 3 <= end and (first == 117 or first == 103):
        second, third = data[at + 1] | 32, data[at + 2] | 32
        if (first == 117 and second == 116 and third == 99) or (first == 103 and second == 109 and third == 116):
            return 0, at + 3
    if data[at] != 43 and data[at] != 45:
        return NO_OFFSET, at
    hours = digits(data, at + 1, 2, end)
    minutes, rest = 0, at + 3
    if rest < end and (data[rest] == 58 or 48 <= data[rest] <= 57):
        if data[rest] == 58:
            rest += 1
        minutes = digits(data, rest, 2, end)
        rest += 2
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return NO_OFFSET, at
    east = hours * 60 + minutes
    return (east if data[at] == 43 else -east), rest


@njit(cache=True, nogil=True)
def fraction(data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """Microseconds of the digits that stand here, and where they end."""
    microseconds, scale = 0, 100_000
    while at < end and 48 <= data[at] <= 57:
        microseconds += (data[at] - 48) * scale
        scale //= 10
        at += 1
    return microseconds, at
