"""docs/proofs/selection.md, by number: no exponential mechanism tells neighbours apart better than its Gaussian."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.curves import bounded_range_mu, leaves_of, renyi_sums
from understudy.pipelines.privacy.events import BoundedRange, Gaussian, SelfComposed
from understudy.pipelines.privacy.relation import Relation

ADD = Relation.ADD_REMOVE


def vertices(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the trade-off function of P against Q: outcomes taken in order of their likelihood ratio."""
    order = np.argsort(-p / q)
    return np.concatenate([[0], np.cumsum(q[order])]), np.concatenate([[1], 1 - np.cumsum(p[order])])


def lies_above_the_gaussian(p: np.ndarray, q: np.ndarray, mu: float) -> bool:
    """At the corners suffices: between them the trade-off function is straight and the Gaussian's is convex."""
    first, second = vertices(p, q)
    inner = slice(1, -1)
    return bool(np.all(second[inner] >= ndtr(ndtri(1 - first[inner]) - mu) - 1e-12))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 8.0])
def test_every_exponential_mechanism_lies_above_the_gaussian_in_the_worst_cases(epsilon: float) -> None:
    """Five candidates, scores moved by +-1 or not at all in every combination, from scores near and far apart."""
    mu = bounded_range_mu(epsilon)
    closest = 0.0
    for scores in ([0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [0, 0, 0, 0, 40], [0, 5, 5, 9, 9]):
        for moved in itertools.product((-1, 0, 1), repeat=5):
            before, after = (epsilon * np.array(s) / 2 for s in (scores, np.add(scores, moved)))
            p, q = (np.exp(s - s.max()) / np.exp(s - s.max()).sum() for s in (before, after))
            assert lies_above_the_gaussian(p, q, mu)
            assert lies_above_the_gaussian(q, p, mu)
            first, second = vertices(p, q)
            inside = (first > 1e-9) & (first < 1 - 1e-9) & (second > 1e-9) & (second < 1 - 1e-9)
            if inside.any():
                closest = max(closest, float(np.max(ndtri(1 - first[inside]) - ndtri(second[inside]))))
    assert closest > 0.9 * mu  # the bound is nearly met, so a smaller mu would be wrong


@settings(deadline=None)
@given(st.floats(1e-6, 30), st.floats(0.001, 0.999))
def test_every_pair_of_two_outcomes_with_that_range_lies_above_it_and_the_middle_one_meets_it(
    epsilon: float, share: float
) -> None:
    t = share * epsilon
    p = -math.expm1(t - epsilon) / -math.expm1(-epsilon)
    q = p * math.exp(-t)
    if not 1e-12 < q < p < 1 - 1e-12:
        return
    assert norm.isf(q) - norm.isf(p) <= bounded_range_mu(epsilon) + 1e-9
    middle = 1 / (1 + math.exp(-epsilon / 2))
    assert norm.isf(1 - middle) - norm.isf(middle) == pytest.approx(bounded_range_mu(epsilon), rel=1e-6)


@settings(deadline=None)
@given(st.floats(1e-7, 200))
def test_mu_is_rounded_up_and_by_little(epsilon: float) -> None:
    with mpmath.workdps(60):
        tail = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon) / 2))
        exact = mpmath.findroot(
            lambda x: mpmath.log(mpmath.erfc(x / mpmath.sqrt(2)) / 2) - mpmath.log(tail),
            mpmath.mpf(bounded_range_mu(epsilon) / 2),
        )
        ratio = mpmath.mpf(bounded_range_mu(epsilon)) / (2 * exact)
        assert 1 <= ratio < 1 + mpmath.mpf("1e-7")


def test_golden_mu() -> None:
    assert bounded_range_mu(1.0) == pytest.approx(0.623893, abs=1e-6)
    assert bounded_range_mu(1e-6) == pytest.approx(0.626657e-6, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 64.0])
def test_the_renyi_curve_is_above_every_pair_of_two_outcomes(epsilon: float, order: float) -> None:
    t = np.linspace(0, epsilon, 401)[1:-1]
    p = -np.expm1(t - epsilon) / -np.expm1(-epsilon)
    q = p * np.exp(-t)
    for a, b in ((p, q), (q, p)):
        terms = [order * np.log(x) + (1 - order) * np.log(y) for x, y in ((a, b), (1 - a, 1 - b))]
        divergence = np.logaddexp(*terms) / (order - 1)
        bound = renyi_sums(leaves_of([(BoundedRange(epsilon), 1)], ADD), ADD, (order,))
        assert bound is not None
        assert divergence.max() <= bound[0] + 1e-12


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 3), st.integers(1, 50))
def test_a_release_is_charged_for_a_choice_as_for_its_gaussian(epsilon: float, count: int) -> None:
    choices = composed_loss([SelfComposed(BoundedRange(epsilon), count)], 1e-6, ADD)
    gaussian = composed_loss([SelfComposed(Gaussian(1 / bounded_range_mu(epsilon)), count)], 1e-6, ADD)
    assert choices.accountant == "analytic"
    assert choices.epsilon == pytest.approx(gaussian.epsilon, rel=1e-9, abs=2e-9)
