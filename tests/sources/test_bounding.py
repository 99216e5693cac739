from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources import bounding
from understudy.pipelines.sources.base import read_parts
from understudy.pipelines.sources.hashing import row_hashes, value_hashes
from understudy.pipelines.sources.ranking import find, first_of_each


class Rows:
    """A part held in memory."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def read(self, columns, batch_rows):
        return iter(self.table.select(columns).to_batches(max_chunksize=batch_rows))


def kept(parts, unit, columns=("x",), rows=None, batch_rows=5) -> list:
    found = read_parts([Rows(part) for part in parts], columns, unit, b"key", batch_rows, rows)
    return sorted(tuple(row.values()) for batch in found for row in batch.to_pylist())


entities = st.one_of(st.none(), st.integers(0, 6))
tables = st.lists(st.tuples(entities, st.integers(0, 3)), max_size=60)


@settings(max_examples=30, deadline=None)
@given(tables, st.integers(1, 4), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 9), st.data())
def test_the_cap_holds_and_the_choice_ignores_how_rows_are_split_and_ordered(rows, cap, cuts, batch_rows, data):
    unit = Unit("who", cap)
    whole = pa.table({"who": pa.array([who for who, _ in rows], pa.int64()), "x": [x for _, x in rows]})
    expected = kept([whole], unit, ("who", "x"))
    for who in range(7):
        have = sum(1 for each, _ in rows if each == who)
        assert sum(1 for each, _ in expected if each == who) == min(have, cap)
    assert all(who is not None for who, _ in expected)
    shuffled = whole.take(pa.array(np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(rows))))
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [shuffled.slice(a, b - a) for a, b in pairwise(bounds)]
    assert kept(parts, unit, ("who", "x"), batch_rows=batch_rows) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounding, "BOUNDING_BYTES", 300)
        patch.setattr(bounding, "MERGE_ROWS", 4)
        assert kept(parts, unit, ("who", "x"), rows=len(rows), batch_rows=batch_rows) == expected


def test_a_large_table_is_bounded_in_slices_that_cover_every_entity():
    many = bounding.slices(10**9)
    assert len(many) > 10
    hashes = np.random.default_rng(0).integers(0, 2**64, 10_000, dtype=np.uint64)
    assert (sum(each.holds(hashes).astype(int) for each in many) == 1).all()
    assert bounding.slices(None) == [bounding.Slice()]


@pytest.mark.parametrize(
    "who",
    [
        pa.array([1.5, 1.5, 1.5, float("nan"), None]),
        pa.array(["a", "a", "a", None, None]),
        pa.array(["a", "a", "a", None, None]).dictionary_encode(),
        pa.array([b"a", b"a", b"a", None, None]),
        pa.array([0.0, -0.0, 0.0, None, None]),
        pa.array([7, 7, 7, None, None], pa.uint64()),
        pa.array([1, 1, 1, None, None], pa.decimal128(5, 2)),
        pa.array([1, 1, 1, None, None], pa.timestamp("us")),
        pa.array([1, 1, 1, None, None], pa.date32()),
        pa.array([True, True, True, None, None]),
    ],
)
def test_entities_of_every_type_are_recognised(who):
    assert len(kept([pa.table({"who": who, "x": range(5)})], Unit("who", 2))) == 2


def test_hashes_do_not_depend_on_how_a_column_is_stored():
    texts = pa.array(["", "a", "eight by", "longer than eight bytes", None] * 3)
    plain = value_hashes(texts, b"key", "entity")
    assert (plain == value_hashes(texts.dictionary_encode(), b"key", "entity")).all()
    assert (plain == value_hashes(texts.cast(pa.large_string()), b"key", "entity")).all()
    assert (plain[2:] == value_hashes(texts.slice(2), b"key", "entity")).all()
    assert len(set(plain.tolist())) == 5
    assert not (plain == value_hashes(texts, b"other", "entity"))[:4].any()


def test_hashing_is_siphash_2_4():
    """The reference vector of the SipHash paper: key 00..0f, message 00..0e."""
    from understudy.pipelines.sources.hashing import _sip_bytes

    k0, k1 = (np.uint64(int.from_bytes(bytes(range(i, i + 8)), "little")) for i in (0, 8))
    found = np.empty(1, np.uint64)
    _sip_bytes(np.array([0, 15]), np.arange(15, dtype=np.uint8), k0, k1, found)
    assert found[0] == 0xA129CA6149BE45E5


def test_rows_that_differ_hash_differently():
    table = pa.table({"a": ["x", "y", "x", None], "b": [1, 1, 2, 1]}).to_batches()[0]
    hashes = row_hashes(table.columns, 4, b"key")
    assert len(set(hashes.tolist())) == 4
    assert hashes[0] != row_hashes(table.columns[::-1], 4, b"key")[0]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 2**40)), max_size=120, unique=True),
    st.integers(1, 40),
)
def test_the_first_of_each_entity_are_those_a_plain_sort_gives(rows, count):
    expected: dict[int, list] = {}
    for row in sorted(rows):
        group = expected.setdefault(row[0], [])
        if len(group) < count:
            group.append(row)
    entity, row, position = (np.array([each[i] for each in rows], np.uint64) for i in range(3))
    order = first_of_each(entity, row, position, count)
    assert [rows[i] for i in order] == [row for group in expected.values() for row in group]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), unique=True), st.lists(st.integers(0, 2**64 - 1)))
def test_hashes_are_found_however_unevenly_they_lie(known, others):
    known = np.array(sorted(known), np.uint64)
    wanted = np.r_[known, np.array(others, np.uint64)]
    places = find(known, wanted)
    assert (places[: len(known)] == np.arange(len(known))).all()
    for place, value in zip(places[len(known) :], others, strict=True):
        assert (place == -1) == (value not in known.tolist())
