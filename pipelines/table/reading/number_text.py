"""Numbers written as text, spelled anew so that one exact parser reads all of them. Row by row, without ever raising.

Understood without being told (white space around it does not count): a sign, digits with a point, an exponent; one
currency sign before or after the digits; parentheses or a minus after them for a negative number.
Understood if the spec says so: a decimal comma, marks between thousands (which then may only stand where thousands are:
`1,5` is no number with `thousands: ","`), per cent, and other units before or after the digits.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from understudy.pipelines.spec.formats import NumberForm
from understudy.pipelines.table.reading.arrow import text_buffers, unboxed

_PLAIN = NumberForm()
_TENS = np.array([float(10**power) for power in range(17)])
_BLANK_THOUSANDS, _QUOTE_THOUSANDS = 32, 39


def numbers_in(values: pa.LargeStringArray, form: NumberForm | None) -> np.ndarray:
    """Doubles, NaN where unreadable; nulls become arbitrary."""
    form = form or _PLAIN
    offsets, data = text_buffers(values)
    numbers = np.empty(len(values))
    rest = np.empty(len(values), np.int64)
    left = _read_short(offsets, data, ord(form.decimal), _TENS, numbers, rest)
    if left:
        rest = rest[:left]
        numbers[rest] = _spelled(values if left == len(values) else values.take(pa.array(rest)), form)
    return numbers


def _spelled(values: pa.LargeStringArray, form: NumberForm) -> np.ndarray:
    """Of texts of every kind: spelled anew, and then read by Arrow's parser."""
    offsets, data = text_buffers(values)
    spans = np.zeros(len(offsets), np.int64)
    spelled = np.empty(int(offsets[-1] - offsets[0]) + 4 * len(values), np.uint8)
    percent = {None: 0, "number": 1, "fraction": 2}[form.percent]
    thousands = ord(form.thousands) if form.thousands else 0
    _spell(offsets, data, ord(form.decimal), thousands, percent, *_units(form.units), spans, spelled)
    anew = pa.LargeStringArray.from_buffers(len(values), pa.py_buffer(spans), pa.py_buffer(spelled))
    return unboxed(pc.cast(anew, pa.float64()))


@njit(cache=True, nogil=True)
def _read_short(
    offsets: np.ndarray, data: np.ndarray, decimal: int, tens: np.ndarray, numbers: np.ndarray, rest: np.ndarray
) -> int:
    """Plain numbers of at most 15 digits, as nearly all are; how many rows are left, which `rest` then begins with.

    Exact: digits without their point are a whole number below 2^53, the power of ten is a double too, and the quotient
    of two doubles is rounded once (Clinger 1990, the fast case of reading decimals).
    """
    left = 0
    for row in range(len(numbers)):
        at, end = offsets[row], offsets[row + 1]
        while at < end and data[at] == 32:
            at += 1
        while end > at and data[end - 1] == 32:
            end -= 1
        negative = at < end and data[at] == 45
        if negative:
            at += 1
        number, point, plain = 0, end, 0 < end - at <= 16
        if plain:
            for i in range(at, end):
                digit = data[i] - 48
                if 0 <= digit <= 9:
                    number = number * 10 + digit
                elif data[i] == decimal and point == end:
                    point = i
                else:
                    plain = False
                    break
        decimals = end - 1 - point if point < end else 0
        count = end - at - (1 if point < end else 0)
        if plain and 0 < count <= 15:
            value = number / tens[decimals]
            numbers[row] = -value if negative else value
        else:
            rest[left] = row
            left += 1
    return left


