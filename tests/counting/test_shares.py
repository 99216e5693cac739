"""How the budget is shared between residuals: from public facts, whole, and as a spec says."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.counting.shares import ResidualWorkload, share_out, widest_of

SIZES = (2, 12, 5, 31)
PAIRS = list(combinations(range(4), 2))


def part(workload: ResidualWorkload, order: int) -> float:
    found = zip(workload.measured, workload.shares, strict=True)
    return math.fsum(share for clique, share in found if len(clique) == order)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from([c for order in (1, 2, 3) for c in combinations(range(5), order)]), min_size=1, unique=True
    ),
    st.lists(st.integers(1, 40), min_size=5, max_size=5).filter(lambda sizes: max(sizes) > 1),
    st.floats(0.1, 1000),
    st.booleans(),
)
def test_every_subset_is_measured_once_and_the_shares_sum_to_one(
    marginals: list, sizes: list, level: float, public_total: bool
) -> None:
    workload = share_out(marginals, sizes, level, public_total=public_total)
    assert math.fsum(workload.shares) == pytest.approx(1)
    assert min(workload.shares) > 0
    assert len(set(workload.measured)) == len(workload.measured)
    assert list(workload.measured) == sorted(workload.measured, key=lambda clique: (len(clique), clique))
    held = {sub for m in workload.asked for k in range(len(m) + 1) for sub in combinations(m, k)}
    told = {clique for clique in held if all(sizes[column] > 1 for column in clique)}
    assert set(workload.measured) == (told - {()} if public_total else told)
    assert {(column,) for column in range(5)} <= set(workload.asked) >= set(marginals)


def test_for_columns_of_two_values_it_is_the_closed_form() -> None:
    """Sixteen of them, all pairs: least summed variance, which no other parts of the three orders reach."""
    sizes, pairs = (2,) * 16, list(combinations(range(16), 2))
    parts = [part(share_out(pairs, sizes, 3.7), order) for order in (0, 1, 2)]
    assert parts == pytest.approx([0.0568, 0.3211, 0.6221], abs=5e-4)

    def error(total: float, one: float, two: float) -> float:
        """Summed variance of all pairs' cells at mu = 1, by the formula of `lifted`."""
        return 120 / 4 / total + 120 * (16 / 2 / one) + 120 * (120 / 4 / two)

    best = error(*parts)
    for moved in ((1.1, 1, 1), (0.9, 1, 1), (1, 1.1, 1), (1, 0.9, 1)):
        other = [a * b for a, b in zip(parts, moved, strict=True)]
        assert error(*(p / math.fsum(other) for p in other)) > best


def test_lower_orders_get_more_where_noise_is_great_and_tables_are_wide() -> None:
    little, great = (share_out(PAIRS, SIZES, level) for level in (1.6, 16.0))
    assert part(great, 1) > part(little, 1) + 0.05
    binary = [share_out(PAIRS, (2,) * 4, level) for level in (1.6, 16.0)]
    assert binary[0] == binary[1]


def test_triples_do_not_starve_their_pairs_and_columns() -> None:
    triples = list(combinations(range(10), 3))
    parts = [part(share_out(triples, (2,) * 10, 3.7), order) for order in range(4)]
    assert parts == pytest.approx([0.060, 0.263, 0.415, 0.261], abs=1e-3)


def test_a_spec_may_set_the_part_of_columns_by_themselves() -> None:
    assert part(share_out(PAIRS, SIZES, 4.0, one_way_share=0.6), 1) == pytest.approx(0.6)
    alone = share_out([(0,), (1,)], SIZES, 4.0, one_way_share=0.1)
    assert part(alone, 1) > 0.5  # they are all there is


def test_the_split_says_how_wider_marginals_share() -> None:
    for split, ratio in (("equal", 1.0), ("cells", (31 * 12 / (2 * 5)) ** (2 / 3))):
        workload = share_out(PAIRS, SIZES, 4.0, split=split)  # type: ignore[arg-type]
        shares = dict(zip(workload.measured, workload.shares, strict=True))
        kept = {pair: math.prod(1 - 1 / SIZES[column] for column in pair) for pair in PAIRS}
        found = (shares[(1, 3)] / kept[(1, 3)]) / (shares[(0, 2)] / kept[(0, 2)])
        assert found == pytest.approx(ratio)


def test_a_focus_takes_eight_times_the_budget_for_its_marginals() -> None:
    sizes, pairs = (4,) * 6, list(combinations(range(6), 2))
    workload = share_out(pairs, sizes, 4.0, focus=frozenset({5}))
    shares = dict(zip(workload.measured, workload.shares, strict=True))
    assert shares[(0, 5)] == pytest.approx(8 * shares[(0, 1)])
    assert shares[(5,)] > shares[(0,)]
    assert math.fsum(workload.shares) == pytest.approx(1)


def test_columns_of_more_marginals_get_more() -> None:
    workload = share_out([(0, 1), (0, 2), (0, 3)], (4, 4, 4, 4), 4.0)
    shares = dict(zip(workload.measured, workload.shares, strict=True))
    assert shares[(0,)] > 1.5 * shares[(1,)]


def test_nothing_to_measure_is_said() -> None:
    with pytest.raises(ValueError, match="nothing to measure"):
        share_out([(0,)], (1,), 4.0, public_total=True)


def test_only_the_widest_are_counted() -> None:
    assert widest_of([(0,), (1,), (2,), (0, 1)]) == ((2,), (0, 1))
