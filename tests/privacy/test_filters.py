"""Both filters over sequences of events: what they count, where they stop, and what they cannot hold."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from dp_accounting.rdp import compute_epsilon
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.privacy.accounting import calibrate_gaussian, composed_loss
from understudy.pipelines.privacy.curves import gaussian_delta, rdp_orders, renyi_epsilon
from understudy.pipelines.privacy.events import (
    Approximate,
    BoundedRange,
    Composed,
    Event,
    Gaussian,
    Parallel,
    PoissonSampled,
    RenyiCurve,
    SelfComposed,
    ZeroConcentrated,
)
from understudy.pipelines.privacy.filters import (
    Filter,
    GaussianFilter,
    RenyiFilter,
    Unholdable,
    best_order,
    from_json,
    needed_filter,
    own_delta_of,
    spent,
    to_json,
)
from understudy.pipelines.privacy.relation import Budget, Relation

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
CAP = Budget("3", "1e-6")
GDP, RENYI = GaussianFilter(), RenyiFilter(8.0)


def counts(*events: Event) -> tuple[tuple[Event, int], ...]:
    return tuple((event, 1) for event in events)


plain = st.one_of(
    st.builds(Gaussian, st.floats(0.5, 100)),
    st.builds(BoundedRange, st.floats(1e-4, 3)),
)
everywhere = st.one_of(
    plain,
    st.builds(ZeroConcentrated, st.floats(1e-6, 1)),
    st.builds(PoissonSampled, st.floats(1e-4, 0.5), st.builds(Gaussian, st.floats(0.8, 20))),
    st.just(RenyiCurve((2.0, 4.0, 16.0), (0.05, 0.1, 0.6))),
)


def nested(leaves: st.SearchStrategy) -> st.SearchStrategy:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(SelfComposed, inner, st.integers(1, 5)),
            st.builds(Composed, st.lists(inner, min_size=1, max_size=3).map(tuple)),
            st.builds(Parallel, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        ),
        max_leaves=4,
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(nested(plain), min_size=1, max_size=6), st.randoms())
def test_gdp_counts_any_sequence_alike_in_any_order_and_exactly_as_fixed_events_cost(events: list, random) -> None:
    whole = spent(GDP, counts(*events), CAP, ADD)
    shuffled = list(events)
    random.shuffle(shuffled)
    assert spent(GDP, counts(*shuffled), CAP, ADD) == whole
    assert whole.epsilon == composed_loss(events, 1e-6, ADD).epsilon
    assert spent(GDP, counts(*events[:-1]), CAP, ADD).epsilon <= whole.epsilon
    assert (whole.epsilon <= 3) == (GDP.counted(counts(*events), ADD) <= GDP.limit(CAP) * (1 + 1e-12))


@settings(max_examples=60, deadline=None)
@given(st.lists(nested(everywhere), min_size=1, max_size=5), st.sampled_from([2.0, 5.5, 8.0, 16.0]))
def test_renyi_never_counts_less_than_fixed_events_cost_and_stops_exactly_at_its_limit(events, order) -> None:
    rule = RenyiFilter(order)
    whole = spent(rule, counts(*events), CAP, ADD)
    cost = composed_loss(events, 1e-6, ADD).epsilon
    # The fixed loss may use the same order; on its own grid it may round up (PLD) or know broken orders better.
    assert whole.epsilon >= cost * (1 - 1e-6) - 2e-9 or composed_loss_at(events, order) <= whole.epsilon + 2e-9
    assert spent(rule, counts(*events[:-1]), CAP, ADD).epsilon <= whole.epsilon
    over = rule.counted(counts(*events), ADD) - rule.limit(CAP)
    if abs(over) > 1e-8:
        assert (whole.epsilon <= 3) == (over < 0)


def composed_loss_at(events: list, order: float) -> float:
    return renyi_epsilon(RenyiFilter(order).counted(counts(*events), ADD), order, 1e-6)


@settings(deadline=None)
@given(st.floats(0, 50), st.sampled_from([1.5, 2.0, 8.0, 63.0]), st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_the_conversion_is_that_of_dp_accounting(renyi: float, order: float, delta: float) -> None:
    assert renyi_epsilon(renyi, order, delta) >= compute_epsilon([order], [renyi], delta)[0] - 1e-12
    if renyi > 1e-3:
        assert renyi_epsilon(renyi, order, delta) == pytest.approx(
            compute_epsilon([order], [renyi], delta)[0], abs=1e-9
        )


@pytest.mark.parametrize("cap", [Budget("0.1", "1e-6"), CAP, Budget("20", "1e-9")])
def test_mu_cap_is_the_largest_mu_within_the_cap(cap: Budget) -> None:
    mu = GDP.limit(cap) ** 0.5
    epsilon, delta = float(cap.epsilon), float(cap.delta)
    assert gaussian_delta(mu, epsilon) <= delta < gaussian_delta(mu * (1 + 1e-9), epsilon)
    assert mu == pytest.approx(1 / calibrate_gaussian(cap), rel=2e-6)


@pytest.mark.parametrize("cap", [Budget("0.1", "1e-6"), CAP, Budget("20", "1e-9")])
def test_the_order_for_a_cap_leaves_most_room_for_gaussians(cap: Budget) -> None:
    room = {order: RenyiFilter(order).limit(cap) / order for order in rdp_orders()}
    assert room[best_order(cap, ADD)] == max(room.values())
    best = RenyiFilter(best_order(cap, ADD)).limit(cap) / best_order(cap, ADD) * 2
    assert 0.6 < best / GDP.limit(cap) < 1  # what renyi costs a Gaussian account


def test_the_order_for_a_release_is_the_one_that_holds_most_of_them() -> None:
    event = SelfComposed(PoissonSampled(0.01, Gaussian(1.0)), 100)

    def fits(order: float) -> float:
        return RenyiFilter(order).limit(CAP) / RenyiFilter(order).counted(((event, 1),), ADD)

    chosen = best_order(CAP, ADD, ((event, 1),))
    assert all(fits(chosen) >= fits(order) * (1 - 1e-3) for order in (2.0, 4.0, 6.0, 8.0, 12.0, 24.0, 48.0))
    assert chosen != best_order(CAP, ADD)


@pytest.mark.parametrize(
    "event",
    [
        ZeroConcentrated(0.1),
        RenyiCurve((8.0,), (0.1,)),
        PoissonSampled(0.1, Gaussian(2.0)),
        Composed((Gaussian(2.0), ZeroConcentrated(0.1))),
        Parallel((Gaussian(2.0), PoissonSampled(0.1, Gaussian(2.0)))),
    ],
)
def test_gdp_refuses_what_it_has_no_theorem_for(event: Event) -> None:
    with pytest.raises(Unholdable, match="gdp holds"):
        spent(GDP, counts(event), CAP, ADD)
    needed = needed_filter([event, Gaussian(3.0)], CAP, ADD)
    assert isinstance(needed, RenyiFilter)
    assert spent(needed, counts(event, Gaussian(3.0)), CAP, ADD).epsilon > 0


def test_what_gdp_holds_needs_nothing_else() -> None:
    parts = Parallel((Gaussian(2.0), Composed((BoundedRange(0.1), Gaussian(3.0)))))
    assert needed_filter([Gaussian(1.0), SelfComposed(BoundedRange(0.3), 4), parts], CAP, ADD) == GDP
    assert spent(GDP, counts(parts), CAP, ADD) == spent(GDP, counts(Gaussian(2.0)), CAP, ADD)
    with pytest.raises(ValueError, match="ADD_REMOVE"):
        spent(GDP, counts(parts), CAP, REPLACE)


@pytest.mark.parametrize(
    ("event", "relation", "words"),
    [
        (PoissonSampled(0.1, Gaussian(2.0)), REPLACE, "no Renyi bound is known"),
        (RenyiCurve((2.0, 4.0), (0.1, 0.2)), ADD, "no bound at the account's Renyi order"),
    ],
)
def test_renyi_refuses_what_has_no_curve_at_its_order(event: Event, relation: Relation, words: str) -> None:
    with pytest.raises(Unholdable, match=words):
        spent(RENYI, counts(event), CAP, relation)


@pytest.mark.parametrize("kind", [GaussianFilter, lambda own=Decimal(0): RenyiFilter(8.0, own)])
def test_deltas_of_their_own_are_held_by_what_was_set_aside_and_by_nothing_else(kind) -> None:
    thresholded = Approximate(Gaussian(5.0), 2e-8)
    with pytest.raises(Unholdable, match="set none aside"):
        spent(kind(), counts(thresholded), CAP, ADD)
    rule: Filter = kind(own_delta=Decimal("1e-7")) if kind is GaussianFilter else kind(Decimal("1e-7"))
    alone = spent(rule, counts(Gaussian(5.0)), CAP, ADD)
    assert spent(rule, counts(thresholded), CAP, ADD) == alone  # the part was paid for at opening
    assert alone.epsilon > spent(kind(), counts(Gaussian(5.0)), CAP, ADD).epsilon
    assert own_delta_of(((thresholded, 5),)) == Decimal("1e-7")
    assert spent(rule, ((thresholded, 5),), CAP, ADD).epsilon < 3
    assert spent(rule, ((thresholded, 6),), CAP, ADD).epsilon == float("inf")
    assert own_delta_of(counts(SelfComposed(Parallel((thresholded, Gaussian(1.0))), 3))) == Decimal("6e-8")


def test_a_fixed_release_pays_its_own_deltas_out_of_its_delta() -> None:
    thresholded = Approximate(Gaussian(5.0), 4e-7)
    both = composed_loss([thresholded, Gaussian(5.0)], 1e-6, ADD)
    assert both.epsilon == composed_loss([SelfComposed(Gaussian(5.0), 2)], 6e-7, ADD).epsilon
    assert composed_loss([SelfComposed(thresholded, 3)], 1e-6, ADD).epsilon == float("inf")


@pytest.mark.parametrize("rule", [GDP, RENYI, GaussianFilter(Decimal("1e-7")), RenyiFilter(7.2, Decimal("2e-9"))])
def test_filters_survive_json(rule: Filter) -> None:
    assert from_json(to_json(rule)) == rule


def test_golden_filters() -> None:
    assert to_json(GDP) == {"kind": "gdp"}
    assert to_json(RenyiFilter(7.2, Decimal("2e-9"))) == {"kind": "renyi", "order": 7.2, "own_delta": "2E-9"}
    with pytest.raises(ValueError, match="not a filter"):
        from_json({"kind": "natural"})
    with pytest.raises(ValueError, match="exceeds 1"):
        RenyiFilter(1.0)


sizes = st.floats(min_value=5e-324, max_value=1.7e308, allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.builds(Gaussian, sizes),
            st.builds(BoundedRange, sizes),
            st.builds(ZeroConcentrated, sizes),
            st.builds(SelfComposed, st.builds(Gaussian, sizes), st.integers(1, 10**400)),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([GDP, RenyiFilter(8.0)]),
)
def test_events_of_any_size_are_counted_none_for_free_and_none_raises(events: list, rule: Filter) -> None:
    """Gaussian(1e300) raised OverflowError, and what underflowed counted as nothing."""
    try:
        alone = [rule.counted(counts(event), ADD) for event in events]
        whole = rule.counted(counts(*events), ADD)
    except Unholdable:
        return
    assert min(alone) > 0
    assert whole >= max(alone)
    assert spent(rule, counts(*events), CAP, ADD).epsilon >= 0
    assert (spent(rule, counts(*events), CAP, ADD).epsilon == math.inf) or whole < math.inf


def test_the_bounds_at_any_size_are_the_ordinary_ones_where_those_are_floats() -> None:
    for z in (1e-3, 0.5, 1.0, 37.0, 1e6):
        assert GDP.counted(counts(Gaussian(z)), ADD) == 1 / z**2
        assert RenyiFilter(8.0).counted(counts(Gaussian(z)), ADD) == 8.0 / (2 * z * z)
    for epsilon in (1e-3, 0.5, 1.0, 7.999, 8.0, 700.0):
        assert RenyiFilter(8.0).counted(counts(BoundedRange(epsilon)), ADD) == min(8.0 * epsilon**2 / 8, epsilon)
