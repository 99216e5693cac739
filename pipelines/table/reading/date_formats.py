"""Dates and moments in a declared strptime format, or as numbers since 1970: row by row, without ever raising.

A format is a short program of bytes and directives, run over each text. As in strptime, numbers may have fewer digits
than usual, names are English and in any case, and a blank stands for any white space. Two digits of a year are 1969 to
2068. Text in the ISO form is understood besides, unless the format itself begins with a year: databases and programs
hand on their own dates in it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from understudy.pipelines.spec.formats import format_pieces
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
    weekday_name,
)
from understudy.pipelines.table.reading.date_text import iso_moment

_LITERAL, _BLANK = 0, 1
FEWEST = MICROSECONDS_A_DAY * -719_162  # year 1
MOST = MICROSECONDS_A_DAY * 2_932_897  # year 10000


def read_formats(offsets: np.ndarray, data: np.ndarray, formats: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Moments and states of texts: the first of the formats that fits a text reads it."""
    rows = len(offsets) - 1
    moments, states = np.zeros(rows, np.int64), np.zeros(rows, np.uint8)
    for format_ in formats:
        _run(_program(format_), offsets, data, not format_.strip().startswith(("%Y", "%F")), moments, states)
    return moments, states


def read_epochs(offsets: np.ndarray, data: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of numbers since 1970, of so many microseconds each (0: a thousandth)."""
    rows = len(offsets) - 1
    moments, states = np.zeros(rows, np.int64), np.zeros(rows, np.uint8)
    _epochs(offsets, data, unit, moments, states)
    return moments, states


@lru_cache(maxsize=256)
def _program(format_: str) -> np.ndarray:
    steps: list[tuple[int, int]] = []
    for kind, what in format_pieces(format_):
        if kind == "directive":
            steps.append((ord(what), 0))
        elif kind == "blank":
            steps.append((_BLANK, 0))
        else:
            steps += [(_LITERAL, byte) for byte in what.encode()]
    return np.array(steps, np.int64).reshape(len(steps), 2)


@njit(cache=True, nogil=True)
def _run(
    program: np.ndarray, offsets: np.ndarray, data: np.ndarray, also_iso: bool, moments: np.ndarray, states: np.ndarray
) -> None:
    for row in range(len(moments)):
        if states[row] != UNREADABLE:
            continue
        at = after_blanks(data, offsets[row], offsets[row + 1])
        end = before_blanks(data, at, offsets[row + 1])
        state, moment = _moment(program, data, at, end)
        if state == UNREADABLE and also_iso:
            state, moment = iso_moment(data, at, end)
        states[row] = state
        moments[row] = moment


@njit(cache=True, nogil=True)
def _number(data: np.ndarray, at: int, end: int, most: int) -> tuple[int, int]:
    """The number of at most so many digits that stands here, -1 if none does, and where it ends."""
    count = min(run_of_digits(data, at, end), most)
    return (digits(data, at, count, end) if count else -1), at + count


@njit(cache=True, nogil=True)
def _moment(program: np.ndarray, data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    year, month, day, of_year = 0, 1, 1, 0
    hours, minutes, seconds, microseconds, half, east, zoned = 0, 0, 0, 0, -1, 0, False
    for step in range(len(program)):
        op = program[step, 0]
        if op == _LITERAL:
            if at >= end or data[at] != program[step, 1]:
                return UNREADABLE, 0
            at += 1
        elif op == _BLANK:
            after = after_blanks(data, at, end)
            if after == at:
                return UNREADABLE, 0
            at = after
        elif op == 89:  # Y
            if run_of_digits(data, at, end) < 4:
                return UNREADABLE, 0
            year, at = digits(data, at, 4, end), at + 4
        elif op == 121:  # y
            year, at = _number(data, at, end, 2)
            if year < 0:
                return UNREADABLE, 0
            year += 1900 if year >= 69 else 2000
        elif op == 109:  # m
            month, at = _number(data, at, end, 2)
        elif op == 98 or op == 66:  # b, B
            month, at = month_name(data, at, end)
        elif op == 100 or op == 101:  # d, e
            if op == 101:
                at = after_blanks(data, at, end)
            day, at = _number(data, at, end, 2)
        elif op == 106:  # j
            of_year, at = _number(data, at, end, 3)
            if of_year < 1 or of_year > 366:
                return UNREADABLE, 0
        elif op == 72 or op == 73:  # H, I
            hours, at = _number(data, at, end, 2)
            if hours < 0 or hours > 23 or (op == 73 and (hours < 1 or hours > 12)):
                return UNREADABLE, 0
        elif op == 77:  # M
            minutes, at = _number(data, at, end, 2)
            if minutes < 0 or minutes > 59:
                return UNREADABLE, 0
        elif op == 83:  # S
            seconds, at = _number(data, at, end, 2)
            if seconds < 0 or seconds > 59:
                return UNREADABLE, 0
        elif op == 102:  # f
            if not run_of_digits(data, at, end):
                return UNREADABLE, 0
            microseconds, at = fraction(data, at, end)
        elif op == 112:  # p
            half, at = half_of_day(data, at, end)
            if half < 0:
                return UNREADABLE, 0
        elif op == 97 or op == 65:  # a, A
            name, at = weekday_name(data, at, end)
            if not name:
                return UNREADABLE, 0
        else:  # z, Z
            east, at = offset_minutes(data, at, end)
            if east == NO_OFFSET:
                return UNREADABLE, 0
            zoned = True
    if at != end or not is_day(year, month, day):
        return UNREADABLE, 0
    if of_year == 366 and not is_day(year, 2, 29):
        return UNREADABLE, 0
    if half >= 0:
        hours = hours % 12 + 12 * half
    days = days_of(year, month, day) + (of_year - 1 if of_year else 0)
    moment = ((hours * 60 + minutes - east) * 60 + seconds) * 1_000_000 + microseconds
    return (ZONED if zoned else LOCAL), days * MICROSECONDS_A_DAY + moment


@njit(cache=True, nogil=True)
def _epochs(offsets: np.ndarray, data: np.ndarray, unit: int, moments: np.ndarray, states: np.ndarray) -> None:
    for row in range(len(moments)):
        at = after_blanks(data, offsets[row], offsets[row + 1])
        end = before_blanks(data, at, offsets[row + 1])
        negative = at < end and data[at] == 45
        first = at + 1 if at < end and (data[at] == 45 or data[at] == 43) else at
        count = run_of_digits(data, first, end)
        after = first + count
        tail = run_of_digits(data, after + 1, end) if after < end and data[after] == 46 else 0
        ended = after == end or (data[after] == 46 and after + 1 + tail == end)
        if count < 1 or count > 19 or not ended:
            states[row], moments[row] = iso_moment(data, at, end)
            continue
        moment = 0
        digits_left = count - 3 if unit == 0 else count
        overflow = False  # more microseconds than ten thousand years have
        for i in range(first, first + max(0, digits_left)):
            overflow = bool(
                overflow or moment > 300_000_000_000_000_000
            )  # more microseconds than ten thousand years have
            moment = 0 if overflow else moment * 10 + (data[i] - 48)
        exact = unit == 0 and count > 3 and _any_digit(data, first + count - 3, first + count)
        if unit > 1 and not overflow:
            overflow = bool(moment > 300_000_000_000_000_000 // unit)
            moment = 0 if overflow else moment * unit
            scale = unit // 10
            for i in range(after + 1, after + 1 + tail):
                moment += (data[i] - 48) * scale
                scale //= 10
        elif unit == 0 and count <= 3:
            exact = _any_digit(data, first, first + count)
        beyond = exact or (unit <= 1 and tail > 0 and _any_digit(data, after + 1, after + 1 + tail))
        if negative:
            moment = -moment - (1 if beyond else 0)  # rounded down, as whole numbers are
        if overflow or moment < FEWEST or moment >= MOST:
            states[row] = UNREADABLE
        else:
            states[row], moments[row] = ZONED, moment


@njit(cache=True, nogil=True)
def _any_digit(data: np.ndarray, start: int, end: int) -> bool:
    """Whether a digit other than 0 stands there."""
    found = False
    for i in range(start, end):
        found = bool(found or 49 <= data[i] <= 57)
    return found
