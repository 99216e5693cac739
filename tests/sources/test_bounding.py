"""At most k rows an entity: the cap, what the choice may depend on, ranges and passes, memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.coding.strategies import domain_of
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources import bounding
from understudy.pipelines.sources.hashing import Hashes
from understudy.pipelines.sources.ranking import first_of_each, first_of_two
from understudy.pipelines.sources.rows import CodeView, RecordView

WHOLE = {"type": "integer", "min": 0, "max": 9, "nullable": True}
DOMAIN = domain_of({"copy": WHOLE, "x": WHOLE})


class Rows:
    """A part held in memory, which counts how often it is read."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.reads = table, 0

    def read(self, columns, batch_rows=1000):
        self.reads += 1
        return iter(self.table.select(columns).to_batches(max_chunksize=batch_rows))


def people(rows) -> pa.Table:
    who = pa.array([who for who, _ in rows], pa.int64())
    return pa.table({"who": who, "copy": who, "x": pa.array([x for _, x in rows], pa.int64())})


def kept(parts, unit, batch_rows=5, threads=1, domain=DOMAIN) -> list[tuple]:
    """The kept rows, by codes and as they are, which must agree."""
    found = bounding.passes(parts, RecordView(domain), unit, b"key", batch_rows, threads)
    records = [bounding.merge(each, unit).kept for pieces in found for each in pieces if each]
    rows = sorted(
        (tuple(row.values()) for table in records for row in table.to_pylist()), key=lambda row: [str(v) for v in row]
    )
    view = CodeView(domain, range(len(domain.columns)))
    coded = bounding.passes(parts, view, unit, b"key", batch_rows, threads)
    assert sum(len(bounding.merge(each, unit)) for pieces in coded for each in pieces if each) == len(rows)
    return rows


entities = st.one_of(st.none(), st.integers(0, 6))
tables = st.lists(st.tuples(entities, st.integers(0, 3)), max_size=60)


@settings(max_examples=30, deadline=None)
@given(tables, st.integers(1, 4), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 9), st.data())
def test_the_cap_holds_and_the_choice_ignores_how_rows_are_split_and_ordered(rows, cap, cuts, batch_rows, data):
    unit = Unit("who", cap)
    whole = people(rows)
    expected = kept([Rows(whole)], unit)
    for who in range(7):
        have = sum(1 for each, _ in rows if each == who)
        assert sum(1 for each, _ in expected if each == who) == min(have, cap)
    assert all(who is not None for who, _ in expected)
    shuffled = whole.take(pa.array(np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(rows))))
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [Rows(shuffled.slice(a, b - a)) for a, b in pairwise(bounds)]
    threads = data.draw(st.integers(1, 3))
    assert kept(parts, unit, batch_rows, threads) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounding, "BOUNDING_BYTES", data.draw(st.sampled_from([1000, 4000])))
        patch.setattr(bounding, "MERGE_BYTES", data.draw(st.sampled_from([0, 100])))
        assert kept(parts, unit, batch_rows, threads) == expected


@settings(max_examples=30, deadline=None)
@given(tables, st.integers(0, 6), st.integers(1, 3), st.integers(0, 9))
def test_an_entity_that_leaves_takes_its_rows_and_moves_no_other(rows, who, cap, seed):
    unit = Unit("who", cap)
    order = np.random.default_rng(seed).permutation(len(rows))
    without = [rows[i] for i in order if rows[i][0] != who]
    before, after = kept([Rows(people(rows))], unit), kept([Rows(people(without))], unit)
    assert [row for row in before if row[0] != who] == after
    assert len(before) - len(after) <= cap


@settings(max_examples=25, deadline=None)
@given(st.lists(tables, min_size=1, max_size=6), st.integers(1, 3), st.sampled_from([1000, 4000, 1 << 30]))
def test_a_source_that_gives_other_rows_at_every_read_still_gives_no_more_than_k(states, cap, most_bytes):
    """Also without any pin: each entity's rows come from one pass, and are cut where they come together."""

    class Restless(Rows):
        def read(self, columns, batch_rows=1000):
            self.table = people(states[self.reads % len(states)])
            return super().read(columns, batch_rows)

    unit = Unit("who", cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounding, "BOUNDING_BYTES", most_bytes)
        patch.setattr(bounding, "MERGE_BYTES", 0)
        parts = [Restless(people(states[0])) for _ in range(3)]
        found = bounding.passes(parts, RecordView(DOMAIN), unit, b"key", 4, 2)
        counts: dict[int, int] = {}
        for pieces in found:
            for each in pieces:
                for row in bounding.merge(each, unit).kept.to_pylist() if each else []:
                    counts[row["copy"]] = counts.get(row["copy"], 0) + 1
    assert all(count <= cap for count in counts.values())


def test_a_table_too_large_for_the_memory_is_bounded_in_several_passes(monkeypatch):
    rng = np.random.default_rng(0)
    table = people([(int(who), int(who) % 9) for who in rng.integers(0, 4000, 20_000)])
    monkeypatch.setattr(bounding, "MERGE_BYTES", 10_000)
    unit, view = Unit("who", 2), CodeView(DOMAIN, [0, 1])

    def bounded(most_bytes: int) -> tuple[int, int, int]:
        monkeypatch.setattr(bounding, "BOUNDING_BYTES", most_bytes)
        part = Rows(table)
        found = list(bounding.passes([part], view, unit, b"key", 500, 2))
        largest = max(sum(each.bytes for each in pieces for each in each) for pieces in found)
        rows = sum(len(bounding.merge(each, unit)) for pieces in found for each in pieces if each)
        return part.reads, rows, largest

    expected = sum(min(2, count) for count in np.unique(table["who"].to_numpy(), return_counts=True)[1])
    reads, rows, _ = bounded(1 << 30)
    assert (reads, rows) == (1, expected)
    reads, rows, largest = bounded(100_000)
    assert rows == expected
    assert 3 < reads < 16
    assert largest < 100_000


def test_ranges_cover_every_entity_once():
    many = bounding.slices(10**9, 20)
    assert len(many) > 10
    assert (many[0][0], many[-1][1]) == (0, bounding.WHOLE)
    assert all(end == first for (_, end), (first, _) in pairwise(many))
    assert bounding.slices(None, 20) == [(0, bounding.WHOLE)]
    assert bounding.cut(5, 7, 64) == [(5, 6), (6, 7)]


hashes = st.tuples(*(st.integers(0, most) for most in (3, 1, 1, 1, 1, 1)))


@settings(max_examples=60, deadline=None)
@given(st.lists(hashes, max_size=120), st.integers(1, 40), st.integers(0, 120))
def test_the_first_of_each_entity_are_those_a_plain_sort_gives(rows, count, split):
    def first(some) -> list:
        groups: dict[tuple, list] = {}
        for row in sorted(some):
            group = groups.setdefault(row[:2], [])
            if len(group) < count:
                group.append(row)
        return [row for group in groups.values() for row in group]

    def columns(some) -> list[Hashes]:
        halves = [np.array([row[i] for row in some], np.uint64) for i in range(6)]
        return [Hashes(*halves[i : i + 2]) for i in (0, 2, 4)]

    assert [rows[i] for i in first_of_each(*columns(rows), count)] == first(rows)
    halves = sorted(rows[:split]) + sorted(rows[split:])
    assert [halves[i] for i in first_of_two(*columns(halves), min(split, len(rows)), count)] == first(rows)
