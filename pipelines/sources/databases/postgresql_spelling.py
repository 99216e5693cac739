"""Days, moments and numerics as the text that PostgreSQL writes, out of the bytes that it sends; and its numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit

_Word: TypeAlias = Any
"""A number of Python's, and a machine word once it is compiled."""
_DAY = 86_400_000_000
_ERAS = 20_000
"""Of 400 years, added so that no day is counted from below zero."""


@njit(cache=True, nogil=True, inline="always")
def whole_number(buffer: np.ndarray, place: _Word, width: int) -> _Word:
    """A signed number in network order."""
    value = np.int64(np.int8(buffer[place]))
    for i in range(1, width):
        value = value << 8 | np.int64(buffer[place + i])
    return value


@njit(cache=True, nogil=True)
def spell_moments(
    buffer: np.ndarray, at: np.ndarray, size: np.ndarray, width: int, offsets: np.ndarray, data: np.ndarray
) -> int:
    """Days (of 4 bytes) or microseconds (of 8) since 2000-01-01 as text; -1 if a value is of another size."""
    most = (np.int64(1) << (8 * width - 1)) - 1
    used = 0
    for row in range(len(at)):
        if size[row] == width:
            value = whole_number(buffer, at[row], width)
            if value == most:
                used = _word(data, used, "infinity")
            elif value == -most - 1:
                used = _word(data, used, "-infinity")
            elif width == 4:
                used = _day(data, used, value, np.int64(-1))
            else:
                day = value // _DAY
                used = _day(data, used, day, value - day * _DAY)
        elif size[row] != -1:
            return -1
        offsets[row + 1] = used
    return used


@njit(cache=True, nogil=True)
def _word(data: np.ndarray, used: int, word: str) -> int:
    for letter in word:
        data[used] = ord(letter)
        used += 1
    return used


@njit(cache=True, nogil=True, inline="always")
def _two(data: np.ndarray, used: int, number: _Word) -> int:
    tens = np.uint32(number) // np.uint32(10)  # unsigned: a division is a product then
    data[used] = np.uint32(48) + tens
    data[used + 1] = np.uint32(48) + np.uint32(number) - np.uint32(10) * tens
    return used + 2


@njit(cache=True, nogil=True, inline="always")
def _four(data: np.ndarray, used: int, number: _Word) -> int:
    hundreds = np.uint32(number) // np.uint32(100)
    used = _two(data, used, hundreds)
    return _two(data, used, np.uint32(number) - np.uint32(100) * hundreds)


@njit(cache=True, nogil=True)
def _bare(data: np.ndarray, used: int, number: _Word) -> int:
    """A number without a sign or zeros before it."""
    length, rest = 1, np.uint64(number) // np.uint64(10)
    while rest:
        length += 1
        rest //= np.uint64(10)
    rest = np.uint64(number)
    for i in range(length):
        tens = rest // np.uint64(10)
        data[used + length - 1 - i] = np.uint64(48) + rest - np.uint64(10) * tens
        rest = tens
    return used + length


