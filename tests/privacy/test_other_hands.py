"""Losses by more than one hand: what this package charges, beside accountants that share none of its code.

dp-accounting, which it builds on, is compared in test_accounting.py. prv_accountant (Gopi, Lee & Wutschitz 2021)
composes numerically with bounds on both sides; OpenDP converts zero-concentrated losses; autodp (Zhu & Wang), which is
no dependency, has its own exact Gaussian: `pip install -r benchmarks/requirements-accountants.txt`.
"""

from __future__ import annotations

import opendp.prelude as dp
import pytest
from prv_accountant import GaussianMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant

from understudy.pipelines.privacy.accounting import calibrate_gaussian, composed_loss
from understudy.pipelines.privacy.events import Event, Gaussian, PoissonSampled, SelfComposed, ZeroConcentrated
from understudy.pipelines.privacy.relation import Budget, Relation

ADD_REMOVE = Relation.ADD_REMOVE


@pytest.mark.parametrize(
    ("rate", "multiplier", "steps", "gaussian", "delta"),
    [
        (0.01, 1.0, 1000, None, 1e-5),
        (0.001, 0.6, 20_000, None, 1e-5),
        (0.2, 2.0, 50, None, 1e-6),
        (0.05, 0.9, 7, 3.0, 1e-6),  # as mixing buys statistics first
        (0.5, 4.0, 100, 1.5, 1e-8),
    ],
)
def test_sampled_gaussians_cost_what_a_numerical_composition_says(
    rate: float, multiplier: float, steps: int, gaussian: float | None, delta: float
) -> None:
    mechanisms = [PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=multiplier)]
    events: list[Event] = [SelfComposed(PoissonSampled(rate, Gaussian(multiplier)), steps)]
    times = [steps]
    if gaussian is not None:
        mechanisms.append(GaussianMechanism(noise_multiplier=gaussian))
        events.append(Gaussian(gaussian))
        times.append(1)
    accountant = PRVAccountant(prvs=mechanisms, max_self_compositions=times, eps_error=0.01, delta_error=delta / 1000)
    low, estimate, high = accountant.compute_epsilon(delta=delta, num_self_compositions=times)
    charged = composed_loss(events, delta, ADD_REMOVE).epsilon
    assert low <= charged <= high
    assert charged == pytest.approx(estimate, abs=2e-3)


@pytest.mark.parametrize(("multiplier", "times"), [(1.5, 1), (5.0, 1), (5.0, 12), (0.7, 3)])
def test_concentrated_losses_cost_what_opendp_says_and_gaussians_less(multiplier: float, times: int) -> None:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    drawn = dp.c.make_composition([dp.m.make_gaussian(*space, scale=multiplier)] * times)
    theirs = dp.c.make_zCDP_to_approxDP(drawn).map(1.0).epsilon(1e-6)
    ours = composed_loss([ZeroConcentrated(1 / (2 * multiplier**2))] * times, 1e-6, ADD_REMOVE).epsilon
    assert theirs * (1 - 1e-9) <= ours <= theirs * (1 + 5e-4)
    assert composed_loss([Gaussian(multiplier)] * times, 1e-6, ADD_REMOVE).epsilon < theirs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("multiplier", [0.5, 1.5, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_a_gaussian_costs_what_autodp_says_rounded_up(multiplier: float, delta: float) -> None:
    zoo = pytest.importorskip("autodp.mechanism_zoo")
    theirs = zoo.ExactGaussianMechanism(multiplier, name="gaussian").get_approxDP(delta)
    assert theirs <= composed_loss([Gaussian(multiplier)], delta, ADD_REMOVE).epsilon <= theirs + 1e-8


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-5"), ("1", "1e-6"), ("8", "1e-9")])
def test_noise_calibrated_here_is_within_the_budget_by_another_hand(epsilon: str, delta: str) -> None:
    multiplier = calibrate_gaussian(Budget(epsilon, delta))
    accountant = PRVAccountant(
        prvs=[GaussianMechanism(noise_multiplier=multiplier)],
        max_self_compositions=[1],
        eps_error=float(epsilon) / 100,
        delta_error=float(delta) / 1000,
    )
    low, estimate, _ = accountant.compute_epsilon(delta=float(delta), num_self_compositions=[1])
    assert low <= float(epsilon)
    assert estimate == pytest.approx(float(epsilon), rel=2e-3)
