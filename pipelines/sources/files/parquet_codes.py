"""Columns that a Parquet file holds as dictionary codes, kept as codes: each distinct value is encoded once.

Arrow expands codes to values and spends most of its time on definition levels; here both stay small integers, which
are unpacked and looked up in one go. Chunks that are not dictionary-coded to the last page, are nested, or are in any
way unusual are left to Arrow. What is read is the same to the last value, and so is everything counted from it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit

from understudy.pipelines.sources.files.bit_packing import MOST_BITS, PAIR_BITS, SPARE, pair_up, unpack
from understudy.pipelines.sources.files.parquet_pages import (
    DATA,
    DATA_V2,
    DICTIONARY,
    ENCODING,
    KIND,
    LEVEL_BYTES,
    LEVEL_ENCODING,
    PACKED,
    REPEAT_BYTES,
    START,
    VALUES,
    NotUnderstood,
    page_table,
    unpacked_pages,
)
from understudy.pipelines.sources.files.varint import read_varint
from understudy.pipelines.table.coding.encode import code_table
from understudy.pipelines.table.domain import DomainColumn

PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
_PLAIN_TYPES = {"INT32": np.int32, "INT64": np.int64, "FLOAT": np.float32, "DOUBLE": np.float64}
_UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_LEVELS = np.array([0, 1], np.uint8)


class OpenFile(NamedTuple):
    """A Parquet file, its bytes and its schema, which takes long to ask for."""

    file: pq.ParquetFile
    bytes_: pa.NativeFile
    schema: pa.Schema


@dataclass(frozen=True, eq=False)
class Chunk:
    """A dictionary, and the pages of a column chunk that hold codes of it."""

    dictionary: pa.Array
    pages: np.ndarray
    bytes_: np.ndarray
    rows: int
    optional: bool

    def fill(self, lookup: np.ndarray, out: np.ndarray) -> int:
        """Write what `lookup` has for the code of each row, its last entry for nulls; how many nulls there are."""
        nulls = _fill(self.pages, self.bytes_, lookup, self.optional, out)
        if nulls < 0:
            raise NotUnderstood
        return int(nulls)


def coded_column(opened: OpenFile, row_group: int, name: str) -> pa.DictionaryArray | None:
    """A column of a row group as a dictionary array, or None if Arrow is to read it."""
    try:
        chunk = _chunk(opened, row_group, name)
        distinct = len(chunk.dictionary)
        itself = np.arange(distinct + 1, dtype=np.min_scalar_type(distinct))
        codes = np.empty(chunk.rows, itself.dtype)
        nulls = chunk.fill(itself, codes)
    except NotUnderstood:
        return None
    indices = pa.array(codes, mask=codes == distinct if nulls else None)
    return pa.DictionaryArray.from_arrays(indices, chunk.dictionary, safe=False)


def encode_chunk(opened: OpenFile, row_group: int, column: DomainColumn, codes: np.ndarray) -> bool:
    """Write the domain's codes of a column of a row group; False if Arrow is to read it."""
    try:
        chunk = _chunk(opened, row_group, column.name)
        if chunk.rows != len(codes):
            return False
        chunk.fill(code_table(chunk.dictionary, column).astype(codes.dtype, copy=False), codes)
    except NotUnderstood:
        return False
    return True


def _chunk(opened: OpenFile, row_group: int, name: str) -> Chunk:
    metadata, schema = opened.file.metadata, opened.schema
    index = schema.get_field_index(name)  # -1 if there are two of the name
    if index < 0 or metadata.num_columns != len(schema):  # leaves of nested columns shift the numbering
        raise NotUnderstood
    chunk, leaf, type_ = (
        metadata.row_group(row_group).column(index),
        metadata.schema.column(index),
        schema.field(index).type,
    )
    if not _is_plain(chunk, leaf, type_):
        raise NotUnderstood
    start, size = chunk.dictionary_page_offset, chunk.total_compressed_size
    if start is None or not 0 < start < chunk.data_page_offset:
        raise NotUnderstood
    opened.bytes_.seek(start)
    buffer = opened.bytes_.read_buffer(size + SPARE)  # the footer follows, so there is always as much
    if buffer.size != size + SPARE:
        raise NotUnderstood
    table = page_table(np.frombuffer(buffer, np.uint8)[:size])
    first, pages = table[:1], table[1:]
    dictionary = _dictionary(first, unpacked_pages(buffer, first, chunk.compression), chunk.physical_type, type_)
    bodies = unpacked_pages(buffer, pages, chunk.compression)
    return Chunk(dictionary, pages, bodies, chunk.num_values, leaf.max_definition_level > 0)


def _is_plain(chunk: pq.ColumnChunkMetaData, leaf: pq.ColumnSchema, type_: pa.DataType) -> bool:
    """Whether the values are flat, and the file's plain bytes of them are Arrow's, up to a cast of whole numbers."""
    if leaf.max_repetition_level or leaf.max_definition_level > 1 or "." in leaf.path:
        return False
    if not chunk.has_dictionary_page or not set(chunk.encodings) & {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}:
        return False
    physical = chunk.physical_type
    if pa.types.is_integer(type_):
        return bool(physical == ("INT64" if type_.bit_width == 64 else "INT32"))
    if pa.types.is_timestamp(type_):
        stored = json.loads(leaf.logical_type.to_json()).get("timeUnit")
        return bool(physical == "INT64" and _UNITS.get(type_.unit) == stored)
    return bool(
        (pa.types.is_float32(type_) and physical == "FLOAT")
        or (pa.types.is_float64(type_) and physical == "DOUBLE")
        or (pa.types.is_date32(type_) and physical == "INT32")
        or ((pa.types.is_string(type_) or pa.types.is_large_string(type_)) and physical == "BYTE_ARRAY")
    )


