"""The curve of fixed-size mixtures attacked: both cases of the proof, by quadrature, at the worst places and others."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.methods.mixing.accounting import calibrated
from understudy.pipelines.methods.mixing.fixed_size import ORDERS, _full_class, _log_moments, _small_class
from understudy.pipelines.methods.mixing.fixed_size import fixed_size_curve as curve
from understudy.pipelines.methods.mixing.mechanism import MixtureDesign
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian, PoissonSampled, SelfComposed
from understudy.pipelines.privacy.relation import Budget, Relation

SETTINGS = [(0.3, 1.0), (0.3, 4.0), (0.02, 0.7), (0.02, 2.0), (1.0, 2.0), (0.002, 1.2)]


def renyi(order: int, top: list[tuple[float, float]], bottom: list[tuple[float, float]], sigma: float) -> float:
    """Renyi divergence of two mixtures of normals on a line, given as (weight, mean), by a fine sum."""
    places = np.linspace(-3 - 14 * sigma, 3 + (14 + 4 * order / sigma) * sigma, 20_001)

    def log_density(parts: list[tuple[float, float]]) -> np.ndarray:
        logs = [math.log(w) - ((places - mean) / sigma) ** 2 / 2 for w, mean in parts if w > 0]
        return np.logaddexp.reduce(logs, axis=0) - math.log(sigma * math.sqrt(2 * math.pi))

    exponent = order * log_density(top) + (1 - order) * log_density(bottom)
    largest = exponent.max()
    total = math.log(float(np.exp(exponent - largest).sum()) * (places[1] - places[0])) + largest
    return total / (order - 1)


def small_class(rate: float, at: float, zero: float, record: float) -> tuple[list, list]:
    """Mixtures with a zero record and with the new one in its place, where not drawing it gives `at`."""
    return [(1 - rate, at), (rate, zero)], [(1 - rate, at), (rate, record)]


@pytest.mark.parametrize(("rate", "sigma"), SETTINGS)
def test_no_pair_of_neighbours_exceeds_the_curve(rate, sigma):
    """On a line in units of C: another drawn record w, the new record x. Full: w against x. Small: 0 and x beside w."""
    charged = dict(zip(ORDERS, curve(rate, sigma).epsilons, strict=True))
    reached = 0.0
    for order in (2, 3, 4, 7, 16):
        for w in (-1.0, -0.6, 0.0, 0.5, 1.0):
            for x in (1.0, 0.7):
                without, within = [(1.0, w)], [(1 - rate, w), (rate, x)]
                zero, record = small_class(rate, w, 0.0, x)
                for top, bottom in ((without, within), (within, without), (zero, record), (record, zero)):
                    found = renyi(order, top, bottom, sigma)
                    assert found <= charged[order] * (1 + 1e-6) + 1e-12
                    reached = max(reached, found / charged[order])
    assert reached > 0.99  # the curve is not idle: the worst neighbours attain it


@pytest.mark.parametrize(("rate", "sigma"), SETTINGS)
def test_the_small_class_is_bounded_by_its_own_formula(rate, sigma):
    moments = _log_moments(sigma**-2)
    for order in (2, 3, 5, 9):
        zero, record = small_class(rate, -1.0, 0.0, 1.0)
        found = max(renyi(order, zero, record, sigma), renyi(order, record, zero, sigma))
        assert found <= _small_class(order, rate, moments) * (1 + 1e-6)


def test_at_order_two_the_small_class_is_exact_in_the_limit_of_rare_draws():
    """M_2 is the very chi-square of the worst pair, so it may not be made smaller by mistake."""
    for sigma in (1.2, 2.0, 4.0):
        zero, record = small_class(1e-4, -1.0, 0.0, 1.0)
        bound = _small_class(2, 1e-4, _log_moments(sigma**-2))
        assert renyi(2, record, zero, sigma) == pytest.approx(bound, rel=2e-3)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.7, 3.0),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.integers(1, 4).map(lambda half: 2 * half),
)
def test_the_moments_bound_every_place_of_the_two_records_in_a_plane(sigma, a, b, c, order):
    """E_A |(B1 - B0)/A|^j in closed form, for records w and x anywhere in the unit disc."""
    square = sigma**-2
    w = np.array([a, b]) / max(1.0, math.hypot(a, b))
    x = np.array([c, math.sqrt(max(0.0, 1 - c * c))])
    zero, record = -w, x - w
    total = []
    for k in range(order + 1):
        mean = k * record + (order - k) * zero
        exponent = square * (mean @ mean - k * record @ record - (order - k) * zero @ zero) / 2
        total.append((-1) ** (order - k) * math.comb(order, k) * math.exp(exponent))
    largest = max(map(abs, total))
    assert math.fsum(total) <= math.exp(_log_moments(square)[order]) * (1 + 1e-9) + 1e-12 * largest


def test_no_poisson_sampled_gaussian_dominates_a_small_class():
    """Why the curve is charged: seen from the other side, a small class's loss has no bound, the Poisson pair's has."""
    rate, sigma, alpha = 0.1, 0.3, 2.0
    places = np.linspace(-8, 8, 400_001)

    def density(parts):
        return sum(w * np.exp(-(((places - m) / sigma) ** 2) / 2) for w, m in parts) / (sigma * math.sqrt(2 * math.pi))

    def hockey_stick(top, bottom):
        return float(np.maximum(density(top) - alpha * density(bottom), 0).sum() * (places[1] - places[0]))

    zero, record = small_class(rate, -1.0, 0.0, 1.0)
    without = [(1.0, -1.0)]
    assert hockey_stick(without, record) == 0.0  # alpha > 1/(1 - rate)
    assert min(hockey_stick(zero, record), hockey_stick(record, zero)) > 0.01


def test_fixed_size_draws_are_charged_by_the_curve_and_cost_more_than_a_dominating_pair_would():
    design = MixtureDesign("fixed", 4 / 6000, 4, 6000, 2.0)
    event = design.event(6000)
    assert event == SelfComposed(curve(4 / 6000, 2.0), 6000)
    loss = composed_loss([event], 1e-5, Relation.ADD_REMOVE)
    before = SelfComposed(PoissonSampled(4 / 6000, Gaussian(1.0)), 6000)
    assert loss.accountant == "rdp"
    assert loss.epsilon == pytest.approx(0.6468, abs=1e-4)
    assert composed_loss([before], 1e-5, Relation.ADD_REMOVE).epsilon == pytest.approx(0.2344, abs=1e-4)


def test_the_full_class_is_the_sampled_gaussian_of_dp_accounting():
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    for rate, sigma in ((0.01, 2.0), (0.3, 1.0), (1.0, 3.0)):
        accountant = RdpAccountant(list(ORDERS))
        gaussian = dp_accounting.GaussianDpEvent(sigma / 2)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, gaussian))
        ours = [_full_class(order, rate, sigma**-2) for order in ORDERS]
        np.testing.assert_allclose(ours, accountant._rdp, rtol=1e-6)


@pytest.mark.parametrize(("order", "epsilon", "more"), [(4, "0.5", 1.49), (64, "5", 1.05)])
def test_golden_noise_that_a_proof_for_small_classes_costs(order, epsilon, more):
    """Beside twice the Poisson noise, which was drawn before: what CHANGELOG.md says, at its two ends."""
    budget = Budget(Decimal(epsilon), Decimal("1e-5"))
    fixed = calibrated(MixtureDesign("fixed", order / 6000, order, 6000, 1.0), 6000, None, budget, 0.002)
    poisson = calibrated(MixtureDesign("poisson", order / 6000, order, 6000, 1.0), 6000, None, budget, 0.002)
    assert fixed / (2 * poisson) == pytest.approx(more, abs=0.02)
