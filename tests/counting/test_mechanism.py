"""Noisy marginals: neighbour replay, the event of what was drawn, and tests that a wrong scale fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.counting.mechanism import MarginalNoise, noise_multiplier
from understudy.pipelines.counting.released import marginals_by_name
from understudy.pipelines.counting.workload import noise_stds
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian, ZeroConcentrated
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.privacy.relation import Budget, Relation, Unit, counts_sensitivity
from understudy.pipelines.table.coding.encode import EncodedBatch

SIZES = (3, 4, 2)
CLIQUES = ((0,), (1,), (0, 1), (1, 2))
SHARES = (0.1, 0.2, 0.3, 0.4)
BUDGET = Budget("1", "1e-6")


def calibrate_marginals(
    shares: Sequence[float], budget: Budget, relation: Relation, unit: Unit, sampler: str
) -> MarginalNoise:
    """Tables with these shares of the budget, as adaptive rounds and charged statistics have them."""
    z = noise_multiplier(budget, relation, sampler)
    return MarginalNoise(noise_stds(shares, z, counts_sensitivity(relation, unit.max_rows)), relation, unit, sampler)


class SameWords:
    """The same randomness for both neighbours."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.sizes: list[int] = []

    def words(self, count: int) -> np.ndarray:
        self.sizes.append(count)
        return self.rng.integers(0, 2**64, count, dtype=np.uint64)


def counts_of(rows: list[tuple[int, int, int]]) -> list[np.ndarray]:
    codes = np.array(rows, dtype=np.uint8).reshape(-1, 3)
    batch = EncodedBatch(tuple(np.ascontiguousarray(codes[:, i]) for i in range(3)), len(rows))
    return count_marginals([batch], SIZES, CLIQUES)


rows = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), max_size=30)
unit_rows = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(rows, unit_rows, unit_rows, st.sampled_from(Relation), st.integers(0, 2**32))
def test_neighbour_replay(rest: list, mine: list, other: list, relation: Relation, seed: int) -> None:
    """With equal randomness the outputs differ by exactly the counts, within the declared sensitivity."""
    unit = Unit("patient", 4)
    noise = calibrate_marginals(SHARES, BUDGET, relation, unit, "rounded")
    neighbour = rest + other if relation is Relation.REPLACE_ONE else rest
    randomness = SameWords(seed), SameWords(seed)
    with_me, without = (
        list(noise.draw(marginals_by_name(counts_of(table)), words).values())
        for table, words in zip((rest + mine, neighbour), randomness, strict=True)
    )
    event = noise.event
    assert randomness[0].sizes == randomness[1].sizes  # control flow does not depend on the data
    moved = [(a - b) / std for a, b, std in zip(with_me, without, noise.stds, strict=True)]
    distance = math.sqrt(sum(float((part**2).sum()) for part in moved))
    assert isinstance(event, Gaussian)
    assert distance <= 1 / event.noise_multiplier + 1e-9


def test_the_sensitivity_is_reached_so_it_is_not_slack() -> None:
    unit = Unit("patient", 4)
    alone, none = counts_of([(0, 0, 0)] * 4), counts_of([])
    other = counts_of([(1, 1, 1)] * 4)
    for clique in range(4):
        assert np.linalg.norm(alone[clique] - none[clique]) == counts_sensitivity(Relation.ADD_REMOVE, unit.max_rows)
        assert np.linalg.norm(alone[clique] - other[clique]) == pytest.approx(
            counts_sensitivity(Relation.REPLACE_ONE, unit.max_rows)
        )


@pytest.mark.parametrize("relation", Relation)
def test_the_budget_is_used_up_and_not_exceeded(relation: Relation) -> None:
    noise = calibrate_marginals(SHARES, BUDGET, relation, Unit(), "rounded")
    assert 0.999 < composed_loss([noise.event], 1e-6, relation).epsilon <= 1.0


