"""Losses by more than one hand: what this package charges, beside accountants that share none of its code.

dp-accounting, which it builds on, is compared in test_accounting.py. prv_accountant (Gopi, Lee & Wutschitz 2021)
composes numerically with bounds on both sides; OpenDP converts zero-concentrated losses; autodp (Zhu & Wang), which is
no dependency, has its own exact Gaussian and its own Renyi accountant: install benchmarks/requirements-accountants.txt
into an environment of its own, whose Python `UNDERSTUDY_ACCOUNTANTS` names. Two more hands are in this file: arithmetic
with forty digits, and quadrature over the worst pairs of `analyst`. Whatever the hand, what is charged is no less.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prv_accountant import GaussianMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant

from tests.privacy.analyst import pairs_of
from understudy.pipelines.privacy.accounting import calibrate_gaussian, composed_loss
from understudy.pipelines.privacy.events import (
    Approximate,
    BoundedRange,
    Event,
    Gaussian,
    PoissonSampled,
    SelfComposed,
    ZeroConcentrated,
)
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


def in_autodp(program: str, *values: float) -> list[float]:
    """What a program prints that knows autodp, here or in the environment that is named."""
    python = os.environ.get("UNDERSTUDY_ACCOUNTANTS", sys.executable)
    asked = subprocess.run([python, "-c", "import autodp"], capture_output=True, check=False)
    if asked.returncode:
        pytest.skip("NOT COMPARED with autodp: install benchmarks/requirements-accountants.txt (CONTRIBUTING.md)")
    command = [python, "-W", "ignore", "-c", f"import json, sys\nvalues = json.loads(sys.argv[1])\n{program}"]
    done = subprocess.run([*command, json.dumps(values)], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


EXACT_GAUSSIAN = """
from autodp.mechanism_zoo import ExactGaussianMechanism
print(json.dumps([float(ExactGaussianMechanism(values[0], name="g").get_approxDP(delta)) for delta in values[1:]]))
"""
SUBSAMPLED = """
from autodp.mechanism_zoo import GaussianMechanism
from autodp.transformer_zoo import AmplificationBySampling, Composition
rate, multiplier, steps, delta = values
gaussian = GaussianMechanism(sigma=multiplier)
gaussian.neighboring = "add_remove"
sampled = AmplificationBySampling(PoissonSampling=True)(gaussian, rate, improved_bound_flag=True)
print(json.dumps([float(Composition()([sampled], [int(steps)]).get_approxDP(delta))]))
"""


@pytest.mark.parametrize("multiplier", [0.5, 1.5, 8.0])
def test_a_gaussian_costs_what_autodp_says_rounded_up(multiplier: float) -> None:
    deltas = (1e-3, 1e-6, 1e-9)
    for delta, theirs in zip(deltas, in_autodp(EXACT_GAUSSIAN, multiplier, *deltas), strict=True):
        assert theirs <= composed_loss([Gaussian(multiplier)], delta, ADD_REMOVE).epsilon <= theirs + 1e-8


@pytest.mark.parametrize(("rate", "multiplier", "steps"), [(0.01, 1.0, 1000), (0.2, 2.0, 50)])
def test_sampled_gaussians_cost_no_more_than_autodp_says_by_renyi(rate: float, multiplier: float, steps: int) -> None:
    [theirs] = in_autodp(SUBSAMPLED, rate, multiplier, steps, 1e-6)
    ours = composed_loss([SelfComposed(PoissonSampled(rate, Gaussian(multiplier)), steps)], 1e-6, ADD_REMOVE).epsilon
    assert 0.8 * theirs < ours <= theirs


def exact_delta(mu: Any, epsilon: Any) -> Any:
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@settings(max_examples=60, deadline=None)
@given(
    multipliers=st.lists(st.floats(0.2, 60), min_size=1, max_size=4),
    delta=st.floats(-12, -2).map(lambda power: 10.0**power),
    relation=st.sampled_from(Relation),
)
def test_gaussians_are_charged_no_less_than_forty_digits_say_and_hardly_more(
    multipliers: list[float], delta: float, relation: Relation
) -> None:
    """The delta that really holds at the charged epsilon is at most the one that is claimed."""
    charged = composed_loss([Gaussian(z) for z in multipliers], delta, relation).epsilon
    with mpmath.workdps(40):
        mu = mpmath.sqrt(mpmath.fsum(1 / mpmath.mpf(z) ** 2 for z in multipliers))
        assert exact_delta(mu, mpmath.mpf(charged)) <= mpmath.mpf(delta)
        less = mpmath.mpf(charged) * (1 - mpmath.mpf("1e-6")) - mpmath.mpf("1e-6")
        assert less <= 0 or exact_delta(mu, less) > mpmath.mpf(delta)


@pytest.mark.parametrize("event", [
    PoissonSampled(0.01, Gaussian(0.6)), PoissonSampled(0.2, Gaussian(1.0)), PoissonSampled(0.9, Gaussian(3.0)),
    Approximate(Gaussian(2.0), 1e-7), BoundedRange(1.3),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_one_event_is_charged_no_less_than_its_worst_pair_needs(event: Event, delta: float) -> None:
    charged = np.array([composed_loss([event], delta, ADD_REMOVE).epsilon])
    needed = max(float(pair.delta(charged)[0]) for pair in pairs_of(event))
    assert needed <= delta * (1 + 1e-9)
    if isinstance(event, PoissonSampled):  # one bound among several is exact: this one
        assert max(float(pair.delta(charged * 0.98 - 0.002)[0]) for pair in pairs_of(event)) > delta


@pytest.mark.parametrize("events", [
    (PoissonSampled(0.1, Gaussian(0.9)), PoissonSampled(0.3, Gaussian(1.5))),
    (Gaussian(1.7), PoissonSampled(0.05, Gaussian(0.7))),
], ids=str)  # fmt: skip
def test_two_events_are_charged_no_less_than_their_worst_pairs_need_together(events: tuple[Event, Event]) -> None:
    delta = 1e-4
    charged = np.array([composed_loss(list(events), delta, ADD_REMOVE).epsilon])
    firsts, seconds = (pairs_of(event, 8001) for event in events)
    together = zip(firsts, seconds * (len(firsts) // len(seconds) or 1), strict=False) if len(firsts) >= len(seconds) \
        else zip(firsts * len(seconds), seconds, strict=True)  # fmt: skip
    needed = max(float(first.value(second.delta, charged)[0]) for first, second in together)
    assert needed <= delta * (1 + 1e-3)
    assert needed > delta * 0.97


@settings(max_examples=25, deadline=None)
@given(st.floats(0.3, 20), st.sampled_from([1e-3, 1e-6, 1e-9]), st.integers(1, 4))
def test_more_is_never_charged_as_less(multiplier: float, delta: float, times: int) -> None:
    """More noise, a larger delta or fewer releases never cost more."""
    cost = composed_loss([Gaussian(multiplier)] * times, delta, ADD_REMOVE).epsilon
    assert composed_loss([Gaussian(multiplier * 1.01)] * times, delta, ADD_REMOVE).epsilon <= cost
    assert composed_loss([Gaussian(multiplier)] * times, delta * 1.1, ADD_REMOVE).epsilon <= cost
    assert composed_loss([Gaussian(multiplier)] * (times + 1), delta, ADD_REMOVE).epsilon >= cost


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
