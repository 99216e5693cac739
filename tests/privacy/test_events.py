"""Events in ledgers and manifests are kept for ever: one golden tree a kind, read and written the same."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

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
    describe,
    from_json,
    to_json,
)

GOLDEN: list[tuple[Event, str, str]] = [
    (Gaussian(4.25), '{"kind": "gaussian", "noise_multiplier": 4.25}', "Gaussian(noise multiplier 4.25)"),
    (ZeroConcentrated(0.02), '{"kind": "zcdp", "rho": 0.02}', "zCDP(rho 0.02)"),
    (BoundedRange(0.5), '{"kind": "bounded_range", "epsilon": 0.5}', "choice(range 0.5)"),
    (
        RenyiCurve((2.0, 4.0), (0.5, 1.5)),
        '{"kind": "renyi", "orders": [2.0, 4.0], "epsilons": [0.5, 1.5]}',
        "Renyi curve at 2 orders",
    ),
    (
        PoissonSampled(0.01, Gaussian(1.0)),
        '{"kind": "poisson_sampled", "rate": 0.01, "event": {"kind": "gaussian", "noise_multiplier": 1.0}}',
        "Poisson sample at rate 0.01 of Gaussian(noise multiplier 1)",
    ),
    (
        Approximate(Gaussian(2.0), 1e-7),
        '{"kind": "approximate", "delta": 1e-07, "event": {"kind": "gaussian", "noise_multiplier": 2.0}}',
        "Gaussian(noise multiplier 2) but for probability 1e-07",
    ),
    (
        SelfComposed(Gaussian(2.0), 3),
        '{"kind": "self_composed", "count": 3, "event": {"kind": "gaussian", "noise_multiplier": 2.0}}',
        "3 x Gaussian(noise multiplier 2)",
    ),
    (
        Composed((BoundedRange(0.5), Gaussian(2.0))),
        '{"kind": "composed", "events": [{"kind": "bounded_range", "epsilon": 0.5}, '
        '{"kind": "gaussian", "noise_multiplier": 2.0}]}',
        "choice(range 0.5) + Gaussian(noise multiplier 2)",
    ),
    (
        Parallel((Gaussian(2.0),)),
        '{"kind": "parallel", "events": [{"kind": "gaussian", "noise_multiplier": 2.0}]}',
        "worst of [Gaussian(noise multiplier 2)]",
    ),
]


@pytest.mark.parametrize(("event", "text", "words"), GOLDEN, ids=lambda value: getattr(type(value), "__name__", ""))
def test_every_kind_has_its_golden_tree(event: Event, text: str, words: str) -> None:
    assert json.dumps(to_json(event)) == text
    assert from_json(json.loads(text)) == event
    assert describe(event) == words


def test_no_kind_is_without_one() -> None:
    assert {type(event) for event, _, _ in GOLDEN} == set(get_args(Event))


def test_words_round_towards_more_loss() -> None:
    assert describe(Gaussian(4.25123456789)) == "Gaussian(noise multiplier 4.25123)"
    assert describe(ZeroConcentrated(0.123456123)) == "zCDP(rho 0.123457)"


@pytest.mark.parametrize("own", [0.0, 1.0, -1e-9, float("nan")])
def test_a_delta_of_its_own_is_a_probability(own: Any) -> None:
    with pytest.raises(ValueError, match="own delta"):
        Approximate(Gaussian(1.0), own)
