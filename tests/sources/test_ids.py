"""Ids are read as one kind of value, alike in every form they come in; what is nobody's is told apart."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.sources.ids import is_key, read_ids, spelled_alike


def ids(values: pa.Array, as_text: bool = False) -> list[tuple[int, int] | None]:
    known, hashes = read_ids(values, as_text, b"key")
    return [(int(a), int(b)) if is_id else None for is_id, a, b in zip(known, hashes.high, hashes.low, strict=True)]


def spelled(text: bytes) -> bytes | None:
    """The rule, written plainly."""
    text = text.strip(b" \t\n\v\f\r")
    if not text or re.fullmatch(rb"[+-]?nan", text, re.IGNORECASE):
        return None
    if re.fullmatch(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)", text):
        number = Decimal(text.decode())
        return (f"{number:f}".rstrip("0").rstrip(".") if "." in f"{number:f}" else f"{number:f}").encode() \
            if number else b"0"  # fmt: skip
    return text


numbers = st.from_regex(r"\A[ \t]?[+-]?[0-9]{0,4}\.?[0-9]{0,3} ?\Z").map(str.encode)
texts = st.one_of(
    numbers, st.binary(max_size=6), st.sampled_from([b"NaN", b" nan ", b"-NAN", b"nana", b"", b" ", b"."])
)


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, max_size=8))
def test_plain_numbers_and_blanks_have_one_spelling(found):
    offsets = np.cumsum([0, *(len(text) for text in found)])
    spans, data, named = spelled_alike(offsets, np.frombuffer(b"".join(found), np.uint8))
    results = [data[a:b].tobytes() if name else None for a, b, name in zip(spans, spans[1:], named, strict=False)]
    assert results == [spelled(text) for text in found]


@pytest.mark.parametrize(
    "alike",
    [
        ["7", " 7", "7.0", "07", "+7", "7.", "\t007.000 "],
        ["-0.50", "-.5", " -00.5"],
        ["0", "-0", "0.0", "+00"],
        ["ann", " ann", "ann\r"],
        ["123456789012345678901234567890", "0123456789012345678901234567890.0"],
    ],
)
def test_spellings_of_one_id_are_one_person_unless_the_spec_says_text(alike):
    assert len(set(ids(pa.array(alike)))) == 1
    assert len(set(ids(pa.array(alike), as_text=True))) == len(alike)


def test_different_ids_stay_apart():
    different = [
        "7",
        "70",
        "-7",
        "7.5",
        "a7",
        "7a",
        "1e3",
        "1000",
        "12345678901234567890",
        "12345678901234567891",
        "0x7",
    ]
    assert len(set(ids(pa.array(different)))) == len(different)


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.5, 1.5, float("nan"), None]),
        pa.array([1.5, 1.5, float("nan"), None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 0, 1, None]), pa.array([1.5, float("nan")], pa.float32())),
        pa.array(["1.5", "1.5", "NaN", None]),
        pa.array(["1.5", "1.5", "", None]).dictionary_encode(),
        pa.array([b"a", b"a", b"", None]),
        pa.array([0.0, -0.0, float("nan"), None], pa.float64()),
        pa.array([7, 7, None, None], pa.uint64()),
        pa.array([1, 1, None, None], pa.decimal128(5, 2)),
        pa.array([1, 1, None, None], pa.timestamp("us")),
        pa.array([1, 1, None, None], pa.date32()),
        pa.array([True, True, None, None]),
        pa.array([b"0123", b"0123", None, None], pa.binary(4)),
        pa.array(["1.5", "1.5", None, None], pa.string_view()),
    ],
)
def test_null_nan_and_nothing_are_nobody_in_every_type(values, as_text):
    one, same, *nobody = ids(values, as_text)
    assert one == same is not None
    assert nobody == [None, None]


def test_a_column_of_nothing_or_of_lists_identifies_nobody():
    assert ids(pa.nulls(2)) == [None, None]
    assert not is_key(pa.list_(pa.int8()))
    assert ids(pa.array([[1], [2]])) == [None, None]


def test_ids_do_not_depend_on_how_a_column_is_stored():
    texts = pa.array(["", "a", "eight by", "longer than eight bytes", None] * 3)
    plain = ids(texts)
    assert plain == ids(texts.dictionary_encode()) == ids(texts.cast(pa.large_string()))
    assert plain[2:] == ids(texts.slice(2))
    assert len(set(plain)) == 4
