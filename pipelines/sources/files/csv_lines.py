"""CSV bytes in blocks of whole records, and what a line that is no proper record becomes, by that line alone.

A parser that meets an unclosed quote takes the following lines for its text: one row then swallows others. So here
- a record ends at its line break (LF, CR or both), and a quote that is open there is closed by it;
- a line with too few or too many fields, or of more than LONGEST bytes, is dropped; an empty one is no row.
What passes `screened` has as many fields as the header and no quote open at a line's end: it cannot be misread.

With `quoted_newlines` a quoted field may hold line breaks. Then a stray quote does reach the lines after it, up to the
next quote: that is what was asked for. A record that is not closed within LONGEST bytes is read line by line, as above.

Fields are told apart as by Arrow: a quote opens a quoted part only where a field begins, two of them inside it are one,
and what follows the closing quote belongs to the field as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from understudy.pipelines.spec.dialect import CsvDialect

BLOCK_BYTES = 4 << 20
LONGEST = 8 << 20

LF, CR = 10, 13
_FIELD_START, _PLAIN, _QUOTED, _QUOTE_IN_QUOTED = 0, 1, 2, 3


class Marks(NamedTuple):
    """The bytes between fields, around them, and before a comment; -1 for none."""

    delimiter: int = 44
    quote: int = 34
    comment: int = -1

    @classmethod
    def of(cls, dialect: CsvDialect) -> Marks:
        return cls(*(-1 if mark is None else ord(mark) for mark in (dialect.delimiter, dialect.quote, dialect.comment)))


COMMA_MARKS = Marks()


def line_blocks(
    stream: pa.NativeFile, front: bytes, block_bytes: int = BLOCK_BYTES, longest: int = LONGEST
) -> Iterator[np.ndarray]:
    """What stands in `front` and then in the stream, as blocks of whole lines.

    Of lines that are too long those are left out that several blocks would be needed for; screening drops the others.
    """
    rest = np.frombuffer(front, np.uint8)
    skipping = False  # inside a line that is too long
    last = False
    while not last:
        block, last, skipping = _more(stream, rest, block_bytes, skipping)
        end = _last_break(block) + 1
        if end:
            yield block[:end]
        rest = block[end:]
        if len(rest) > longest:
            rest, skipping = rest[:0], True


def record_blocks(
    stream: pa.NativeFile,
    front: bytes,
    fields: int,
    marks: Marks = COMMA_MARKS,
    block_bytes: int = BLOCK_BYTES,
    longest: int = LONGEST,
) -> Iterator[np.ndarray]:
    """The same as records that may hold line breaks in quotes, already screened."""
    rest = np.frombuffer(front, np.uint8)
    by_line = 0  # records that start within so many bytes of the rest are read line by line
    skipping = False
    last = False
    while not last:
        block, last, skipping = _more(stream, rest, block_bytes, skipping)
        clean, done, by_line = _screened(block, fields, True, last, by_line, longest, *marks)
        if len(clean):
            yield clean
        rest = block[done:]
        if len(rest) > longest:
            rest, by_line, skipping = rest[:0], 0, True


def screened(lines: np.ndarray, fields: int, marks: Marks = COMMA_MARKS, longest: int = LONGEST) -> np.ndarray:
    """The lines that are records of so many fields, their quotes closed. May be empty."""
    clean, _, _ = _screened(lines, fields, False, True, 0, longest, *marks)
    return clean


def _more(stream: pa.NativeFile, rest: np.ndarray, wanted: int, skipping: bool) -> tuple[np.ndarray, bool, bool]:
    """The rest and the bytes after it, whether that is all, and whether a line that is skipped goes on beyond them.

    At the end of the stream a last line break is supplied.
    """
    block = np.empty(len(rest) + wanted + 1, np.uint8)
    block[: len(rest)] = rest
    found = stream.readinto(block.data[len(rest) : -1])
    end = len(rest) + found
    if not found and end and block[end - 1] not in (LF, CR):
        block[end] = LF
        end += 1
    block = block[:end]
    if not skipping:
        return block, not found, False
    begin = _first_break(block) + 1
    return (block[begin:], not found, False) if begin else (block[:0], not found, True)


@njit(cache=True, nogil=True)
def _first_break(block: np.ndarray) -> int:
    for at in range(len(block)):
        if block[at] == LF or block[at] == CR:
            return at
    return -1


@njit(cache=True, nogil=True)
def _last_break(block: np.ndarray) -> int:
    for at in range(len(block) - 1, -1, -1):
        if block[at] == LF or block[at] == CR:
            return at
    return -1


@njit(cache=True, nogil=True)
def _screened(
    data: np.ndarray,
    fields: int,
    quoted_newlines: bool,
    last: bool,
    by_line: int,
    longest: int,
    delimiter: int,
    quote: int,
    comment: int,
) -> tuple[np.ndarray, int, int]:
    """What passes, how many bytes were dealt with, and how far beyond them records are read line by line."""
    size = len(data)
    edited = np.empty(0, np.uint8)
    written, copied = 0, 0  # bytes written to `edited`, bytes of `data` that it stands for
    start = 0  # of the record
    while start < size:
        is_comment = data[start] == comment
        many_lines = quoted_newlines and start >= by_line and not is_comment
        state, found, at = _FIELD_START, 1, start
        ended = False
        while at < size:
            byte = data[at]
            if byte in (LF, CR):
                if state != _QUOTED or not many_lines:
                    ended = True
                    break
            elif state == _PLAIN:
                if byte == delimiter:
                    found += 1
                    state = _FIELD_START
            elif state == _QUOTED:
                if byte == quote:
                    state = _QUOTE_IN_QUOTED
            elif byte == delimiter:
                found += 1
                state = _FIELD_START
            elif byte == quote:
                state = _QUOTED
            else:
                state = _PLAIN
            at += 1
        if many_lines and (at - start > longest or (last and not ended)):
            by_line = start + longest
            continue
        if not ended:
            break
        misfit = at > start and (found != fields or at - start > longest or is_comment)
        if misfit or state == _QUOTED:
            if not len(edited):
                edited = np.empty(size + size // 2 + 2, np.uint8)
            kept = start if misfit else at
            edited[written : written + kept - copied] = data[copied:kept]
            written += kept - copied
            copied = kept
            if misfit:
                copied = at + 1
            else:
                edited[written] = quote
                written += 1
        start = at + 1
    beyond = max(0, by_line - start)
    if not len(edited):
        return data[:start], start, beyond
    edited[written : written + start - copied] = data[copied:start]
    written += start - copied
    return edited[:written], start, beyond
