"""Groups of neighbours: a partition of the codes that no row decides, measured as columns of fewer values would be."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.randomness import SeededWords
from understudy.pipelines.counting.groups import NARROW, GroupedClique, Groupings, groupings
from understudy.pipelines.counting.lifted import centred_counts
from understudy.pipelines.counting.mechanism import noise_multiplier
from understudy.pipelines.counting.released import grouped_by_name, released_residuals, residuals_by_name
from understudy.pipelines.counting.residuals import moved_square, residual_noise
from understudy.pipelines.counting.shares import ResidualWorkload, share_out
from understudy.pipelines.counting.triples import TripleCounts, candidate_triples, triples_noise
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

SIZES = (200, 5, 90)
WIDE = {0: groupings(200, True, (199,)), 2: groupings(90, True, ())}
PAIRS = list(combinations(range(3), 2))


def ways() -> dict[int, Groupings]:
    return {column: found for column, found in WIDE.items() if found is not None}


def workload(sizes: tuple[int, ...] = SIZES, **others: Any) -> ResidualWorkload:
    return share_out(PAIRS, sizes, 3.7, groupings=ways(), **others)


@given(st.integers(1, 3000), st.integers(0, 3))
def test_every_code_lies_in_one_group_of_every_grouping_and_groups_nest(on_axis: int, off: int) -> None:
    found = groupings(on_axis + off, True, range(on_axis, on_axis + off))
    if on_axis <= NARROW:
        assert found is None
        return
    assert found is not None
    for chain in (found.alone, found.paired):
        for starts in chain:
            assert starts[0] == 0
            assert list(starts) == sorted(set(starts))
            assert starts[len(starts) - off :] == tuple(range(on_axis, on_axis + off))
        for coarse, fine in pairwise(chain):
            assert set(coarse) <= set(fine)


def test_columns_without_order_and_narrow_ones_are_not_grouped() -> None:
    assert groupings(1000, False, ()) is None
    assert groupings(NARROW, True, ()) is None
    assert groupings(1000, True, (3,)) is None  # a code off the axis, but among those on it


def test_shares_with_groups_sum_to_one_and_leave_narrow_tables_as_they_were() -> None:
    shared = workload()
    assert math.fsum((*shared.shares, *shared.grouped_shares)) == pytest.approx(1)
    plain = share_out(PAIRS, SIZES, 3.7)
    for clique, share, whole in zip(shared.measured, shared.shares, plain.shares, strict=True):
        own = [s for each, s in zip(shared.grouped, shared.grouped_shares, strict=True) if each.columns == clique]
        assert share + math.fsum(own) == pytest.approx(whole)
        assert bool(own) == any(column in WIDE for column in clique)
    narrow = share_out(PAIRS, (30, 5, 64), 3.7, groupings={})
    assert narrow.grouped == ()


def test_more_than_two_columns_are_not_grouped() -> None:
    shared = share_out([(0, 1, 2)], SIZES, 3.7, groupings=ways())
    assert {len(each.columns) for each in shared.grouped} == {1, 2}


def test_one_wide_column_does_not_take_what_the_others_have() -> None:
    """With 10,000 values instead of 64 a column costs the others nothing."""
    shares = [
        dict(zip(s.measured, s.shares, strict=True))
        for s in (share_out(PAIRS, (2, 5, size), 3.7) for size in (64, 10_000))
    ]
    assert shares[1][(0,)] == pytest.approx(shares[0][(0,)], rel=0.05)


rows = st.tuples(*(st.integers(0, size - 1) for size in SIZES))


@settings(max_examples=30, deadline=None)
@given(st.lists(rows, min_size=0, max_size=5), rows, rows)
def test_a_row_moves_a_grouped_table_as_one_of_its_shape(table: list[Any], one: Any, other: Any) -> None:
    """Of every table in groups: the squared length of the shift, by brute force, against what is charged."""
    for each in workload().grouped:
        shape = each.shape(SIZES)
        before, added, replaced = (centred(each, [*table, *more]) for more in ([], [one], [other]))
        assert round(np.square(added - before).sum()) == moved_square(shape, Relation.ADD_REMOVE, Unit())
        assert np.square(added - replaced).sum() <= moved_square(shape, Relation.REPLACE_ONE, Unit()) * (1 + 1e-9)


def centred(each: GroupedClique, table: list[Any]) -> np.ndarray:
    counts = each.summed(counted(each.columns, table)).astype(float)
    for axis in range(counts.ndim):
        counts = counts - counts.mean(axis=axis, keepdims=True)
    return counts * counts.size


def counted(columns: tuple[int, ...], table: list[Any]) -> np.ndarray:
    counts = np.zeros([SIZES[column] for column in columns], dtype=np.int64)
    for row in table:
        counts[tuple(row[column] for column in columns)] += 1
    return counts


def exact(shared: ResidualWorkload, table: list[Any]) -> dict[str, np.ndarray]:
    tables = {clique: counted(clique, table) for clique in shared.measured}
    return residuals_by_name(list(tables.values())) | grouped_by_name(
        [each.summed(tables[each.columns]) for each in shared.grouped]
    )


def test_groups_are_within_the_one_event_and_cost_nothing_beside_it() -> None:
    z = 2.5
    shared = workload()
    shares = (*shared.shares, *shared.grouped_shares)
    noise = residual_noise(shared.shapes(SIZES), shares, (), z, Relation.ADD_REMOVE, Unit(), "rounded")
    assert isinstance(noise.event, Gaussian)
    assert noise.event.noise_multiplier == pytest.approx(z, rel=1e-6)
    without = residual_noise(
        shared.shapes(SIZES)[: len(shared.shares)], shared.shares, (), z, Relation.ADD_REMOVE, Unit(), "rounded"
    )
    assert without.stds[-1] < noise.stds[len(shared.shares) - 1]  # who leaves them out of the event draws too little


def test_groups_are_read_back_beside_chosen_triples_with_the_noise_that_they_have() -> None:
    rng = np.random.default_rng(0)
    table = [tuple(row) for row in np.stack([rng.integers(0, size, 300) for size in SIZES], axis=1)]
    shared = workload()
    z = noise_multiplier(Budget("1000", "1e-5"), Relation.ADD_REMOVE, "rounded")
    candidates = candidate_triples(SIZES)
    noise = triples_noise(candidates, shared, SIZES, (True, False, True), (), z, Relation.ADD_REMOVE, Unit(), "rounded")
    triples = {triple: counted(triple, table) for triple in candidates}
    facts = {"sizes": list(SIZES), "public_total": None}
    drawn = Mechanism(noise, TripleCounts(exact(shared, table), triples, None), "residuals", facts)
    told = released_residuals(drawn.draw(SeededWords(1)))
    assert tuple(told.grouped) == shared.grouped
    assert set(shared.measured) <= set(told.by_clique)
    for each, residual in told.grouped.items():
        truth = centred(each, table) / math.prod(each.shape(SIZES))
        assert np.abs(residual.counts - truth).max() < 6 * residual.std + 1e-9
        assert residual.std > 0


def test_noise_in_groups_is_of_the_stated_scale() -> None:
    shared = workload()
    shares = (*shared.shares, *shared.grouped_shares)
    noise = residual_noise(shared.shapes(SIZES), shares, (), 50.0, Relation.ADD_REMOVE, Unit(), "rounded")
    drawn = noise.draw(exact(shared, []), SeededWords(2))
    squares, freedom = 0.0, 0
    for i, each in enumerate(shared.grouped):
        shape = each.shape(SIZES)
        std = noise.stds[len(shared.shares) + i] / math.prod(shape)
        squares += float(np.square(centred_counts(drawn[f"grouped_{i}"], shape)).sum()) / std**2
        freedom += math.prod(size - 1 for size in shape)
    assert squares == pytest.approx(freedom, rel=6 * math.sqrt(2 / freedom))