def test_golden_noise() -> None:
    """91 equal marginals at eps 2.5, delta 1e-5: 1.634 sqrt(91) per cell; sqrt 2 more under REPLACE_ONE."""
    shares = (1 / 91,) * 91
    budget = Budget("2.5", "1e-5")
    add = calibrate_marginals(shares, budget, Relation.ADD_REMOVE, Unit(), "rounded").stds[0]
    replace = calibrate_marginals(shares, budget, Relation.REPLACE_ONE, Unit(), "rounded").stds[0]
    assert add == pytest.approx(1.634 * math.sqrt(91), rel=5e-4)
    assert replace == pytest.approx(add * math.sqrt(2))


def z_scores(scale: float) -> np.ndarray:
    """Released minus true, over the declared std, when the noise drawn is `scale` times what was declared."""
    noise = calibrate_marginals(SHARES, BUDGET, Relation.ADD_REMOVE, Unit(), "rounded")
    drawn = replace(noise, stds=tuple(std * scale for std in noise.stds))
    exact = [np.full((100, 50), 10) for _ in CLIQUES]
    noisy = drawn.draw(marginals_by_name(exact), operating_system_randomness()).values()
    return np.concatenate([((a - b) / std).ravel() for a, b, std in zip(noisy, exact, noise.stds, strict=True)])


def scale_is_right(scores: np.ndarray) -> bool:
    """Two-sided variance test at six standard errors; 20,000 draws tell a 5% error apart."""
    return bool(abs(scores.var() - 1) < 6 * math.sqrt(2 / len(scores)))


def test_the_noise_has_the_declared_scale_and_a_wrong_one_is_caught() -> None:
    assert scale_is_right(z_scores(1.0))
    assert not scale_is_right(z_scores(0.95))
    assert not scale_is_right(z_scores(1.05))


@pytest.mark.parametrize("sampler", ["rounded", "opendp"])
def test_a_std_one_double_too_small_changes_the_event(sampler: str) -> None:
    noise = calibrate_marginals(SHARES, BUDGET, Relation.ADD_REMOVE, Unit(), sampler)
    weak = replace(noise, stds=tuple(math.nextafter(std, 0) for std in noise.stds))
    assert weak.event != noise.event


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0.1, 1e6), min_size=1, max_size=30),
    st.sampled_from(Relation),
    st.integers(1, 50),
    st.integers(1, 5),
)
def test_the_event_never_says_more_noise_than_is_drawn(
    stds: list[float], relation: Relation, rows: int, stacked: int
) -> None:
    """In exact arithmetic: what a unit can move, over the stds, is at most what the event admits."""
    unit = Unit("patient", rows)
    event = MarginalNoise(tuple(stds), relation, unit, stacked=stacked).event
    assert isinstance(event, Gaussian)
    factor = 2 if relation is Relation.REPLACE_ONE else 1
    square = stacked * sum(Fraction(factor * rows**2) / Fraction(std) ** 2 for std in stds)
    claimed = Fraction(event.noise_multiplier) ** 2 * square
    assert 1 - Fraction(1, 2**45) < claimed <= 1
    discrete = MarginalNoise(tuple(stds), relation, unit, "opendp", stacked).event
    assert isinstance(discrete, ZeroConcentrated)
    assert Fraction(discrete.rho) >= square / 2


def test_opendp_noise_is_charged_as_zcdp_and_costs_more_noise() -> None:
    rounded = calibrate_marginals(SHARES, BUDGET, Relation.ADD_REMOVE, Unit(), "rounded")
    discrete = calibrate_marginals(SHARES, BUDGET, Relation.ADD_REMOVE, Unit(), "opendp")
    assert isinstance(discrete.event, ZeroConcentrated)
    assert discrete.stds[0] > rounded.stds[0]
    noisy = discrete.draw(marginals_by_name(counts_of([])), operating_system_randomness())
    assert noisy["marginal_2"].shape == (3, 4)


def test_stacked_marginals_are_counted_one_by_one() -> None:
    """Three columns' counts side by side in one array are moved by a row in three places."""
    alone = MarginalNoise((5.0,), Relation.ADD_REMOVE, Unit())
    stacked = replace(alone, stacked=3)
    assert isinstance(stacked.event, Gaussian)
    assert stacked.event.noise_multiplier == pytest.approx(5 / math.sqrt(3))
    assert MarginalNoise((5.0,) * 3, Relation.ADD_REMOVE, Unit()).event == stacked.event != alone.event