def _dictionary(table: np.ndarray, bytes_: np.ndarray, physical: str, type_: pa.DataType) -> pa.Array:
    """The values of the first page, which has to be the dictionary."""
    if not len(table) or table[0, KIND] != DICTIONARY or table[0, ENCODING] not in (PLAIN, PLAIN_DICTIONARY):
        raise NotUnderstood
    count, start, size = (int(table[0, column]) for column in (VALUES, START, PACKED))
    body = bytes_[start : start + size]
    if physical == "BYTE_ARRAY":
        return _texts(body.tobytes(), count, type_)
    dtype = np.dtype(_PLAIN_TYPES[physical])
    if not 0 <= count * dtype.itemsize <= size:
        raise NotUnderstood
    values = body[: count * dtype.itemsize].copy().view(dtype)
    if pa.types.is_integer(type_):  # narrow ones are stored wide
        return pa.array(values.astype(type_.to_pandas_dtype()), type_)
    return pa.array(values).view(type_)


def _texts(body: bytes, count: int, type_: pa.DataType) -> pa.Array:
    """Texts, each written after its length."""
    texts, at = [], 0
    for _ in range(count):
        start = at + 4
        at = start + int.from_bytes(body[at:start], "little")
        if at > len(body):
            raise NotUnderstood
        texts.append(body[start:at])
    binary = pa.large_binary() if pa.types.is_large_string(type_) else pa.binary()
    return pa.array(texts, binary).view(type_)  # as Arrow does, without a check that it is UTF-8


@njit(cache=True, nogil=True)
def _fill(table: np.ndarray, bytes_: np.ndarray, lookup: np.ndarray, optional: bool, out: np.ndarray) -> int:
    """Write the entries of every page's codes, one after the other; how many are null, or -1."""
    longest = 0
    for page in table:
        longest = max(longest, page[VALUES])
    levels = np.empty(min(longest, len(out)) if optional else 0, np.uint8)
    entries, absent = lookup[:-1], lookup[-1]
    pairs, paired, level_pairs = np.empty(1 << (2 * PAIR_BITS), np.uint32), -1, np.empty(4, np.uint32)
    pair_up(_LEVELS, 1, level_pairs)
    done, nulls = 0, 0
    for page in table:
        at, end, count, present = page[START], page[START] + page[PACKED], page[VALUES], page[VALUES]
        if page[ENCODING] != RLE_DICTIONARY and page[ENCODING] != PLAIN_DICTIONARY:
            return -1
        if not 0 <= count <= len(out) - done:
            return -1
        if page[KIND] == DATA_V2:
            if page[REPEAT_BYTES] > 0 or not 0 <= page[LEVEL_BYTES] <= end - at:
                return -1
            levels_end = at + page[LEVEL_BYTES]
        elif page[KIND] == DATA:
            levels_end = at
            if optional:
                if page[LEVEL_ENCODING] != RLE or end - at < 4:
                    return -1
                at += 4
                levels_end = at
                for i in range(4):
                    levels_end += int(bytes_[at - 4 + i]) << (8 * i)
        else:
            return -1
        if optional and not (levels_end <= end and _all_present(bytes_, at, levels_end, count)):
            if levels_end > end or not unpack(bytes_, at, levels_end, 1, _LEVELS, level_pairs, levels, 0, count):
                return -1
            present = 0
            for i in range(count):
                present += levels[i]
        if present:
            width = int(bytes_[levels_end]) if levels_end < end else MOST_BITS + 1
            if width > MOST_BITS:
                return -1
            in_pairs = out.itemsize == 1 and width <= PAIR_BITS
            if in_pairs and paired != width:
                pair_up(entries, width, pairs)
                paired = width
            two = pairs if in_pairs else pairs[:0]
            if not unpack(bytes_, levels_end + 1, end, width, entries, two, out, done, present):
                return -1
        _spread(out[done : done + count], present, levels, absent)
        done += count
        nulls += count - present
    return nulls if done == len(out) else -1


@njit(cache=True, nogil=True)
def _all_present(bytes_: np.ndarray, at: int, end: int, count: int) -> bool:
    """Whether the levels are one run of ones, as they mostly are."""
    header, at = read_varint(bytes_, at, end)
    return header & 1 == 0 and header >> 1 >= count and at < end and bytes_[at] == 1


@njit(cache=True, nogil=True)
def _spread(codes: np.ndarray, present: int, levels: np.ndarray, absent: int) -> None:
    """Move the codes that are present to their rows, from the last to the first, and fill the others."""
    row = len(codes)
    while present < row:
        row -= 1
        if levels[row]:
            present -= 1
            codes[row] = codes[present]
        else:
            codes[row] = absent
