"""The factors that pairs share: found where no single pair shows them, absent in noise, honest about their freedom."""

from itertools import combinations

import numpy as np
import pytest

from understudy.pipelines.methods.privpgd.factors import MOST_CODES, shared_interactions
from understudy.pipelines.methods.privpgd.shrinkage import centred
from understudy.pipelines.methods.privpgd.stein import Shrunk, least_risk

SIZES = (4, 5, 6, 4, 5, 6, 4, 5)
PAIRS = list(combinations(range(len(SIZES)), 2))
VARIANCE = 1e-6


def one_factor(strength: float) -> dict[tuple[int, int], np.ndarray]:
    """Every pair's interaction is the product of two profiles of one factor; `strength` in noise stds per block."""
    profiles = [np.sin(1.0 + np.arange(size)) for size in SIZES]
    profiles = [p - p.mean() for p in profiles]
    profiles = [p / np.linalg.norm(p) for p in profiles]
    return {(a, b): strength * np.sqrt(VARIANCE) * np.outer(profiles[a], profiles[b]) for a, b in PAIRS}


def noise(rng: np.random.Generator, scale: float = 1.0) -> dict[tuple[int, int], np.ndarray]:
    std = scale * np.sqrt(VARIANCE)
    return {(a, b): centred(std * rng.normal(size=(SIZES[a], SIZES[b]))) for a, b in PAIRS}


def variances(scale: float = 1.0) -> dict[tuple[int, int], float]:
    return dict.fromkeys(PAIRS, scale**2 * VARIANCE)


def added(one: dict, other: dict) -> dict:
    return {pair: one[pair] + other[pair] for pair in PAIRS}


def squared_error(found: dict[tuple[int, int], Shrunk], truth: dict[tuple[int, int], np.ndarray]) -> float:
    return sum(float(np.sum(np.square(found[pair].interaction - truth[pair]))) for pair in PAIRS)


def test_a_factor_too_weak_for_any_pair_is_found_in_all_of_them() -> None:
    rng = np.random.default_rng(1)
    truth = one_factor(3.0)  # a 4 x 5 block of noise alone has a leading singular value of about 3.7
    errors = [squared_error(shared_interactions(added(truth, noise(rng)), variances()), truth) for _ in range(20)]
    nothing = squared_error(dict.fromkeys(PAIRS, Shrunk(np.zeros(()), 0.0)), truth)
    assert np.mean(errors) < 0.6 * nothing


def test_noise_has_no_factors() -> None:
    rng = np.random.default_rng(2)
    draws = [noise(rng) for _ in range(20)]
    kept = [
        np.sum([np.sum(s.interaction**2) for s in shared_interactions(draw, variances()).values()]) for draw in draws
    ]
    energy = [np.sum([np.sum(table**2) for table in draw.values()]) for draw in draws]
    assert np.sum(kept) < 0.02 * np.sum(energy)


def test_freedom_is_steins_divergence() -> None:
    """Stein: E<estimate, noise> = variance x divergence, over all blocks and draws."""
    rng = np.random.default_rng(3)
    truth = one_factor(12.0)
    inner, freedom = 0.0, 0.0
    for _ in range(100):
        drawn = noise(rng)
        found = shared_interactions(added(truth, drawn), variances())
        inner += sum(float(np.sum(found[pair].interaction * drawn[pair])) for pair in PAIRS) / VARIANCE
        freedom += sum(found[pair].freedom for pair in PAIRS)
    assert inner == pytest.approx(freedom, rel=0.15)


def test_noisier_pairs_count_for_less() -> None:
    rng = np.random.default_rng(4)
    truth, loud = one_factor(8.0), (0, 1)
    spreads = {pair: VARIANCE * (10_000 if pair == loud else 1) for pair in PAIRS}
    drawn = noise(rng)
    observed = added(truth, {**drawn, loud: 100 * drawn[loud]})
    found = shared_interactions(observed, spreads)
    assert squared_error(found, truth) < 0.25 * squared_error(dict.fromkeys(PAIRS, Shrunk(np.zeros(()), 0.0)), truth)
    assert found[loud].freedom < 0.01


def test_pairs_may_be_missing() -> None:
    truth = one_factor(20.0)
    observed = added(truth, noise(np.random.default_rng(5)))
    some = {pair: observed[pair] for pair in PAIRS if pair != (2, 6)}
    found = shared_interactions(some, variances())
    assert found.keys() == some.keys()
    assert np.allclose(found[0, 1].interaction, truth[0, 1], atol=4 * np.sqrt(VARIANCE))


def test_two_columns_share_nothing_and_wide_ones_are_left_out() -> None:
    assert shared_interactions({(0, 1): np.zeros((3, 4))}, {(0, 1): VARIANCE}) == {}
    sizes = (3, 4, 1, 5, MOST_CODES)
    tables = {(a, b): np.zeros((sizes[a], sizes[b])) for a, b in combinations(range(5), 2)}
    found = shared_interactions(tables, dict.fromkeys(tables, VARIANCE))
    assert found.keys() == {(0, 1), (0, 3), (1, 3)}
    star = {pair: table for pair, table in tables.items() if 4 in pair}
    assert shared_interactions(star, dict.fromkeys(star, VARIANCE)) == {}


def test_the_better_estimate_gets_the_say() -> None:
    rng = np.random.default_rng(6)
    truth = 5.0 * np.ones((6, 6))
    observed = truth + rng.normal(size=truth.shape)
    raw, mean = Shrunk(observed, 36.0), Shrunk(np.full((6, 6), observed.mean()), 1.0)
    assert np.allclose(least_risk(observed, 1.0, raw, mean).interaction, mean.interaction, atol=0.5)
    off = Shrunk(np.zeros((6, 6)), 0.0)
    assert np.allclose(least_risk(observed, 1.0, mean, off).interaction, mean.interaction, atol=0.5)
    assert least_risk(observed, 1.0, mean, mean) is mean
