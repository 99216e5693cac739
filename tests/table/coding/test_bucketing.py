from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.table.coding.bucketing import bins_of, bucket

doubles = st.floats(allow_nan=False, allow_infinity=False)


def _buckets(values: np.ndarray, edges: tuple, whole: bool) -> np.ndarray:
    codes = np.empty(len(values), np.int32)
    bucket(values, bins_of(edges, whole), -1, codes)
    return codes


@settings(max_examples=300, deadline=None)
@given(st.lists(doubles, min_size=2, max_size=40), st.lists(doubles, max_size=20), st.integers(-1, 1))
def test_doubles_of_any_size_fall_where_a_search_puts_them(edges, others, side):
    edges = tuple(sorted(edges))
    with np.errstate(over="ignore", under="ignore"):
        near = np.nextafter(np.array(edges), [-np.inf, 0.0, np.inf][side + 1])
    values = np.r_[np.array(edges), near[np.isfinite(near)], np.array(others)]
    assert (_buckets(values, edges, False) == np.searchsorted(edges[1:-1], values, side="right")).all()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=40),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20),
)
def test_whole_numbers_of_any_size_too(edges, others):
    edges = tuple(sorted(edges))
    values = np.array([*edges, *(edge - 1 for edge in edges), *(edge + 1 for edge in edges), *others], np.int64)
    inner = np.array(edges[1:-1], np.int64)
    assert (_buckets(values, edges, True) == np.searchsorted(inner, values, side="right")).all()


def test_close_edges_far_from_zero():
    edges = tuple(np.linspace(1e16, 1e16 + 64, 33).tolist())
    values = 1e16 + np.arange(-4, 70, 2.0)
    assert (_buckets(values, edges, False) == np.searchsorted(edges[1:-1], values, side="right")).all()


def test_what_is_no_number_goes_to_the_fallback():
    assert _buckets(np.array([np.nan, np.inf, -np.inf]), (0.0, 1.0, 2.0), False).tolist() == [-1, -1, -1]
