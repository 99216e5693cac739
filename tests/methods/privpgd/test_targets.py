"""Reconciliation, shrinkage and projection against closed forms, brute force and statistics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from understudy.pipelines.methods.privpgd.problem import GridColumn, NoisyMarginal
from understudy.pipelines.methods.privpgd.projection import (
    fit_proportionally,
    maximum_entropy,
    project_to_marginals,
    project_to_simplex,
)
from understudy.pipelines.methods.privpgd.reconcile import estimate_closure, estimate_total
from understudy.pipelines.methods.privpgd.shrinkage import (
    centred,
    shrink_by_expectation,
    shrink_by_spectrum,
    shrink_interaction,
)
from understudy.pipelines.methods.privpgd.targets import LEAST_WEIGHT, build_targets


def test_one_column_from_a_pair_and_its_own_count() -> None:
    pair = NoisyMarginal((0, 1), np.array([[3.0, 5.0], [2.0, 10.0]]), 2.0)
    alone = NoisyMarginal((0,), np.array([10.0, 8.0]), 1.0)
    estimate = estimate_closure([pair, alone], [2, 2])[(0,)]
    # The pair's row sums 8 and 12 have variance 2 * 4, the count's own variance is 1.
    assert estimate.variance == pytest.approx(1 / (1 / 8 + 1))
    assert np.allclose(estimate.counts, (np.array([8.0, 12.0]) / 8 + np.array([10.0, 8.0])) / (1 / 8 + 1))


def test_reconciled_variance_is_the_variance_of_the_error() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(5, 60, size=(3, 4, 2)).astype(float)
    errors = []
    for _ in range(400):
        noisy = [
            NoisyMarginal((0, 1), truth.sum(2) + 3.0 * rng.normal(size=(3, 4)), 3.0),
            NoisyMarginal((0, 2), truth.sum(1) + 5.0 * rng.normal(size=(3, 2)), 5.0),
            NoisyMarginal((0, 1, 2), truth + 4.0 * rng.normal(size=truth.shape), 4.0),
        ]
        estimate = estimate_closure(noisy, [3, 4, 2])[(0,)]
        errors.append(estimate.counts - truth.sum((1, 2)))
    assert np.mean(errors) == pytest.approx(0.0, abs=0.6)
    assert np.var(errors) == pytest.approx(estimate.variance, rel=0.15)
    assert estimate.variance < 0.9 * 3.0**2 * 4


def test_total_by_inverse_variance() -> None:
    few = NoisyMarginal((0,), np.array([60.0, 50.0]), 1.0)
    many = NoisyMarginal((1,), np.full(8, 10.0), 1.0)
    assert estimate_total([few, many]) == pytest.approx((110 / 2 + 80 / 8) / (1 / 2 + 1 / 8))


def test_exact_counts_dominate() -> None:
    exact = NoisyMarginal((0,), np.array([30.0, 70.0]), 0.0)
    noisy = NoisyMarginal((0, 1), np.full((2, 2), 40.0), 5.0)
    targets = build_targets([exact, noisy], [GridColumn(2, False), GridColumn(2, False)], None)
    assert np.allclose(targets.single[0].probabilities, [0.3, 0.7], atol=1e-6)
    assert np.allclose(targets.joint[0].probabilities.sum(1), [0.3, 0.7], atol=1e-6)


def test_simplex_projection_is_nearest() -> None:
    weights = np.array([0.7, -0.2, 0.4, 0.05, 0.3])
    found = minimize(
        lambda p: np.sum((p - weights) ** 2),
        np.full(5, 0.2),
        bounds=[(0, None)] * 5,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        tol=1e-12,
    )
    assert np.allclose(project_to_simplex(weights), found.x, atol=1e-5)


def test_marginal_projection_is_nearest() -> None:
    rng = np.random.default_rng(3)
    rows, columns = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4))
    signed = np.outer(rows, columns) + 0.05 * rng.normal(size=(3, 4))
    lower = {(0,): rows, (1,): columns}
    found = minimize(
        lambda p: np.sum((p - signed.ravel()) ** 2),
        np.outer(rows, columns).ravel(),
        bounds=[(0, None)] * 12,
        constraints=[
            {"type": "eq", "fun": lambda p: p.reshape(3, 4).sum(1) - rows},
            {"type": "eq", "fun": lambda p: p.reshape(3, 4).sum(0)[:3] - columns[:3]},
        ],
        tol=1e-14,
    )
    ours = project_to_marginals(signed, lower)
    assert ours.min() >= 0
    assert np.allclose(ours.sum(1), rows, atol=1e-6)
    assert np.allclose(ours.ravel(), found.x, atol=2e-4)


def test_maximum_entropy_is_the_product_and_keeps_pairs() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(5))
    assert np.allclose(maximum_entropy({(0,): a, (1,): b}, (3, 5)), np.outer(a, b))
    joint = rng.dirichlet(np.ones(24)).reshape(2, 3, 4)
    pairs = {(0, 1): joint.sum(2), (0, 2): joint.sum(1), (1, 2): joint.sum(0)}
    fitted = fit_proportionally(np.full((2, 3, 4), 1 / 24), pairs)
    for axes, table in pairs.items():
        other = ({0, 1, 2} - set(axes)).pop()
        assert np.allclose(fitted.sum(other), table, atol=1e-4)


@pytest.mark.parametrize("shrink", ["expectation", "spectrum", "both"])
def test_freedom_is_steins_divergence(shrink: str) -> None:
    """Stein: E<estimate, noise> = variance x divergence, checked by averaging over noise draws."""
    rng = np.random.default_rng(5)
    rows, columns = rng.dirichlet(np.full(8, 3.0)), rng.dirichlet(np.full(6, 3.0))
    expected = np.outer(rows, columns)
    signal = centred(0.04 * np.outer(rng.normal(size=8), rng.normal(size=6)))
    variance = 0.02**2
    inner, freedom = [], []
    for _ in range(1500):
        noise = centred(np.sqrt(variance) * rng.normal(size=expected.shape))
        if shrink == "expectation":
            result = shrink_by_expectation(signal + noise, expected, variance)
        elif shrink == "spectrum":
            result = shrink_by_spectrum(signal + noise, variance)
        else:
            result = shrink_interaction(signal + noise, expected, variance)
        inner.append(np.sum(result.interaction * noise) / variance)
        freedom.append(result.freedom)
    # Fitting the prior and the mixture to the data adds a little divergence that the formulas leave out.
    assert np.mean(inner) == pytest.approx(np.mean(freedom), rel=0.2, abs=1.0)


def test_shrinkage_follows_the_noise() -> None:
    rng = np.random.default_rng(2)
    rows, columns = rng.dirichlet(np.full(10, 5.0)), rng.dirichlet(np.full(12, 5.0))
    expected = np.outer(rows, columns)
    signal = centred(expected * np.outer(np.sin(np.arange(10)), np.cos(np.arange(12))))
    quiet = shrink_interaction(signal + centred(1e-5 * rng.normal(size=signal.shape)), expected, 1e-10)
    assert np.allclose(quiet.interaction, signal, atol=1e-4)
    loud_noise = centred(0.05 * rng.normal(size=signal.shape))
    loud = shrink_interaction(signal + loud_noise, expected, 0.05**2)
    assert np.abs(loud.interaction).sum() < 0.25 * np.abs(signal + loud_noise).sum()


@pytest.mark.parametrize("shape", [(2, 2), (2, 9), (9, 9), (2, 3, 4)])
def test_shrinkage_knows_how_much_noise_an_interaction_holds(shape: tuple[int, ...]) -> None:
    """An interaction of s times its own noise keeps 1 - 1/(1 + s^2) of itself, however few cells share it."""
    rng = np.random.default_rng(3)
    cells, freedom = np.prod(shape), np.prod([size - 1 for size in shape])
    expected, variance, strength = np.full(shape, 1 / cells), 1e-6, 4.0
    kept = []
    for _ in range(400):
        signal = centred(rng.normal(size=shape))
        signal *= strength * np.sqrt(variance * freedom / np.sum(signal**2))
        noise = centred(np.sqrt(variance) * rng.normal(size=shape))
        shrunk = shrink_interaction(signal + noise, expected, variance)
        kept.append(np.sum(shrunk.interaction * signal) / np.sum(signal**2))
    assert np.mean(kept) == pytest.approx(1 - 1 / (1 + strength**2), abs=0.03)


def test_a_column_of_one_value_has_no_interaction() -> None:
    shrunk = shrink_interaction(np.ones((1, 5)), np.full((1, 5), 0.2), 1e-6)
    assert not shrunk.interaction.any()
    assert shrunk.freedom == 0.0


def test_noise_aware_weights() -> None:
    counts = np.full((2, 2), 25.0)
    marginals = [
        NoisyMarginal((0, 1), counts, 1.0),
        NoisyMarginal((0, 2), counts, 2.0),
        NoisyMarginal((1, 2), counts, 100.0),
    ]
    weights = [t.weight for t in build_targets(marginals, [GridColumn(2, True)] * 3, None).joint]
    assert weights == [1.0, pytest.approx(0.25), LEAST_WEIGHT]
