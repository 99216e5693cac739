"""Groups of a column's values: how many, none empty, as even as counts allow, and sums over them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from understudy.pipelines.counting.merging import even_groups, groups_of, merged, other_groups

noisy_counts = st.integers(1, 40).flatmap(lambda size: arrays(np.float64, size, elements=st.floats(-1e9, 1e9)))


@given(noisy_counts, st.booleans())
def test_whatever_the_noisy_counts_are_every_group_has_a_value(counts: np.ndarray, ordered: bool) -> None:
    for groups in (even_groups(counts, ordered), other_groups(len(counts))):
        assert len(groups) == len(counts)
        assert np.unique(groups).tolist() == list(range(groups_of(len(counts))))


@given(noisy_counts)
def test_neighbours_stay_together_where_values_have_an_order(counts: np.ndarray) -> None:
    assert (np.diff(even_groups(counts, ordered=True)) >= 0).all()


def test_groups_are_as_even_as_counts_allow() -> None:
    assert even_groups(np.array([5.0, 5, 5, 5, 5, 5, 5, 5]), ordered=True).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert even_groups(np.array([97.0, 1, 1, 1, 1, 1]), ordered=True)[:2].tolist() == [0, 1]
    dealt = even_groups(np.array([40.0, 30, 20, 10, 10, 10]), ordered=False)
    held = np.bincount(dealt, weights=[40, 30, 20, 10, 10, 10])
    assert sorted(held.tolist()) == [20, 30, 30, 40]


def test_odd_and_even_values_are_told_apart_by_the_second_way() -> None:
    assert other_groups(6).tolist() == [0, 1, 2, 3, 0, 1]
    assert other_groups(3).tolist() == [0, 1, 2]


@given(arrays(np.int64, (7, 3, 5), elements=st.integers(0, 1000)))
def test_merging_sums_the_cells_of_each_group(table: np.ndarray) -> None:
    groups = [other_groups(7), other_groups(3), even_groups(table.sum(axis=(0, 1)).astype(float), ordered=True)]
    expected = np.zeros((4, 3, 4), dtype=np.int64)
    for cell in np.ndindex(*table.shape):
        expected[tuple(int(group[code]) for group, code in zip(groups, cell, strict=True))] += table[cell]
    assert (merged(table, groups) == expected).all()
