"""Whose row it is: ids as one kind of value, in every source alike, as hashes.

An id is read so that a person keeps being one person however a source spells or stores the column:
- blanks (ASCII) around a text are no part of it;
- a text that is a plain number (a sign, digits, a point, digits) is that number: 7, " 7", 7.0, +7 and 07 are one id.
  It is compared digit by digit, never as a double, so that long numbers stay apart;
- numbers compare as numbers (0.0 and -0.0 are one id), dates and moments as such, other types by their text.
With `privacy.unit.ids: text` the first two do not apply: texts are compared byte by byte.

Nobody's: null, NaN, an empty text, and a text that spells NaN (as databases send the NaN of a decimal number). Such
rows are dropped in every source: they belong to nobody identifiable, and one allowance for all of them would be no
bound.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from understudy.pipelines.sources.hashing import Hashes, hash_rows, hash_texts
from understudy.pipelines.table.reading.arrow import text_buffers

_PURPOSE = "entity"


def read_ids(values: pa.Array, as_text: bool, key: bytes, across_types: bool = False) -> tuple[np.ndarray, Hashes]:
    """Whether each value is an id, and its hash (arbitrary where it is none). Never raises on data.

    `across_types`: a number and its text are one id, as keys are by which tables of different sources name each other.
    """
    while isinstance(values, pa.ExtensionArray) or pa.types.is_run_end_encoded(values.type):
        values = values.storage if isinstance(values, pa.ExtensionArray) else pc.run_end_decode(values)
    if pa.types.is_dictionary(values.type):
        return _looked_up(values, as_text, key, across_types)
    known = np.asarray(values.is_valid())
    if not is_key(values.type) or pa.types.is_null(values.type):
        return np.zeros(len(values), np.bool_), hash_rows(np.zeros((len(values), 0), np.uint8), key, _PURPOSE)
    words = None if across_types else _words(values)
    if words is not None:
        if pa.types.is_floating(values.type):
            known = known & ~np.isnan(words.view(np.float64))
        return known, hash_rows(words.view(np.uint8).reshape(len(words), 8), key, _PURPOSE)
    if pa.types.is_floating(values.type):
        known, values = known & ~np.asarray(pc.fill_null(pc.is_nan(values), True)), _whole_ones_plain(values)
    offsets, data = text_buffers(_text(values))
    if as_text:
        named = np.empty(len(values), np.bool_)
        _mark_named(offsets, data, named)
    else:
        offsets, data, named = spelled_alike(offsets, data)
    return known & named, hash_texts(offsets, data, key, _PURPOSE)


@lru_cache(maxsize=256)
def is_key(type_: pa.DataType) -> bool:
    """Whether values of this type can say whose row it is."""
    if isinstance(type_, pa.BaseExtensionType):
        return is_key(type_.storage_type)
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return is_key(type_.value_type)
    if pa.types.is_nested(type_):
        return False
    try:
        _text(pa.nulls(0, type_))
    except pa.ArrowException:
        return False
    return True


def spelled_alike(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts without blanks around them and plain numbers in their one spelling, and which are ids at all."""
    spans = np.empty(len(offsets), np.int64)
    named = np.empty(len(offsets) - 1, np.bool_)
    spelled = np.empty(int(offsets[-1] - offsets[0]) + len(named), np.uint8)  # .5 is spelled 0.5
    _spell(offsets, data, spans, spelled, named)
    return spans, spelled, named


def _looked_up(values: pa.DictionaryArray, as_text: bool, key: bytes, across_types: bool) -> tuple[np.ndarray, Hashes]:
    known, hashes = read_ids(values.dictionary, as_text, key, across_types)
    table = Hashes(np.append(hashes.high, np.uint64(0)), np.append(hashes.low, np.uint64(0)))
    places = pc.fill_null(pc.cast(values.indices, pa.int64()), len(known)).to_numpy(zero_copy_only=False)
    return np.append(known, False)[places], table[places]


def _words(values: pa.Array) -> np.ndarray | None:
    """Fixed-width values as 64-bit words, or None for what is compared as text."""
    type_ = values.type
    if pa.types.is_floating(type_):
        doubles = pc.fill_null(pc.cast(values, pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.ascontiguousarray(doubles).view(np.uint64)
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        numbers = pc.fill_null(values, False if pa.types.is_boolean(type_) else 0).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(numbers.astype(np.int64)).view(np.uint64)
    if pa.types.is_temporal(type_) and type_.bit_width in (32, 64):
        numbers = values.view(pa.int32() if type_.bit_width == 32 else pa.int64())
        return np.ascontiguousarray(pc.fill_null(pc.cast(numbers, pa.int64()), 0).to_numpy(zero_copy_only=False))
    return None


def _whole_ones_plain(values: pa.Array) -> pa.Array:
    """Doubles as text, whole ones by their digits alone."""
    doubles = pc.fill_null(pc.cast(values, pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    whole = (np.abs(doubles) < 2.0**53) & (np.floor(doubles) == doubles)
    digits = pc.cast(pa.array(np.where(whole, doubles, 0.0).astype(np.int64)), pa.large_string())
    return pc.if_else(pa.array(whole), digits, pc.cast(pa.array(doubles), pa.large_string()))


def _text(values: pa.Array) -> pa.LargeStringArray:
    if pa.types.is_fixed_size_binary(values.type):
        values = pc.cast(values, pa.large_binary())
    return pc.cast(values, pa.large_string(), safe=False)


@njit(cache=True, nogil=True)
def _mark_named(offsets: np.ndarray, data: np.ndarray, named: np.ndarray) -> None:
    for row in range(len(named)):
        at, end = offsets[row], offsets[row + 1]
        is_nan = end - at == 3 and data[at] == 78 and data[at + 1] == 97 and data[at + 2] == 78
        named[row] = end > at and not is_nan


@njit(cache=True, nogil=True)
def _is_nan(data: np.ndarray, at: int, end: int) -> bool:
    """NaN in any case, with or without a sign."""
    if at < end and (data[at] == 43 or data[at] == 45):
        at += 1
    return end - at == 3 and data[at] | 32 == 110 and data[at + 1] | 32 == 97 and data[at + 2] | 32 == 110


@njit(cache=True, nogil=True)
def _spell(offsets: np.ndarray, data: np.ndarray, spans: np.ndarray, spelled: np.ndarray, named: np.ndarray) -> None:
    out = 0
    spans[0] = 0
    for row in range(len(named)):
        at, end = offsets[row], offsets[row + 1]
        while at < end and (data[at] == 32 or 9 <= data[at] <= 13):
            at += 1
        while end > at and (data[end - 1] == 32 or 9 <= data[end - 1] <= 13):
            end -= 1
        named[row] = at < end and not _is_nan(data, at, end)
        first = at + 1 if at < end and (data[at] == 43 or data[at] == 45) else at
        point, digits, plain = end, 0, True
        for i in range(first, end):
            if 48 <= data[i] <= 57:
                digits += 1
            elif data[i] == 46 and point == end:
                point = i
            else:
                plain = False
                break
        if plain and digits:
            negative = data[at] == 45
            while first < point and data[first] == 48:
                first += 1
            last = end
            while last > point and (data[last - 1] == 48 or data[last - 1] == 46):
                last -= 1
            if negative and (first < point or last > point):
                spelled[out] = 45
                out += 1
            if first == point:
                spelled[out] = 48
                out += 1
            for i in range(first, max(point, last)):
                spelled[out] = data[i]
                out += 1
        else:
            for i in range(at, end):
                spelled[out] = data[i]
                out += 1
        spans[row + 1] = out
