"""Events in words round towards more loss; impossible ones are refused. Their JSON: test_event_stability.py."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.pipelines.privacy.events import (
    Approximate,
    BoundedRange,
    Composed,
    Event,
    Gaussian,
    PoissonSampled,
    SelfComposed,
    ZeroConcentrated,
    describe,
)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Gaussian(4.25123456789), "Gaussian(noise multiplier 4.25123)"),
        (ZeroConcentrated(0.123456123), "zCDP(rho 0.123457)"),
        (BoundedRange(0.5000001), "choice(range 0.500001)"),
        (Approximate(Gaussian(2.0), 1e-7), "Gaussian(noise multiplier 2) but for probability 1e-07"),
        (PoissonSampled(0.01, Gaussian(1.0)), "Poisson sample at rate 0.01 of Gaussian(noise multiplier 1)"),
        (
            Composed((BoundedRange(0.5), SelfComposed(Gaussian(2.0), 3))),
            "choice(range 0.5) + 3 x Gaussian(noise multiplier 2)",
        ),
    ],
)
def test_an_event_in_words_tells_no_less_loss_than_it_has(event: Event, words: str) -> None:
    assert describe(event) == words


@pytest.mark.parametrize("own", [0.0, 1.0, -1e-9, float("nan")])
def test_a_delta_of_its_own_is_a_probability(own: Any) -> None:
    with pytest.raises(ValueError, match="own delta"):
        Approximate(Gaussian(1.0), own)
