from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.counting import sparse, tally
from understudy.pipelines.counting.counting import count_items, count_marginals
from understudy.pipelines.counting.cover import JOINT_CELLS, cover
from understudy.pipelines.counting.tally import Tally
from understudy.pipelines.table.coding.encode import EncodedBatch, code_type


def plain_counts(codes: np.ndarray, sizes, clique) -> np.ndarray:
    """Counts as one would write them on paper."""
    table = np.zeros([sizes[column] for column in clique], np.int64)
    for row in codes:
        table[tuple(row[column] for column in clique)] += 1
    return table


def batches_of(codes: np.ndarray, sizes, cuts=()) -> list[EncodedBatch]:
    pieces = np.split(codes, sorted(cuts))
    return [
        EncodedBatch(tuple(piece[:, i].astype(code_type(size)) for i, size in enumerate(sizes)), len(piece))
        for piece in pieces
    ]


@st.composite
def tables(draw):
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 7, 40, 300, 5000]), min_size=1, max_size=5))
    rows = draw(st.integers(0, 60))
    codes = np.random.default_rng(draw(st.integers(0, 2**32))).integers(0, 2**32, (rows, len(sizes))) % sizes
    cliques = draw(
        st.lists(
            st.lists(st.integers(0, len(sizes) - 1), unique=True, max_size=3).map(tuple),
            min_size=1,
            max_size=8,
        )
    )
    kept = [clique for clique in cliques if np.prod([sizes[column] for column in clique]) <= 2_000_000]
    return codes, tuple(sizes), kept or [()]


@settings(max_examples=60, deadline=None)
@given(tables(), st.data())
def test_any_partition_order_and_batch_size_gives_the_plain_counts(table, data):
    codes, sizes, cliques = table
    expected = [plain_counts(codes, sizes, clique) for clique in cliques]
    cuts = data.draw(st.lists(st.integers(0, len(codes)), max_size=6))
    shuffled = codes[np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(codes))]
    for found in (
        count_marginals(batches_of(codes, sizes), sizes, cliques),
        count_marginals(reversed(batches_of(shuffled, sizes, cuts)), sizes, cliques),
        count_items(batches_of(codes, sizes, cuts), Tally.add, sizes, cliques, threads=3),
    ):
        assert all(table.dtype == np.int64 for table in found)
        assert all(table.shape == wanted.shape for table, wanted in zip(found, expected, strict=True))
        assert all((table == wanted).all() for table, wanted in zip(found, expected, strict=True))


@settings(max_examples=30, deadline=None)
@given(tables(), st.data())
def test_sparse_counting_and_flushing_give_the_same(table, data):
    codes, sizes, cliques = table
    expected = [plain_counts(codes, sizes, clique) for clique in cliques]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "DENSE_CELLS", data.draw(st.sampled_from([0, 50])))
        patch.setattr(tally, "FLUSH_ROWS", 5)
        patch.setattr(tally, "CACHED_ROWS", 7)
        patch.setattr(sparse, "MERGE_CELLS", 3)
        cuts = data.draw(st.lists(st.integers(0, len(codes)), max_size=6))
        found = count_marginals(batches_of(codes, sizes, cuts), sizes, cliques)
    assert all((table == wanted).all() for table, wanted in zip(found, expected, strict=True))


def test_no_rows_count_zero():
    (found,) = count_marginals([], (2, 3), [(0, 1)])
    assert found.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_axes_follow_the_cliques_order():
    found = count_marginals(batches_of(np.array([[1, 2]]), (2, 3)), (2, 3), [(1, 0), (0,), ()])
    assert found[0].shape == (3, 2)
    assert found[0][2, 1] == 1
    assert found[1].tolist() == [0, 1]
    assert found[2] == 1


@pytest.mark.parametrize("clique", [(0, 0), (2,), (-1,)])
def test_a_clique_that_names_no_columns_is_refused(clique):
    with pytest.raises(ValueError, match="distinct columns"):
        count_marginals([], (2, 3), [clique])


def test_codes_outside_their_column_are_refused_before_any_cell_is_touched():
    with pytest.raises(ValueError, match="between 0 and 1"):
        Tally((2, 3), [(0, 1)]).add(EncodedBatch((np.array([2], np.uint8), np.array([0], np.uint8)), 1))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(2, 60), min_size=2, max_size=12), st.integers(1, 3))
def test_every_clique_lies_in_its_group_and_joint_groups_fit_the_cache(sizes, width):
    cliques = list(combinations(range(len(sizes)), min(width, len(sizes))))
    found = cover(tuple(sizes), tuple(cliques))
    assert all(set(clique) <= set(found.groups[home]) for clique, home in zip(cliques, found.home, strict=True))
    joined = [group for group in found.groups if group not in cliques]
    assert all(np.prod([sizes[column] for column in group]) <= JOINT_CELLS for group in joined)


def test_joining_saves_most_of_the_work():
    cliques = list(combinations(range(20), 2))
    assert len(cover((12,) * 20, tuple(cliques)).groups) < len(cliques) / 4


def test_errors_in_a_thread_reach_the_caller_and_stop_the_others():
    taken = []

    def fail(tally, item):
        taken.append(item)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        count_items(range(1000), fail, (2,), [(0,)], threads=2)
    assert len(taken) <= 2
