"""Columns that a Parquet file holds as dictionary codes, kept as codes: each distinct value is encoded once.

Arrow expands codes to values and spends most of its time on definition levels; here both stay small integers. Chunks
that are not dictionary-coded to the last page, are nested, or are in any way unusual are None: Arrow reads those. What
is read is the same to the last value, and so is everything counted from it.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit

from understudy.pipelines.sources.bit_packing import MOST_BITS, ROOM, unpack
from understudy.pipelines.sources.parquet_pages import (
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
    unpacked_pages,
)

PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
_PLAIN_TYPES = {"INT32": np.int32, "INT64": np.int64, "FLOAT": np.float32, "DOUBLE": np.float64}
_UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def coded_column(
    file: pa.NativeFile, metadata: pq.FileMetaData, row_group: int, index: int, field: pa.Field
) -> pa.DictionaryArray | None:
    """Leaf column `index` of a row group as a dictionary array, or None if Arrow is to read it."""
    chunk = metadata.row_group(row_group).column(index)
    leaf = metadata.schema.column(index)
    if not _is_plain(chunk, leaf, field.type):
        return None
    start = chunk.dictionary_page_offset
    if start is None or not 0 < start < chunk.data_page_offset:
        return None
    file.seek(start)
    try:
        table, words = unpacked_pages(file.read_buffer(chunk.total_compressed_size), chunk.compression)
        dictionary = _dictionary(table, words, chunk.physical_type, field.type)
        codes, nulls = _codes(table[1:], words, len(dictionary), chunk.num_values, leaf.max_definition_level > 0)
    except NotUnderstood:
        return None
    indices = pa.array(codes, mask=codes == len(dictionary) if nulls else None)
    return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)


def _is_plain(chunk: pq.ColumnChunkMetaData, leaf: pq.ColumnSchema, type_: pa.DataType) -> bool:
    """Whether the values are flat, and the file's plain bytes of them are Arrow's, up to a cast of whole numbers."""
    if leaf.max_repetition_level or leaf.max_definition_level > 1 or "." in leaf.path:
        return False
    if not chunk.has_dictionary_page or not set(chunk.encodings) & {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}:
        return False
    physical = chunk.physical_type
    if pa.types.is_integer(type_):
        return physical == ("INT64" if type_.bit_width == 64 else "INT32")
    if pa.types.is_timestamp(type_):
        stored = json.loads(leaf.logical_type.to_json()).get("timeUnit")
        return physical == "INT64" and _UNITS.get(type_.unit) == stored
    return (
        (pa.types.is_float32(type_) and physical == "FLOAT")
        or (pa.types.is_float64(type_) and physical == "DOUBLE")
        or (pa.types.is_date32(type_) and physical == "INT32")
        or ((pa.types.is_string(type_) or pa.types.is_large_string(type_)) and physical == "BYTE_ARRAY")
    )


def _dictionary(table: np.ndarray, words: np.ndarray, physical: str, type_: pa.DataType) -> pa.Array:
    """The values of the first page, which has to be the dictionary."""
    if not len(table) or table[0, KIND] != DICTIONARY or table[0, ENCODING] not in (PLAIN, PLAIN_DICTIONARY):
        raise NotUnderstood
    count, start, size = (int(table[0, column]) for column in (VALUES, START, PACKED))
    body = words.view(np.uint8)[start : start + size]
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


def _codes(table: np.ndarray, words: np.ndarray, distinct: int, rows: int, optional: bool) -> tuple[np.ndarray, bool]:
    """The code of each row, and whether there are nulls, for which `distinct` stands."""
    dtype = np.uint8 if distinct < 2**8 else np.uint16 if distinct < 2**16 else np.uint32
    if (table[:, VALUES] < 0).any() or int(table[:, VALUES].sum()) != rows:
        raise NotUnderstood
    out = np.empty(rows + ROOM, dtype)
    nulls = _fill(table, words, distinct, optional, out)
    if nulls < 0:
        raise NotUnderstood
    return out[:rows], nulls > 0


@njit(cache=True, nogil=True)
def _fill(table: np.ndarray, words: np.ndarray, distinct: int, optional: bool, out: np.ndarray) -> int:
    """Write the codes of every page, one after the other; how many are null, or -1."""
    longest = 0
    for page in table:
        longest = max(longest, page[VALUES])
    levels = np.empty(longest + ROOM if optional else 0, np.uint8)
    bytes_ = words.view(np.uint8)
    done, nulls = 0, 0
    for page in table:
        if page[ENCODING] != RLE_DICTIONARY and page[ENCODING] != PLAIN_DICTIONARY:
            return -1
        at, end, count, present = page[START], page[START] + page[PACKED], page[VALUES], page[VALUES]
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
        if optional:
            if levels_end > end or not unpack(words, at, levels_end, 1, 2, levels, count):
                return -1
            present = 0
            for i in range(count):
                present += levels[i]
        if present:
            width = int(bytes_[levels_end]) if levels_end < end else MOST_BITS + 1
            if width > MOST_BITS or not unpack(words, levels_end + 1, end, width, distinct, out[done:], present):
                return -1
        _spread(out[done : done + count], present, levels, distinct)
        done += count
        nulls += count - present
    return nulls


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
