"""The exponential mechanism: exact probabilities, its cost, and neighbour replay of its scores."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from understudy.pipelines.privacy.curves import bounded_range_mu
from understudy.pipelines.privacy.noise.selection import (
    choose,
    coin_exp,
    selection_epsilon,
    selection_event,
    uniform_below,
)


class Seeded:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def words(self, count: int) -> np.ndarray:
        return self.rng.integers(0, 2**64, count, dtype=np.uint64)


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(5, 2)])
def test_coins_have_the_exact_probability(gamma: Fraction) -> None:
    tosses, randomness = 6000, Seeded(1)
    heads = sum(coin_exp(gamma, randomness) for _ in range(tosses))
    low, high = binom.interval(1 - 1e-6, tosses, math.exp(-gamma))
    assert low <= heads <= high


def test_uniform_is_uniform_and_in_range() -> None:
    randomness = Seeded(2)
    draws = [uniform_below(7, randomness) for _ in range(7000)]
    counts = np.bincount(draws, minlength=7)
    assert chi2.sf(((counts - 1000) ** 2 / 1000).sum(), 6) > 1e-5
    assert uniform_below(2**70, randomness) < 2**70
    assert uniform_below(1, randomness) == 0


def frequencies(epsilon: Fraction, seed: int) -> np.ndarray:
    randomness = Seeded(seed)
    chosen = [choose([0, 3, 10, 9], 2, epsilon, randomness)[0] for _ in range(8000)]
    return np.bincount(chosen, minlength=4)


def p_value(counts: np.ndarray, epsilon: float) -> float:
    weights = np.exp(epsilon * np.array([0, 3, 10, 9]) / 4)
    expected = weights / weights.sum() * counts.sum()
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 3))


def test_candidates_are_chosen_with_exponential_weights_and_a_wrong_epsilon_is_caught() -> None:
    assert p_value(frequencies(Fraction(1), 3), 1.0) > 1e-5
    assert p_value(frequencies(Fraction(12, 10), 4), 1.0) < 1e-5
    assert p_value(frequencies(Fraction(8, 10), 5), 1.0) < 1e-5


def test_neighbouring_scores_change_no_probability_by_more_than_epsilon() -> None:
    """By the exact formula: every score moved by the sensitivity in the worst directions."""
    epsilon, sensitivity = 0.7, 2
    scores = np.array([0, 3, 10, 9])
    for signs in np.array(np.meshgrid(*[[-1, 1]] * 4)).T.reshape(-1, 4):
        first, second = (np.exp(epsilon * s / (2 * sensitivity)) for s in (scores, scores + sensitivity * signs))
        ratio = (first / first.sum()) / (second / second.sum())
        assert np.abs(np.log(ratio)).max() <= epsilon + 1e-12


@settings(deadline=None)
@given(st.floats(1e-5, 20))
def test_the_cost_is_that_of_the_bounded_range_and_rounds_towards_privacy(mu: float) -> None:
    epsilon = selection_epsilon(mu)
    event = selection_event(epsilon)
    assert Fraction(event.epsilon) >= epsilon  # charged for no less than what is drawn
    assert bounded_range_mu(event.epsilon) <= mu
    assert bounded_range_mu(event.epsilon + 2.1e-6) > mu  # and no budget is left lying


def test_a_choice_returns_its_event() -> None:
    assert choose([5], 1, Fraction(1, 2), Seeded(0)) == (0, selection_event(Fraction(1, 2)))


@pytest.mark.parametrize(("scores", "sensitivity", "epsilon"), [([], 1, 1), ([1], 0, 1), ([1], 1, 0)])
def test_impossible_choices_are_refused(scores: list[int], sensitivity: int, epsilon: int) -> None:
    with pytest.raises(ValueError, match="choosing needs"):
        choose(scores, sensitivity, Fraction(epsilon), Seeded(0))
