"""Many canaries in one release: bounds that hold as often as they say, and that see noise which is far too small."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from understudy.pipelines.auditing.cases import many_values, planned_case
from understudy.pipelines.auditing.one_run import largest_epsilon, largest_mu, one_run, p_value
from understudy.pipelines.counting.residuals import ResidualNoise


def test_without_delta_the_chance_is_a_binomial_tail() -> None:
    for guesses, right, epsilon in ((10, 9, 0.5), (40, 40, 2.0), (100, 55, 0.0)):
        tail = stats.binom.sf(right - 1, guesses, 1 / (1 + math.exp(-epsilon)))
        assert p_value(200, guesses, right, epsilon, 0.0) == pytest.approx(tail)
    assert p_value(200, 40, 40, 2.0, 1e-3) > p_value(200, 40, 40, 2.0, 0.0)


def test_of_one_canary_the_bound_is_the_closed_form() -> None:
    """Right with chance a under mu needs a <= Phi(mu / 2): right once refutes mu where Phi(mu / 2) < tau."""
    assert largest_mu(1, 1, 1, 0.05) == 0
    assert largest_epsilon(1, 1, 1, 0.0, 0.05) == 0
    assert largest_mu(100, 0 + 50, 25, 0.05) == 0  # as good as coins


def test_the_bound_holds_as_often_as_it_says_and_is_no_empty_one() -> None:
    rng, mu, canaries, found = np.random.default_rng(3), 1.0, 400, []
    for _ in range(200):
        inside = rng.random(canaries) < 0.5
        scores = np.where(inside, mu / 2, -mu / 2) + rng.normal(size=canaries)
        sure = np.argsort(-np.abs(scores))[:60]
        found.append(largest_mu(canaries, 60, int(((scores > 0) == inside)[sure].sum()), 0.05))
    assert np.mean(np.array(found) > mu) <= 0.05
    assert np.median(found) > 0.3


def test_one_release_of_counts_shows_a_part_of_what_is_claimed() -> None:
    found = one_run(many_values(400, "10"), 400)
    assert found.holds
    assert 0.35 < found.mu / found.claimed < 1
    assert 0.1 < found.epsilon / found.claimed_epsilon < 1


def test_noise_a_tenth_of_what_is_charged_is_found_in_one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = ResidualNoise.draw

    def quiet(noise: ResidualNoise, exact: Any, randomness: Any) -> Any:
        return draw(replace(noise, stds=tuple(std / 10 for std in noise.stds)), exact, randomness)

    planned = many_values(400, "1")
    assert one_run(planned, 400).holds
    monkeypatch.setattr(ResidualNoise, "draw", quiet)
    assert not one_run(planned, 400).holds


def test_noise_without_coordinates_is_refused() -> None:
    with pytest.raises((NotImplementedError, ValueError)):
        one_run(planned_case("mixing, at once", "10"), 5)
