"""Costs of events against golden numbers, brute force and each other."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from understudy.pipelines.privacy.accounting import (
    calibrate,
    calibrate_gaussian,
    composed_loss,
)
from understudy.pipelines.privacy.curves import gaussian_delta
from understudy.pipelines.privacy.events import (
    Composed,
    Gaussian,
    Parallel,
    PoissonSampled,
    RenyiCurve,
    SelfComposed,
    ZeroConcentrated,
    from_json,
    to_json,
)
from understudy.pipelines.privacy.relation import Budget, Relation

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


@pytest.mark.parametrize(("epsilon", "sigma"), [("2.5", 1.634), ("0.2", 16.30)])
def test_analytic_calibration_golden(epsilon: str, sigma: float) -> None:
    """What docs/proofs/counts.md says of the basic conversion, delta 1e-5."""
    z = calibrate_gaussian(Budget(epsilon, "1e-5"))
    assert z == pytest.approx(sigma, abs=5e-3 if sigma > 10 else 6e-4)


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "pld"),
    [
        (0.001, 0.60, 200_000, 8.861),
        (0.001, 1.95, 200_000, 0.912),
        (0.001, 8.0, 200_000, 0.192),
        (0.01, 1.0, 20_000, 9.268),
        (0.01, 5.75, 20_000, 0.920),
        (0.01, 25.0, 20_000, 0.183),
    ],
)
def test_poisson_sampled_golden(rate: float, sigma: float, steps: int, pld: float) -> None:
    """The kernel paper's budgets as dp-accounting's PLD sees them (docs/proofs/kernel.md), delta 1e-5."""
    loss = composed_loss([SelfComposed(PoissonSampled(rate, Gaussian(sigma)), steps)], 1e-5, ADD)
    assert (loss.accountant, loss.epsilon) == ("pld", pytest.approx(pld, abs=1.5e-3))


def test_gaussians_compose_in_closed_form_and_agree_with_pld() -> None:
    events = [Gaussian(3.0), SelfComposed(Gaussian(8.0), 5)]
    exact = composed_loss(events, 1e-6, ADD)
    # A Poisson rate of 1 is the plain Gaussian, but only the PLD accountant knows it.
    by_pld = composed_loss([PoissonSampled(1.0, Gaussian(3.0)), SelfComposed(Gaussian(8.0), 5)], 1e-6, ADD)
    assert exact.accountant == "analytic"
    assert exact.epsilon <= by_pld.epsilon == pytest.approx(exact.epsilon, rel=2e-3)


def test_delta_curve_against_numerical_integration() -> None:
    mu, epsilon = 0.7, 1.3
    cut = mu / 2 + epsilon / mu  # the likelihood ratio exceeds e^eps above it
    brute = norm.sf(cut - mu) - math.exp(epsilon) * norm.sf(cut)
    assert gaussian_delta(mu, epsilon) == pytest.approx(brute, rel=1e-9)


def test_delta_does_not_overflow_at_large_epsilon() -> None:
    assert gaussian_delta(50.0, 2000.0) == pytest.approx(float(norm.cdf(25 - 40)), rel=1e-6)


def test_a_plain_gaussian_costs_the_same_under_both_relations() -> None:
    """Its multiplier divides by the relation's own sensitivity; dp-accounting alone would double-count REPLACE_ONE."""
    mixed = [Gaussian(2.0), PoissonSampled(1e-9, Gaussian(50.0))]
    assert composed_loss([Gaussian(2.0)], 1e-5, ADD) == composed_loss([Gaussian(2.0)], 1e-5, REPLACE)
    assert composed_loss(mixed, 1e-5, REPLACE).epsilon == pytest.approx(
        composed_loss([Gaussian(2.0)], 1e-5, ADD).epsilon, rel=2e-3
    )


def test_replacing_a_sampled_unit_costs_more_than_removing_it() -> None:
    event = PoissonSampled(0.1, Gaussian(2.0))
    assert composed_loss([event], 1e-5, REPLACE).epsilon > 1.2 * composed_loss([event], 1e-5, ADD).epsilon


