"""Fields of PostgreSQL's binary COPY as Arrow columns: rows are told apart first, then column after column is made.

A row is a count of fields, then for each its length (-1: null) and its bytes, all in network order. Whole numbers,
doubles and booleans become themselves. Dates, moments and numerics become the text that the server would have written
(ISO, UTC, no zeros at the end of a fraction), which takes this process a tenth of what it takes the server; whatever
else was asked for comes as text. No value can make a read fail: infinite dates, years BC and NaN have their words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numba import njit

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.databases.postgresql_spelling import (
    decimals_need,
    spell_decimals,
    spell_moments,
    whole_number,
)

DAYS = ("date",)
MOMENTS = ("timestamp", "timestamptz")
DECIMALS = ("numeric",)
WRITTEN_HERE = (*DAYS, *MOMENTS, *DECIMALS)
"""Kinds that are asked for as they are and come out as text."""

_WHOLE = ("int2", "int4", "int8")
_WIDTHS = {"bool": 1, "float4": 8, "float8": 8}
"""Bytes of a value. Single-precision numbers are asked for as doubles."""
_LONGEST_MOMENT = 32
MOST_TEXT = 64 << 20
"""Bytes that numerics of one column of a batch may come to: one of 10 bytes may have 130,000 digits."""
HEAD, MORE, ENDED = 0, 1, 2
"""Where in a stream one is: before the first row, before another one, behind the last."""
_BROKEN = 3


def malformed() -> SourceError:
    """What came is no binary COPY of the columns that were asked for. Says nothing of what came instead."""
    return SourceError(
        "PostgreSQL sent something else than the columns that it was asked for", "report it; nothing was spent"
    )


def batches_of(
    buffer: np.ndarray, at: np.ndarray, size: np.ndarray, kinds: Sequence[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows that `located` found, in batches of this schema: one, unless a few bytes stand for very long numbers."""
    rows = at.shape[1]
    if not kinds:
        yield pa.RecordBatch.from_arrays([pa.nulls(rows)], ["rows"]).select([])
        return
    decimals = [i for i, kind in enumerate(kinds) if kind in DECIMALS]
    if rows > 1 and any(decimals_need(buffer, at[i], size[i]) > MOST_TEXT for i in decimals):
        yield from batches_of(buffer, at[:, : rows // 2], size[:, : rows // 2], kinds, schema)
        yield from batches_of(buffer, at[:, rows // 2 :], size[:, rows // 2 :], kinds, schema)
        return
    arrays = [_column(buffer, at[i], size[i], kind) for i, kind in enumerate(kinds)]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(buffer: np.ndarray, at: np.ndarray, size: np.ndarray, kind: str) -> pa.Array:
    rows, absent = len(at), int((size < 0).sum())
    valid = pa.py_buffer(np.packbits(size >= 0, bitorder="little")) if absent else None
    if kind in _WHOLE:
        numbers = np.zeros(rows, np.int64)
        if not _integers(buffer, at, size, numbers):
            raise malformed()
        return pa.Array.from_buffers(pa.int64(), rows, [valid, pa.py_buffer(numbers)], absent)
    if kind not in _WIDTHS:
        offsets, data = _text(buffer, at, size, kind)
        return pa.Array.from_buffers(pa.string(), rows, [valid, pa.py_buffer(offsets), pa.py_buffer(data)], absent)
    raw = np.zeros((rows, _WIDTHS[kind]), np.uint8)
    if not _fixed(buffer, at, size, raw):
        raise malformed()
    if kind == "bool":
        bits = pa.py_buffer(np.packbits(raw[:, 0] != 0, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), rows, [valid, bits], absent)
    doubles = raw.view(">f8")[:, 0].astype("f8")
    return pa.Array.from_buffers(pa.float64(), rows, [valid, pa.py_buffer(doubles)], absent)


def _text(buffer: np.ndarray, at: np.ndarray, size: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(at) + 1, np.int32)
    if kind in DAYS or kind in MOMENTS:
        wide = _LONGEST_MOMENT * len(at)
        data = np.empty(wide, np.uint8)
        used = spell_moments(buffer, at, size, 4 if kind in DAYS else 8, offsets, data)
    elif kind in DECIMALS:
        wide = decimals_need(buffer, at, size)
        data = np.empty(max(wide, 0), np.uint8)
        used = spell_decimals(buffer, at, size, offsets, data) if wide >= 0 else -1
    else:
        wide = int(np.maximum(size, 0).sum(dtype=np.int64))
        data = np.empty(wide, np.uint8)
        used = _copied(buffer, at, size, offsets, data) if wide < 2**31 else -1
    if used < 0:
        raise malformed()
    return offsets, data[:used]


@njit(cache=True, nogil=True)
def located(
    buffer: np.ndarray, start: int, end: int, fields: int, at: np.ndarray, size: np.ndarray
) -> tuple[int, int, int]:
    """Whole rows between two places of the buffer, at most as many as `at` has room for: how many they are, where the
    next begins, and whether there may be MORE, or the stream has ENDED, or is no such stream."""
    rows, here = 0, start
    while rows < at.shape[1] and here + 2 <= end:
        found = np.int64(buffer[here]) << 8 | np.int64(buffer[here + 1])
        if found == 0xFFFF:
            return rows, here + 2, ENDED
        if found != fields:
            return rows, here, _BROKEN
        place = here + 2
        for field in range(fields):
            if place + 4 > end:
                return rows, here, MORE
            length = whole_number(buffer, place, 4)
            place += 4
            if length < -1:
                return rows, here, _BROKEN
            if length > end - place:
                return rows, here, MORE
            at[field, rows] = place
            size[field, rows] = length
            if length > 0:
                place += length
        rows += 1
        here = place
    return rows, here, MORE


@njit(cache=True, nogil=True)
def _integers(buffer: np.ndarray, at: np.ndarray, size: np.ndarray, numbers: np.ndarray) -> bool:
    """Of two, four or eight bytes: what a query computes need not be as wide as the column that it is made from."""
    for row in range(len(at)):
        if size[row] == 4:
            numbers[row] = whole_number(buffer, at[row], 4)
        elif size[row] == 8:
            numbers[row] = whole_number(buffer, at[row], 8)
        elif size[row] == 2:
            numbers[row] = whole_number(buffer, at[row], 2)
        elif size[row] != -1:
            return False
    return True


@njit(cache=True, nogil=True)
def _fixed(buffer: np.ndarray, at: np.ndarray, size: np.ndarray, raw: np.ndarray) -> bool:
    width = raw.shape[1]
    for row in range(len(at)):
        if size[row] == -1:
            continue
        if size[row] != width:
            return False
        for i in range(width):
            raw[row, i] = buffer[at[row] + i]
    return True


@njit(cache=True, nogil=True)
def _copied(buffer: np.ndarray, at: np.ndarray, size: np.ndarray, offsets: np.ndarray, data: np.ndarray) -> int:
    used = 0
    for row in range(len(at)):
        place = at[row]
        for i in range(size[row]):  # of a null none
            data[used + i] = buffer[place + i]
        used += max(size[row], 0)
        offsets[row + 1] = used
    return used
