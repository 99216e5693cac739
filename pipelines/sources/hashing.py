"""Keyed 128-bit hashes of ids and rows: BLAKE2s (RFC 7693) of bytes, the same in every process.

The key is public (it is derived from the spec), so what is needed is that nobody who knows it can find two ids of one
hash: they would share one allowance of rows, and one of them leaving would move the other's. A cryptographic hash of
128 bits asks for about 2^64 trials. (SipHash, which stood here, promises nothing once its key is known; of its 64 bits
two colliding ids were found in 75 seconds.) `hashlib` computes the same digests, one call a value; tests compare.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import njit

_START = np.array(
    [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19], np.uint32
)
_DIGEST, _KEY, _BLOCK = 16, 32, 64
_Quarter: TypeAlias = tuple[np.uint32, np.uint32, np.uint32, np.uint32]
_State: TypeAlias = tuple[*_Quarter, *_Quarter, *_Quarter, *_Quarter]


@dataclass(frozen=True)
class Hashes:
    """128-bit hashes in two halves; they are compared by `high`, then by `low`."""

    high: np.ndarray
    low: np.ndarray

    def __len__(self) -> int:
        return len(self.high)

    def __getitem__(self, rows: np.ndarray | slice) -> Hashes:
        return Hashes(self.high[rows], self.low[rows])

    @staticmethod
    def joined(several: Sequence[Hashes]) -> Hashes:
        none = np.empty(0, np.uint64)
        return Hashes(
            np.concatenate([none, *(each.high for each in several)]),
            np.concatenate([none, *(each.low for each in several)]),
        )


def hash_rows(rows: np.ndarray, key: bytes, purpose: str) -> Hashes:
    """One hash for each row of a matrix of bytes."""
    count, width = rows.shape
    return hash_texts(
        np.arange(count + 1, dtype=np.int64) * width, np.ascontiguousarray(rows).reshape(-1), key, purpose
    )


def hash_texts(offsets: np.ndarray, data: np.ndarray, key: bytes, purpose: str) -> Hashes:
    """One hash for each run of bytes between two offsets. `purpose` separates hashes that must not be compared."""
    subkey = _subkey(key, purpose)
    state = _START.copy()
    state[0] ^= np.uint32(0x01010000 | _KEY << 8 | _DIGEST)
    _compress(state, np.frombuffer(subkey.ljust(_BLOCK, b"\0"), np.uint32).copy(), _BLOCK, False)
    nothing = np.frombuffer(hashlib.blake2s(b"", key=subkey, digest_size=_DIGEST).digest(), np.uint32)
    found = Hashes(np.empty(len(offsets) - 1, np.uint64), np.empty(len(offsets) - 1, np.uint64))
    _hash(offsets, data, state, nothing, found.high, found.low)
    return found


def _subkey(key: bytes, purpose: str) -> bytes:
    return hashlib.blake2b(purpose.encode(), key=hashlib.sha256(key).digest(), digest_size=_KEY).digest()


@njit(cache=True, nogil=True, inline="always")
def _turned(x: np.uint32, bits: int) -> np.uint32:
    return np.uint32((x >> np.uint32(bits)) | (x << np.uint32(32 - bits)))


@njit(cache=True, nogil=True, inline="always")
def _mixed(
    a: np.uint32, b: np.uint32, c: np.uint32, d: np.uint32, x: np.uint32, y: np.uint32
) -> tuple[np.uint32, np.uint32, np.uint32, np.uint32]:
    a = np.uint32(a + b + x)
    d = _turned(d ^ a, 16)
    c = np.uint32(c + d)
    b = _turned(b ^ c, 12)
    a = np.uint32(a + b + y)
    d = _turned(d ^ a, 8)
    c = np.uint32(c + d)
    b = _turned(b ^ c, 7)
    return a, b, c, d


@njit(cache=True, nogil=True, inline="always")
def _turn(
    v: _State,
    s0: np.uint32,
    s1: np.uint32,
    s2: np.uint32,
    s3: np.uint32,
    s4: np.uint32,
    s5: np.uint32,
    s6: np.uint32,
    s7: np.uint32,
    s8: np.uint32,
    s9: np.uint32,
    s10: np.uint32,
    s11: np.uint32,
    s12: np.uint32,
    s13: np.uint32,
    s14: np.uint32,
    s15: np.uint32,
) -> _State:
    """One of the ten rounds: the state's columns, then its diagonals, with the block's words in that round's order."""
    a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3 = v
    a0, b0, c0, d0 = _mixed(a0, b0, c0, d0, s0, s1)
    a1, b1, c1, d1 = _mixed(a1, b1, c1, d1, s2, s3)
    a2, b2, c2, d2 = _mixed(a2, b2, c2, d2, s4, s5)
    a3, b3, c3, d3 = _mixed(a3, b3, c3, d3, s6, s7)
    a0, b1, c2, d3 = _mixed(a0, b1, c2, d3, s8, s9)
    a1, b2, c3, d0 = _mixed(a1, b2, c3, d0, s10, s11)
    a2, b3, c0, d1 = _mixed(a2, b3, c0, d1, s12, s13)
    a3, b0, c1, d2 = _mixed(a3, b0, c1, d2, s14, s15)
    return a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3