def test_ten_monthly_releases_cost_far_less_than_their_sum() -> None:
    z = calibrate_gaussian(Budget("0.3", "1e-6"))
    assert composed_loss([SelfComposed(Gaussian(z), 10)], 1e-6, ADD).epsilon < 1.1


def test_parallel_counts_the_worst_branch() -> None:
    cheap, dear = PoissonSampled(0.01, Gaussian(4.0)), PoissonSampled(0.2, Gaussian(2.0))
    rest = Gaussian(5.0)
    together = composed_loss([Parallel((cheap, dear)), rest], 1e-5, ADD)
    assert together.epsilon == composed_loss([dear, rest], 1e-5, ADD).epsilon
    with pytest.raises(ValueError, match="ADD_REMOVE"):
        composed_loss([Parallel((cheap, dear))], 1e-5, REPLACE)


def test_zcdp_and_renyi_curves_are_charged_by_rdp() -> None:
    zcdp = composed_loss([ZeroConcentrated(0.02)], 1e-6, ADD)
    assert zcdp.accountant == "rdp"
    assert zcdp.epsilon > composed_loss([Gaussian(5.0)], 1e-6, ADD).epsilon  # the same rho, with an exact curve
    curve = RenyiCurve((2.0, 8.0, 64.0), (0.04, 0.16, 1.28))
    assert composed_loss([curve], 1e-6, ADD).epsilon >= zcdp.epsilon  # fewer orders cannot prove more


def test_a_renyi_curve_is_never_read_below_its_first_known_order_for_free() -> None:
    only_high = RenyiCurve((64.0,), (1.0,))
    with pytest.raises(ValueError, match="no accountant"):
        composed_loss([RenyiCurve((1.00001,), (1.0,))], 1e-6, ADD)
    assert composed_loss([only_high], 1e-6, ADD).epsilon > 1.0


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 8), st.floats(1e-9, 1e-3))
def test_calibration_is_tight_and_never_over_budget(epsilon: float, delta: float) -> None:
    budget = Budget(repr(epsilon), repr(delta))
    z = calibrate(Gaussian, budget, ADD)
    assert composed_loss([Gaussian(z)], delta, ADD).epsilon <= epsilon
    assert composed_loss([Gaussian(z * 0.999)], delta, ADD).epsilon > epsilon


def test_nothing_costs_nothing() -> None:
    assert composed_loss([], 1e-6, ADD).epsilon == 0


def test_calibration_accounts_for_what_is_spent() -> None:
    alone = calibrate_gaussian(Budget("1", "1e-6"))
    after = calibrate_gaussian(Budget("1", "1e-6"), spent=[Gaussian(10.0)])
    assert after > alone
    with pytest.raises(ValueError, match="already spent"):
        calibrate_gaussian(Budget("1", "1e-6"), spent=[Gaussian(1.0)])


leaves = st.one_of(
    st.builds(Gaussian, st.floats(0.1, 100)),
    st.builds(ZeroConcentrated, st.floats(1e-6, 10)),
    st.builds(PoissonSampled, st.floats(1e-6, 1), st.builds(Gaussian, st.floats(0.1, 100))),
    st.just(RenyiCurve((2.0, 4.0), (0.5, 1.5))),
)
events = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(SelfComposed, inner, st.integers(1, 1000)),
        st.builds(Composed, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Parallel, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@given(events)
def test_events_survive_json(event: object) -> None:
    import json

    assert from_json(json.loads(json.dumps(to_json(event)))) == event  # type: ignore[arg-type]


def test_events_refuse_impossible_numbers() -> None:
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="positive"):
            Gaussian(bad)
    with pytest.raises(ValueError, match="rate"):
        PoissonSampled(0.0, Gaussian(1.0))
    with pytest.raises(ValueError, match="not an event"):
        from_json({"kind": "free lunch"})
