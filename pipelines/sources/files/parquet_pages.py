"""The pages of a Parquet column chunk: their headers (Thrift's compact protocol), and their bodies decompressed.

Only what `parquet_codes` needs. Whatever is not as expected is a `NotUnderstood`, upon which Arrow reads the column
instead; a file that is really broken fails there, with Arrow's own checks. No number in a header is trusted.

Reference: Apache Parquet, `parquet.thrift`, version 2.11 (PageHeader); Thrift compact protocol specification.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

from understudy.pipelines.sources.files.bit_packing import SPARE
from understudy.pipelines.sources.files.snappy import copy, unsnap, whole_literal

KIND, UNPACKED, PACKED, VALUES, ENCODING, LEVEL_ENCODING, LEVEL_BYTES, REPEAT_BYTES, COMPRESSED, START = range(10)
"""Columns of the table of pages; -1 is what a header does not say."""

DATA, DICTIONARY, DATA_V2 = 0, 2, 3
CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli"}
"""Those that the format and Arrow write in one way; the old LZ4 has two."""

MOST_BYTES = 256 << 20
_FULL, _WRONG = -2, -1


class NotUnderstood(Exception):
    """This column chunk is for Arrow to read."""


def page_table(chunk: np.ndarray) -> np.ndarray:
    """One row of numbers a page."""
    most = 64
    while True:
        table = np.full((most, START + 1), -1, np.int64)
        found = _scan(chunk, table)
        if found == _WRONG:
            raise NotUnderstood
        if found != _FULL:
            return table[:found]
        most *= 4


def unpacked_pages(chunk: pa.Buffer, table: np.ndarray, codec: str) -> np.ndarray:
    """Bytes that hold the bodies of these pages; from now on START and PACKED say where in them each is.

    SPARE bytes follow the last body. They have to follow the pages in `chunk`, too: what is not compressed stays there.
    """
    if codec not in CODECS:
        raise NotUnderstood
    raw, name = np.frombuffer(chunk, np.uint8), CODECS[codec]
    if name is None or (name == "snappy" and _find_literals(raw, table)):
        return raw
    sizes = table[:, UNPACKED]
    if (sizes < 0).any() or (sizes > MOST_BYTES).any() or int(sizes.sum()) > MOST_BYTES:
        raise NotUnderstood
    levels = np.where(table[:, KIND] == DATA_V2, np.maximum(table[:, LEVEL_BYTES], 0), 0)  # these are never compressed
    if (levels > np.minimum(table[:, PACKED], sizes)).any():
        raise NotUnderstood
    bytes_ = np.empty(int(sizes.sum()) + SPARE, np.uint8)
    bytes_[-SPARE:] = 0
    if name == "snappy":
        if not _unsnap_pages(raw, table, levels, bytes_):
            raise NotUnderstood
    else:
        _decompress_pages(chunk, table, levels, name, bytes_)
    table[:, START], table[:, PACKED] = np.cumsum(sizes) - sizes, sizes
    bytes_.flags.writeable = False  # of one type with `raw`, lest everything be compiled twice
    return bytes_


@njit(cache=True)  # too short to give the interpreter's lock away
def _find_literals(raw: np.ndarray, table: np.ndarray) -> bool:
    """Whether every page is one literal, as packed numbers of even spread are; then START and PACKED are set to it."""
    starts = np.empty(len(table), np.int64)
    for i in range(len(table)):
        page = table[i]
        if page[KIND] == DATA_V2 or page[COMPRESSED] == 0:
            return False
        starts[i] = whole_literal(raw, page[START], page[START] + page[PACKED], page[UNPACKED])
        if starts[i] < 0:
            return False
    for i in range(len(table)):
        table[i, START], table[i, PACKED] = starts[i], table[i, UNPACKED]
    return True


@njit(cache=True, nogil=True)
def _unsnap_pages(raw: np.ndarray, table: np.ndarray, levels: np.ndarray, out: np.ndarray) -> bool:
    at = 0
    for i in range(len(table)):
        start, end, split, stop = (
            table[i, START],
            table[i, START] + table[i, PACKED],
            levels[i],
            at + table[i, UNPACKED],
        )
        copy(raw[start : start + split], out[at : at + split])
        if table[i, COMPRESSED] != 0 and stop > at + split:
            if not unsnap(raw, start + split, end, out, at + split, stop):
                return False
        elif end - start != stop - at:
            return False
        else:
            copy(raw[start + split : end], out[at + split : stop])
        at = stop
    return True


def _decompress_pages(chunk: pa.Buffer, table: np.ndarray, levels: np.ndarray, codec: str, out: np.ndarray) -> None:
    decompress, at = pa.Codec(codec).decompress, 0
    for (_, unpacked, packed, *_, compressed, start), split in zip(table.tolist(), levels.tolist(), strict=True):
        out[at : at + split] = np.frombuffer(chunk.slice(start, split), np.uint8)
        body = chunk.slice(start + split, packed - split)
        if compressed != 0 and unpacked > split:
            body = decompress(body, unpacked - split)
        if body.size != unpacked - split:
            raise NotUnderstood
        out[at + split : at + unpacked] = np.frombuffer(body, np.uint8)
        at += unpacked


@njit(cache=True)  # too short to give the interpreter's lock away
def _scan(chunk: np.ndarray, table: np.ndarray) -> int:
    at, found = 0, 0
    while at < len(chunk):
        if found == len(table):
            return _FULL
        at = _read_header(chunk, at, table[found])
        if at < 0 or not 0 <= table[found, PACKED] <= len(chunk) - at:
            return _WRONG
        table[found, START] = at
        at += table[found, PACKED]
        found += 1
    return found


@njit(cache=True, nogil=True)
def _read_header(chunk: np.ndarray, at: int, page: np.ndarray) -> int:
    """Note what the header says; where it ends, or -1."""
    field_at = np.zeros(4, np.int64)  # the last field of each struct that is open
    depth, outer = 0, 0
    while at < len(chunk):
        head = int(chunk[at])
        at += 1
        if head == 0:
            if depth == 0:
                return at
            depth -= 1
            continue
        if head >> 4:
            field_at[depth] += head >> 4
        else:
            field_at[depth], at = _number(chunk, at)
        number, type_ = 0, head & 15
        if type_ in (1, 2):  # a boolean is its type
            number = 2 - type_
        elif type_ in (4, 5, 6):
            number, at = _number(chunk, at)
        elif type_ == 8:  # a minimum or maximum, of no interest
            length, at = _number(chunk, at, False)
            at = at + length if at > 0 and 0 <= length <= len(chunk) - at else -1
        elif type_ == 12 and depth < 3:
            outer = field_at[0]
            depth += 1
            field_at[depth] = 0
            continue
        else:
            return -1
        if at < 0 or at > len(chunk):
            return -1
        place = _place(depth, outer, field_at[depth])
        if place >= 0:
            page[place] = number
    return -1


@njit(cache=True, nogil=True)
def _place(depth: int, outer: int, field: int) -> int:
    """Where in the table of pages a field of PageHeader, or of the header of one kind of page, is noted."""
    if depth == 0:
        return field - 1 if 1 <= field <= 3 else -1
    if depth > 1 or outer not in (5, 7, 8):
        return -1
    if field == 1:
        return VALUES
    if outer == 8:  # version 2: encoding, bytes of both kinds of levels, whether the values are compressed
        return ENCODING if field == 4 else field + 1 if 5 <= field <= 7 else -1
    return ENCODING if field == 2 else LEVEL_ENCODING if field == 3 and outer == 5 else -1


@njit(cache=True, nogil=True)
def _number(chunk: np.ndarray, at: int, signed: bool = True) -> tuple[int, int]:
    """A number of up to 62 bits and where it ends, or -1 there."""
    number, shift = 0, 0
    while 0 <= at < len(chunk) and shift < 63:
        byte = int(chunk[at])
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return ((number >> 1) ^ -(number & 1)) if signed else number, at
    return 0, -1