@njit(cache=True, nogil=True, inline="always")
def _day(data: np.ndarray, used: int, day: _Word, time: _Word) -> int:
    """A day, counted from 2000-01-01, and, unless it is -1, the microsecond of that day.

    The Gregorian calendar repeats itself every 400 years of 146,097 days. Years are taken to begin in March, so that
    the day that leap years have is their last: then a day of the year tells the month without looking at the year.
    """
    since = np.uint64(day + 730_425 + _ERAS * 146_097)  # the first of March of a year long before any that there is
    era = since // np.uint64(146_097)
    of_era = np.uint32(since - era * np.uint64(146_097))
    century = min(of_era // np.uint32(36_524), np.uint32(3))
    of_century = np.uint32(of_era - century * np.uint32(36_524))
    four = of_century // np.uint32(1_461)
    of_four = np.uint32(of_century - four * np.uint32(1_461))
    single = min(of_four // np.uint32(365), np.uint32(3))
    of_year = np.uint32(of_four - single * np.uint32(365))
    march = np.uint32(5 * of_year + 2) // np.uint32(153)
    date = of_year - np.uint32(153 * march + 2) // np.uint32(5) + 1
    year = 400 * (np.int64(era) - _ERAS) + np.int64(100 * century + 4 * four + single) + (1 if march >= 10 else 0)
    if 0 < year < 10_000:
        used = _four(data, used, year)
    else:
        shown = year if year > 0 else 1 - year
        used = _bare(data, used, shown) if shown >= 10_000 else _four(data, used, shown)
    data[used] = 45
    used = _two(data, used + 1, march + 3 if march < 10 else march - 9)
    data[used] = 45
    used = _two(data, used + 1, date)
    if time >= 0:
        seconds = np.uint32(np.uint64(time) // np.uint64(1_000_000))
        fraction = np.uint32(np.uint64(time) - np.uint64(seconds) * np.uint64(1_000_000))
        minutes = seconds // np.uint32(60)
        hour = minutes // np.uint32(60)
        data[used] = 32
        used = _two(data, used + 1, hour)
        data[used] = 58
        used = _two(data, used + 1, minutes - 60 * hour)
        data[used] = 58
        used = _two(data, used + 1, seconds - 60 * minutes)
        if fraction:
            data[used] = 46
            most = fraction // np.uint32(10_000)
            used = _two(data, used + 1, most)
            used = _four(data, used, fraction - np.uint32(10_000) * most)
            while data[used - 1] == 48:
                used -= 1
    return used if year > 0 else _word(data, used, " BC")


@njit(cache=True, nogil=True, inline="always")
def _decimal_head(buffer: np.ndarray, place: _Word) -> tuple[_Word, _Word, _Word, _Word]:
    """How many groups of four digits there are, of what power of 10,000 the first is, the sign's word, and how many
    digits behind the point count."""
    sign = np.int64(buffer[place + 4]) << 8 | np.int64(buffer[place + 5])
    return whole_number(buffer, place, 2), whole_number(buffer, place + 2, 2), sign, whole_number(buffer, place + 6, 2)


@njit(cache=True, nogil=True)
def decimals_need(buffer: np.ndarray, at: np.ndarray, size: np.ndarray) -> int:
    """Bytes that suffice for the texts of all numerics; -1 if one is not well-formed."""
    need = 0
    for row in range(len(at)):
        if size[row] == -1:
            continue
        if size[row] < 8:
            return -1
        groups, weight, _, scale = _decimal_head(buffer, at[row])
        if groups < 0 or scale < 0 or size[row] != 8 + 2 * groups:
            return -1
        for i in range(groups):  # what is no four digits would need more room than is told here
            if not 0 <= whole_number(buffer, at[row] + 8 + 2 * i, 2) < 10_000:
                return -1
        need += 16 + 4 * (max(weight, 0) + 1) + scale
    return need


@njit(cache=True, nogil=True)
def spell_decimals(buffer: np.ndarray, at: np.ndarray, size: np.ndarray, offsets: np.ndarray, data: np.ndarray) -> int:
    """Numerics as text, without zeros at the end of a fraction; `data` has the room that `decimals_need` tells."""
    used = 0
    for row in range(len(at)):
        if size[row] >= 0:
            used = _decimal(buffer, at[row], data, used)
        offsets[row + 1] = used
    return used


@njit(cache=True, nogil=True)
def _decimal(buffer: np.ndarray, place: _Word, data: np.ndarray, used: int) -> int:
    groups, weight, sign, scale = _decimal_head(buffer, place)
    if sign == 0xC000:
        return _word(data, used, "NaN")
    if sign == 0xD000:
        return _word(data, used, "Infinity")
    if sign == 0xF000:
        return _word(data, used, "-Infinity")
    if sign == 0x4000:
        data[used] = 45
        used += 1
    place += 8
    if weight < 0:
        data[used] = 48
        used += 1
    for i in range(weight + 1):
        group = whole_number(buffer, place + 2 * i, 2) if i < groups else 0
        used = _four(data, used, group) if i else _bare(data, used, group)
    if scale:
        data[used] = 46
        point = used
        used += 1
        for i in range((scale + 3) // 4):
            of = weight + 1 + i
            group = whole_number(buffer, place + 2 * of, 2) if 0 <= of < groups else 0
            used = _four(data, used, group)
        used = point + 1 + scale
        while data[used - 1] == 48:
            used -= 1
        if used == point + 1:
            used = point
    return used