@lru_cache(maxsize=256)
def _units(units: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Their bytes one after the other, and where each begins."""
    encoded = sorted((unit.encode() for unit in units), key=len, reverse=True)
    starts = np.cumsum([0, *(len(unit) for unit in encoded)]).astype(np.int64)
    return np.frombuffer(b"".join(encoded) or b"\0", np.uint8).copy(), starts


@njit(cache=True, nogil=True)
def _blank(data: np.ndarray, at: int, end: int) -> int:
    """How many bytes of a blank stand here: ASCII white space, or a space that does not break."""
    if at >= end:
        return 0
    if data[at] == 32 or 9 <= data[at] <= 13:
        return 1
    if at + 1 < end and data[at] == 0xC2 and data[at + 1] == 0xA0:
        return 2
    if at + 2 < end and data[at] == 0xE2 and data[at + 1] == 0x80 and (data[at + 2] == 0xAF or data[at + 2] == 0x89):
        return 3
    return 0


@njit(cache=True, nogil=True)
def _after_blanks(data: np.ndarray, at: int, end: int) -> int:
    while True:
        step = _blank(data, at, end)
        if step == 0:
            return at
        at += step


@njit(cache=True, nogil=True)
def _sign(data: np.ndarray, at: int, end: int) -> int:
    """How many bytes of a plus or minus stand here, negative for a minus."""
    if at >= end:
        return 0
    if data[at] == 43:
        return 1
    if data[at] == 45:
        return -1
    return -3 if at + 2 < end and data[at] == 0xE2 and data[at + 1] == 0x88 and data[at + 2] == 0x92 else 0


@njit(cache=True, nogil=True)
def _unit(data: np.ndarray, at: int, end: int, units: np.ndarray, starts: np.ndarray) -> int:
    """How many bytes of a currency sign or a declared unit stand here."""
    if at >= end:
        return 0
    for number in range(len(starts) - 1):
        length = starts[number + 1] - starts[number]
        if at + length <= end:
            same = True
            for i in range(length):
                same = same and data[at + i] == units[starts[number] + i]
            if same:
                return int(length)
    if data[at] == 36:
        return 1
    if at + 1 < end and data[at] == 0xC2 and (data[at + 1] == 0xA3 or data[at + 1] == 0xA5):
        return 2
    return 3 if at + 2 < end and data[at] == 0xE2 and data[at + 1] == 0x82 and data[at + 2] >= 0xA0 else 0


@njit(cache=True, nogil=True)
def _separator(data: np.ndarray, at: int, end: int, thousands: int) -> int:
    """How many bytes of the mark between thousands stand here."""
    if thousands == 0 or at >= end:
        return 0
    if thousands == _BLANK_THOUSANDS:
        return _blank(data, at, end)
    if thousands == _QUOTE_THOUSANDS and at + 2 < end and data[at] == 0xE2 and data[at + 1] == 0x80:
        return 3 if data[at + 2] == 0x99 else 0
    return 1 if data[at] == thousands else 0


@njit(cache=True, nogil=True)
def _is_digit(data: np.ndarray, at: int, end: int) -> bool:
    return bool(at < end and 48 <= data[at] <= 57)


@njit(cache=True, nogil=True)
def _spell(
    offsets: np.ndarray,
    data: np.ndarray,
    decimal: int,
    thousands: int,
    percent: int,
    units: np.ndarray,
    starts: np.ndarray,
    spans: np.ndarray,
    spelled: np.ndarray,
) -> None:
    out = 0
    for row in range(len(spans) - 1):
        written = _spell_one(
            data, offsets[row], offsets[row + 1], decimal, thousands, percent, units, starts, spelled, out
        )
        if written < 0:
            spelled[out], spelled[out + 1], spelled[out + 2] = 110, 97, 110  # nan
            written = out + 3
        out = written
        spans[row + 1] = out


@njit(cache=True, nogil=True)
def _spell_one(
    data: np.ndarray,
    at: int,
    end: int,
    decimal: int,
    thousands: int,
    percent: int,
    units: np.ndarray,
    starts: np.ndarray,
    spelled: np.ndarray,
    out: int,
) -> int:
    """Write the number that a text is from `out` on, and tell where it ends; -1 if the text is none."""
    at = _after_blanks(data, at, end)
    wrapped = at < end and data[at] == 40
    if wrapped:
        at = _after_blanks(data, at + 1, end)
    signed, named, negative = wrapped, False, wrapped
    while True:  # a sign and a unit, in either order
        sign = _sign(data, at, end)
        if sign != 0 and not signed:
            signed, negative = True, sign < 0
            at = _after_blanks(data, at + abs(sign), end) if named else at + abs(sign)
            continue
        unit = _unit(data, at, end, units, starts)
        if unit and not named:
            named = True
            at = _after_blanks(data, at + unit, end)
            continue
        break
    if negative:
        spelled[out] = 45
        out += 1
    begin = out
    group, groups = 0, 0
    while at < end:
        if _is_digit(data, at, end):
            spelled[out] = data[at]
            out += 1
            at += 1
            group += 1
            continue
        mark = _separator(data, at, end, thousands)
        if mark == 0 or not _is_digit(data, at + mark, end) or group == 0:
            break
        if group > 3 or (groups and group == 1):
            return -1
        group, groups, at = 0, groups + 1, at + mark
    if groups and group != 3:
        return -1
    whole = out - begin
    decimals = 0
    if at < end and data[at] == decimal:
        spelled[out] = 46
        out += 1
        at += 1
        while _is_digit(data, at, end):
            spelled[out] = data[at]
            out += 1
            at += 1
            decimals += 1
    if whole + decimals == 0:
        return -1
    powered = at < end and data[at] | 32 == 101 and groups == 0
    if powered:
        after = at + 1
        if after < end and (data[after] == 43 or data[after] == 45):
            after += 1
        count = 0
        while _is_digit(data, after + count, end):
            count += 1
        powered = 1 <= count <= 6
        if powered:
            for i in range(at, after + count):
                spelled[out] = data[i]
                out += 1
            at = after + count
    cent = False
    while True:  # per cent, a unit and a minus, in any order
        at = _after_blanks(data, at, end)
        if at == end:
            break
        if data[at] == 37 and percent and not cent and not powered:
            cent, at = True, at + 1
            continue
        unit = _unit(data, at, end, units, starts)
        if unit and not named:
            named, at = True, at + unit
            continue
        if data[at] == 45 and not signed:
            signed, negative, at = True, True, at + 1
            for i in range(out, begin, -1):
                spelled[i] = spelled[i - 1]
            spelled[begin] = 45
            out += 1
            continue
        if data[at] == 41 and wrapped:
            wrapped, at = False, at + 1
            continue
        return -1
    if wrapped:
        return -1
    if cent and percent == 2:
        spelled[out], spelled[out + 1], spelled[out + 2] = 101, 45, 50  # e-2: exact in decimals
        out += 3
    return out
