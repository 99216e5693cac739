"""Keyed 64-bit hashes of rows and entities, the same in every process and for every way the rows are split.

A column's hash is SipHash-2-4 of its value's bytes under a key derived from the caller's; a row's hash
chains those of its columns. Equal values hash equally whether or not they are dictionary-encoded. Who does
not know the key cannot choose rows that survive the cap on rows per entity.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from understudy.pipelines.table.reading.dates import text_buffers

_NULL = np.uint64(0x9E3779B97F4A7C15)


def row_hashes(columns: list[pa.Array], rows: int, key: bytes) -> np.ndarray:
    """One hash a row over these columns in this order."""
    chained = np.zeros(rows, np.uint64)
    for position, column in enumerate(columns):
        words = value_hashes(column, key, f"row {position}")
        _chain(chained, words)
    return chained


def value_hashes(values: pa.Array, key: bytes, purpose: str) -> np.ndarray:
    """One hash a value; nulls all get the same. `purpose` separates hashes that must not be compared."""
    while isinstance(values, pa.ExtensionArray) or pa.types.is_run_end_encoded(values.type):
        values = values.storage if isinstance(values, pa.ExtensionArray) else pc.run_end_decode(values)
    type_ = values.type
    if pa.types.is_dictionary(type_):
        table = np.append(value_hashes(values.dictionary, key, purpose), _NULL)
        positions = pc.fill_null(pc.cast(values.indices, pa.int64()), len(values.dictionary))
        return table[positions.to_numpy(zero_copy_only=False)]
    k0, k1 = _sip_key(key, purpose)
    tensors = _tensor_bytes(values)
    if pa.types.is_null(type_) or (pa.types.is_nested(type_) and tensors is None):
        return np.full(len(values), _NULL)
    hashes = np.empty(len(values), np.uint64)
    words = _words(values)
    if tensors is not None:
        _sip_bytes(*tensors, k0, k1, hashes)
    elif words is not None:
        _sip_words(words, k0, k1, hashes)
    else:
        offsets, data = text_buffers(pc.cast(values, pa.large_string(), safe=False))
        _sip_bytes(offsets, data, k0, k1, hashes)
    if values.null_count:
        hashes[~np.asarray(values.is_valid())] = _NULL
    return hashes


def _words(values: pa.Array) -> np.ndarray | None:
    """Fixed-width values as 64-bit words, or None for text and decimals, which hash as text."""
    type_ = values.type
    if pa.types.is_floating(type_):
        doubles = pc.fill_null(pc.cast(values, pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(doubles), np.nan, doubles).view(np.uint64)
    if pa.types.is_decimal(type_):
        return None
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        numbers = pc.fill_null(values, False if pa.types.is_boolean(type_) else 0).to_numpy(zero_copy_only=False)
        return numbers.astype(np.int64).view(np.uint64)
    if pa.types.is_temporal(type_) and type_.bit_width in (32, 64):
        numbers = values.view(pa.int32() if type_.bit_width == 32 else pa.int64())
        return pc.fill_null(pc.cast(numbers, pa.int64()), 0).to_numpy(zero_copy_only=False).view(np.uint64)
    return None


def _tensor_bytes(values: pa.Array) -> tuple[np.ndarray, np.ndarray] | None:
    """Offsets and bytes of lists of numbers, where bytes left behind by nulls count as zeros; else None."""
    type_ = values.type
    if pa.types.is_fixed_size_list(type_):
        offsets = (values.offset + np.arange(len(values) + 1, dtype=np.int64)) * type_.list_size
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        offsets = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        return None
    child = values.values
    if not (pa.types.is_integer(child.type) or pa.types.is_floating(child.type)):
        return None
    numbers = (pc.fill_null(child, 0) if child.null_count else child).to_numpy(zero_copy_only=False)
    return offsets * numbers.itemsize, np.ascontiguousarray(numbers).view(np.uint8)


def _sip_key(key: bytes, purpose: str) -> tuple[np.uint64, np.uint64]:
    digest = hashlib.blake2b(purpose.encode(), key=hashlib.sha256(key).digest(), digest_size=16).digest()
    return np.uint64(int.from_bytes(digest[:8], "little")), np.uint64(int.from_bytes(digest[8:], "little"))


@njit(cache=True, nogil=True)
def _chain(chained: np.ndarray, words: np.ndarray) -> None:
    """Fold one more column into the rows' hashes (the splitmix64 finaliser, a bijection of each operand)."""
    for row in range(len(chained)):
        x = (chained[row] * np.uint64(0xD1342543DE82EF95)) ^ words[row]
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        chained[row] = x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def _rotated(x: np.uint64, bits: int) -> np.uint64:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@njit(cache=True, nogil=True)
def _round(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    a += b
    b = _rotated(b, 13) ^ a
    a = _rotated(a, 32)
    c += d
    d = _rotated(d, 16) ^ c
    a += d
    d = _rotated(d, 21) ^ a
    c += b
    b = _rotated(b, 17) ^ c
    c = _rotated(c, 32)
    return a, b, c, d


@njit(cache=True, nogil=True)
def _absorb(
    word: np.uint64, a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    d ^= word
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    return a ^ word, b, c, d


@njit(cache=True, nogil=True)
def _finish(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> np.uint64:
    c ^= np.uint64(0xFF)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d


@njit(cache=True, nogil=True)
def _start(k0: np.uint64, k1: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    return (
        k0 ^ np.uint64(0x736F6D6570736575),
        k1 ^ np.uint64(0x646F72616E646F6D),
        k0 ^ np.uint64(0x6C7967656E657261),
        k1 ^ np.uint64(0x7465646279746573),
    )


@njit(cache=True, nogil=True)
def _sip_words(words: np.ndarray, k0: np.uint64, k1: np.uint64, hashes: np.ndarray) -> None:
    for row in range(len(words)):
        a, b, c, d = _start(k0, k1)
        a, b, c, d = _absorb(words[row], a, b, c, d)
        a, b, c, d = _absorb(np.uint64(8) << np.uint64(56), a, b, c, d)
        hashes[row] = _finish(a, b, c, d)


@njit(cache=True, nogil=True)
def _sip_bytes(offsets: np.ndarray, data: np.ndarray, k0: np.uint64, k1: np.uint64, hashes: np.ndarray) -> None:
    for row in range(len(hashes)):
        first, end = offsets[row], offsets[row + 1]
        a, b, c, d = _start(k0, k1)
        word, filled = np.uint64(0), np.uint64(0)
        for i in range(first, end):
            word |= np.uint64(data[i]) << filled
            filled += np.uint64(8)
            if filled == np.uint64(64):
                a, b, c, d = _absorb(word, a, b, c, d)
                word, filled = np.uint64(0), np.uint64(0)
        word |= np.uint64((end - first) & 0xFF) << np.uint64(56)
        a, b, c, d = _absorb(word, a, b, c, d)
        hashes[row] = _finish(a, b, c, d)