@njit(cache=True, nogil=True)
def _compress(h: np.ndarray, m: np.ndarray, done: int, last: bool) -> None:
    """Take in one block; `done` counts the bytes up to its end, the key's block among them."""
    i0, i1, i2, i3 = _START[0], _START[1], _START[2], _START[3]
    d0 = _START[4] ^ np.uint32(done & 0xFFFFFFFF)
    d1 = _START[5] ^ np.uint32(done >> 32)
    d2 = ~_START[6] if last else _START[6]
    v = (h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], i0, i1, i2, i3, d0, d1, d2, _START[7])
    v = _turn(v, m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9], m[10], m[11], m[12], m[13], m[14], m[15])
    v = _turn(v, m[14], m[10], m[4], m[8], m[9], m[15], m[13], m[6], m[1], m[12], m[0], m[2], m[11], m[7], m[5], m[3])
    v = _turn(v, m[11], m[8], m[12], m[0], m[5], m[2], m[15], m[13], m[10], m[14], m[3], m[6], m[7], m[1], m[9], m[4])
    v = _turn(v, m[7], m[9], m[3], m[1], m[13], m[12], m[11], m[14], m[2], m[6], m[5], m[10], m[4], m[0], m[15], m[8])
    v = _turn(v, m[9], m[0], m[5], m[7], m[2], m[4], m[10], m[15], m[14], m[1], m[11], m[12], m[6], m[8], m[3], m[13])
    v = _turn(v, m[2], m[12], m[6], m[10], m[0], m[11], m[8], m[3], m[4], m[13], m[7], m[5], m[15], m[14], m[1], m[9])
    v = _turn(v, m[12], m[5], m[1], m[15], m[14], m[13], m[4], m[10], m[0], m[7], m[6], m[3], m[9], m[2], m[8], m[11])
    v = _turn(v, m[13], m[11], m[7], m[14], m[12], m[1], m[3], m[9], m[5], m[0], m[15], m[4], m[8], m[6], m[2], m[10])
    v = _turn(v, m[6], m[15], m[14], m[9], m[11], m[3], m[0], m[8], m[12], m[2], m[13], m[7], m[1], m[4], m[10], m[5])
    v = _turn(v, m[10], m[2], m[8], m[4], m[7], m[6], m[1], m[5], m[15], m[11], m[9], m[14], m[3], m[12], m[13], m[0])
    for i in range(8):
        h[i] ^= v[i] ^ v[i + 8]


@njit(cache=True, nogil=True)
def _hash(
    offsets: np.ndarray,
    data: np.ndarray,
    keyed: np.ndarray,
    nothing: np.ndarray,
    high: np.ndarray,
    low: np.ndarray,
) -> None:
    h, m = np.empty(8, np.uint32), np.empty(16, np.uint32)
    for row in range(len(high)):
        at, end = offsets[row], offsets[row + 1]
        done = 64
        if at == end:
            h[:4] = nothing
        else:
            h[:] = keyed
        while at < end:
            size = min(end - at, 64)
            m[:] = 0
            for i in range(size):
                m[i >> 2] |= np.uint32(data[at + i]) << np.uint32(8 * (i & 3))
            at += size
            done += size
            _compress(h, m, done, at == end)
        high[row] = np.uint64(h[0]) | (np.uint64(h[1]) << np.uint64(32))
        low[row] = np.uint64(h[2]) | (np.uint64(h[3]) << np.uint64(32))
