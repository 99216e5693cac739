"""Hashes are keyed BLAKE2s of 128 bits, whatever the length."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.sources.hashing import hash_rows, hash_texts


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=6), st.binary(max_size=40), st.text(max_size=5))
def test_they_are_those_of_hashlib(texts, key, purpose):
    offsets = np.cumsum([0, *(len(text) for text in texts)])
    found = hash_texts(offsets, np.frombuffer(b"".join(texts), np.uint8), key, purpose)
    subkey = hashlib.blake2b(purpose.encode(), key=hashlib.sha256(key).digest(), digest_size=32).digest()
    expected = [hashlib.blake2s(text, key=subkey, digest_size=16).digest() for text in texts]
    assert [a.tobytes() + b.tobytes() for a, b in zip(found.high, found.low, strict=True)] == expected


def test_key_purpose_and_every_byte_matter():
    rows = np.array([[1, 2, 3], [1, 2, 4], [0, 2, 3]], np.uint8)
    plain = hash_rows(rows, b"key", "row")
    for other in (hash_rows(rows, b"kez", "row"), hash_rows(rows, b"key", "entity")):
        assert not {*plain.high} & {*other.high}
    assert len({*plain.high}) == len({*plain.low}) == 3
