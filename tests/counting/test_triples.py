"""Chosen triples: one event known beforehand, neighbour replay of all three releases, golden numbers, planted bugs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.randomness import SeededWords
from understudy.pipelines.counting import residuals
from understudy.pipelines.counting import triples as module
from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.counting.lifted import Residual, Residuals, centred_counts
from understudy.pipelines.counting.mechanism import event_at, noise_multiplier
from understudy.pipelines.counting.merging import other_groups
from understudy.pipelines.counting.released import RESIDUALS, released_residuals, residuals_by_name
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.counting.shares import share_out
from understudy.pipelines.counting.triples import (
    FURTHER_PART,
    MOST_CANDIDATES,
    TripleCounts,
    TriplesNoise,
    candidate_triples,
    triples_noise,
)
from understudy.pipelines.counting.worth import Choice, Scoring
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Composed, Gaussian
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness, rounded_gaussian
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.table.coding.encode import EncodedBatch

SIZES, ORDERED = (3, 6, 2, 5), (False, True, False, True)
TRIPLES = tuple(combinations(range(4), 3))
BUDGET = Budget("1", "1e-5")
FIXED = Choice(((0, 1, 2), (1, 2, 3)), 0.2)
SCORED = Scoring((((0, 1, 2), 0), ((0, 1, 2), 1), ((0, 2, 3), 0), ((1, 2, 3), 1)), 0.02)
PARTS = st.sampled_from([0.005, 0.02, 0.1, 0.3, 0.45])
row = st.tuples(*(st.integers(0, size - 1) for size in SIZES))


def noise_for(
    relation: Relation = Relation.ADD_REMOVE, unit: Unit | None = None, sampler: str = "rounded"
) -> TriplesNoise:
    unit = unit or Unit()
    public = relation is Relation.REPLACE_ONE and unit.entity is None
    workload = share_out(list(combinations(range(4), 2)), SIZES, 4.0, public_total=public)
    z = noise_multiplier(BUDGET, relation, sampler)
    return triples_noise(TRIPLES, workload, SIZES, ORDERED, (), z, relation, unit, sampler)


def exact_of(table: list[Any], noise: TriplesNoise) -> TripleCounts:
    codes = np.array(table, dtype=np.uint8).reshape(-1, 4)
    batch = EncodedBatch(tuple(np.ascontiguousarray(codes[:, i]) for i in range(4)), len(table))
    measured = noise.workload.measured
    tables = count_marginals([batch], SIZES, [*measured, *TRIPLES])
    first = residuals_by_name(tables[: len(measured)])
    public = None if () in measured else len(table)
    return TripleCounts(first, dict(zip(TRIPLES, tables[len(measured) :], strict=True)), public)


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same groups, scores and choice on both sides, as given what was released; and all releases kept apart."""
    ways = (tuple(map(other_groups, SIZES)), tuple(map(other_groups, SIZES)))
    monkeypatch.setattr(module, "groupings", lambda known, ordered: ways)
    monkeypatch.setattr(module, "worth_scoring", lambda *given: SCORED)
    monkeypatch.setattr(module, "choose_triples", lambda *given: FIXED)
    monkeypatch.setattr(module, "joined", lambda one, other, *stds: np.concatenate([one, other]))
    monkeypatch.setattr(module, "_Known", Kept)


class Kept(module._Known):
    """Keeps what was released, without reading it."""

    def __init__(self, noise: TriplesNoise, arrays: Any, stds: Any, public_total: int | None) -> None:
        self.arrays, self.stds, self._noise, self._public_total = arrays, stds, noise, public_total
        self.residuals = Residuals((), SIZES, {(): Residual(np.array(100.0), 1.0)})
        told = {subset for pair in combinations(range(4), 2) for subset in (pair, pair[:1], pair[1:])}
        for clique in told:
            shape = tuple(SIZES[column] for column in clique)
            self.residuals.by_clique[clique] = Residual(np.zeros(shape), 1.0)  # type: ignore[index]

    def joined_with(self, arrays: Any, stds: Any) -> Any:
        return Kept(self._noise, [np.concatenate(two) for two in zip(self.arrays, arrays, strict=False)], stds, None)


def moved(noise: TriplesNoise, one: TripleCounts, other: TripleCounts, seed: int = 0) -> float:
    """Squared distance of two draws with the same randomness, over the variances of what is drawn, of all releases."""
    drawn = [noise.draw(each, SeededWords(seed)) for each in (one, other)]
    scores, further = noise.scoring(SCORED), noise.further(FIXED)
    square, known = 0.0, len(noise.first.shapes)
    for place, shape in enumerate(further.shapes):
        a, b = (each[f"residual_{place}"].reshape(-1) for each in drawn)
        releases = (noise.first, scores, further) if place < known else (further,)
        for part, of in zip(np.split(a - b, len(releases)), releases, strict=True):
            square += _shift(part, shape) / of.stds[place] ** 2
    ends = np.cumsum([math.prod(size - 1 for size in shape) for shape in scores.shapes[known:]])
    assert ends[-1] == len(drawn[0]["scores"])
    parts = np.split(drawn[0]["scores"] - drawn[1]["scores"], ends[:-1])
    for part, shape, std in zip(parts, scores.shapes[known:], scores.stds[known:], strict=True):
        square += _shift(part, shape) / std**2
    return square


def _shift(difference: np.ndarray, shape: tuple[int, ...]) -> float:
    shift = math.prod(shape) * centred_counts(difference, shape)
    assert np.abs(shift - np.rint(shift)).max() < 1e-6  # a whole number of the noise's grid
    return float(np.square(shift).sum())


def allowed(noise: TriplesNoise) -> float:
    event = noise.event
    assert isinstance(event, Composed)
    return sum(each.noise_multiplier**-2 for each in event.events if isinstance(each, Gaussian))


@pytest.mark.usefixtures("fixed")
@pytest.mark.parametrize("size", [1, 3])
def test_an_added_unit_moves_exactly_what_is_declared_whatever_its_cell(size: int) -> None:
    noise = noise_for(unit=Unit("patient", size))
    for cell in list(product(*map(range, SIZES)))[::7]:
        found = moved(noise, exact_of([cell] * size, noise), exact_of([], noise))
        assert found == pytest.approx(allowed(noise), rel=1e-9)


@pytest.mark.parametrize("relation", Relation)
def test_neighbour_replay(relation: Relation, fixed: None) -> None:
    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(row, max_size=20), st.lists(row, min_size=1, max_size=3), st.lists(row, max_size=3), st.integers(0, 99)
    )
    def holds(rest: list[Any], mine: list[Any], other: list[Any], seed: int) -> None:
        noise = noise_for(relation, Unit("patient", 3))
        neighbour = rest + other if relation is Relation.REPLACE_ONE else rest
        one, two = exact_of(rest + mine, noise), exact_of(neighbour, noise)
        assert moved(noise, one, two, seed) <= allowed(noise) * (1 + 1e-9)

    holds()


@pytest.mark.usefixtures("fixed")
def test_a_row_that_merging_counts_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true = module.merged
    monkeypatch.setattr(module, "merged", lambda table, groups: true(table, groups) + true(table[::-1], groups))
    noise = noise_for()
    found = [
        moved(noise, exact_of([cell], noise), exact_of([], noise)) for cell in list(product(*map(range, SIZES)))[::9]
    ]
    assert max(found) > allowed(noise) * 1.01


# The event


def test_golden_noise() -> None:
    """eps 1, delta 1e-5 is Gaussian(3.7306); half of it, three hundredths and the rest."""
    event = noise_for().event
    assert isinstance(event, Composed)
    z = [each.noise_multiplier for each in event.events if isinstance(each, Gaussian)]
    assert z == pytest.approx([3.7306 / math.sqrt(part) for part in (0.5, 0.03, 0.47)], rel=1e-4)
    assert 0.999 < composed_loss([event], 1e-5, Relation.ADD_REMOVE).epsilon <= 1.0


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.sampled_from(TRIPLES), min_size=1),
    PARTS,
    st.sampled_from(Relation),
    st.sampled_from(["rounded", "opendp"]),
)
def test_whatever_is_chosen_costs_the_same_to_the_last_bit(
    chosen: set[Any], part: float, relation: Relation, sampler: str
) -> None:
    noise = _noises(relation, sampler)
    further = noise.further(Choice(tuple(chosen), part))
    assert further.event == event_at(noise.further_multiplier, sampler)
    assert noise.further(Choice((), 0.0)).event == further.event
    tests = tuple((triple, way) for triple in chosen for way in range(2))
    scores = noise.scoring(Scoring(tests, part / 20))
    assert scores.event == noise.scoring(Scoring((), 0.0)).event == event_at(noise.scores_multiplier, sampler)


def test_what_the_chosen_triples_do_not_take_goes_to_the_workload() -> None:
    noise, part = noise_for(), FURTHER_PART / 4
    alone, beside = noise.further(Choice((), 0.0)), noise.further(Choice((TRIPLES[0],), part))
    kept = len(alone.stds)
    for std, less in zip(alone.stds, beside.stds[:kept], strict=True):
        assert less / std == pytest.approx(math.sqrt(FURTHER_PART / (FURTHER_PART - part)), rel=1e-9)


@lru_cache
def _noises(relation: Relation, sampler: str) -> TriplesNoise:
    return noise_for(relation, None, sampler)


def test_noise_that_was_not_charged_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share too many for the triples: the draw stops before the last release."""
    noise = noise_for()
    true = module.residual_noise

    def forgetful(shapes: Any, shares: Any, beside: Any, z: float, *rest: Any) -> ResidualNoise:
        return true(shapes, shares, beside, z * (1 - 1e-9), *rest)

    monkeypatch.setattr(module, "residual_noise", forgetful)
    words = SeededWords(1)
    with pytest.raises(ArithmeticError, match="not what was charged"):
        noise.draw(exact_of([(0, 0, 0, 0)], noise), words)


# What is chosen follows from what was released


def released_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every release comes out the same, whatever the private counts are."""

    def draw(self: ResidualNoise, exact: Mapping[str, np.ndarray], words: Any) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(3)
        names = list(exact)[: len(self.shapes)]
        cells = [math.prod(size - 1 for size in shape) for shape in self.shapes]
        return {name: rng.integers(-500, 500, size) for name, size in zip(names, cells, strict=True)}

    monkeypatch.setattr(ResidualNoise, "draw", draw)
    monkeypatch.setattr(module, "worth_scoring", lambda *given: SCORED)


def draws_alike(noise: TriplesNoise, tables: list[list[Any]]) -> bool:
    drawn = [noise.draw(exact_of(table, noise), SeededWords(0)) for table in tables]
    return all((drawn[0][name] == drawn[1][name]).all() for name in drawn[0])


TABLES = [[(0, 0, 0, 0)] * 50, [(2, 5, 1, 4)] * 500 + [(0, 1, 1, 0)] * 300]


def test_groups_choice_and_shares_are_a_function_of_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    released_alike(monkeypatch)
    assert draws_alike(noise_for(), TABLES)


@pytest.mark.parametrize("what", ["groups", "triples"])
def test_a_choice_that_looks_at_private_counts_is_caught(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    released_alike(monkeypatch)
    noise, seen = noise_for(), {}
    true_draw: Callable[..., Any] = TriplesNoise.draw

    def spying(self: TriplesNoise, exact: TripleCounts, words: Any) -> dict[str, np.ndarray]:
        seen["exact"] = exact
        return true_draw(self, exact, words)

    def from_private(*_: Any) -> tuple[Any, Any]:
        counts = seen["exact"].triples[0, 1, 2].sum(axis=(0, 2))
        groups = np.arange(6) % 4 if counts[0] else np.minimum(np.arange(6), 3)
        way = tuple(groups if size == 6 else other_groups(size) for size in SIZES)
        return way, way

    def chosen_by_private(*_: Any) -> Choice:
        return Choice(((0, 1, 2),), 0.1) if seen["exact"].triples[0, 1, 2][0, 0, 0] > 40 else Choice((), 0.0)

    monkeypatch.setattr(TriplesNoise, "draw", spying)
    name, bug = ("groupings", from_private) if what == "groups" else ("choose_triples", chosen_by_private)
    monkeypatch.setattr(module, name, bug)
    try:
        alike = draws_alike(noise, TABLES)
    except KeyError:  # one of them has more residuals
        alike = False
    assert not alike


# The noise itself


def z_scores(scale: float, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Joined residuals less the truth, over the std that is told, if the noise drawn is `scale` times the declared."""
    true = rounded_gaussian
    monkeypatch.setattr(residuals, "rounded_gaussian", lambda shape, std, words: true(shape, std * scale, words))
    noise = noise_for()
    exact = exact_of([(0, 1, 1, 2)] * 300, noise)
    scores = []
    for _ in range(40):
        drawn = noise.draw(exact, operating_system_randomness())
        facts = {"sizes": list(SIZES), "public_total": None, **noise.told(drawn)}
        told = released_residuals(Mechanism(_Given(drawn), None, RESIDUALS, facts).draw(SeededWords(0)))
        for place, clique in enumerate(noise.workload.measured):
            truth, counts = exact.first[f"residual_{place}"].astype(float), told.by_clique[clique]
            for axis in range(truth.ndim):
                truth = truth - truth.mean(axis=axis, keepdims=True)
            left = math.prod(1 - 1 / SIZES[column] for column in clique)
            scores.append(((counts.counts - truth) / counts.std / math.sqrt(left)).ravel())
    return np.concatenate(scores)


class _Given:
    """What was drawn already."""

    event = Gaussian(1.0)

    def __init__(self, drawn: Mapping[str, np.ndarray]) -> None:
        self._drawn = drawn

    def draw(self, exact: None, randomness: Any) -> Mapping[str, np.ndarray]:
        return self._drawn


def scale_is_right(scores: np.ndarray) -> bool:
    return bool(abs(np.square(scores).mean() - 1) < 6 * math.sqrt(2 / len(scores)))


@pytest.mark.parametrize(("scale", "right"), [(1.0, True), (0.85, False), (1.15, False)])
def test_the_noise_of_joined_releases_is_what_is_told_and_a_wrong_one_is_caught(
    scale: float, right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scale_is_right(z_scores(scale, monkeypatch)) is right


def test_a_chosen_triple_comes_with_its_residual_and_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "choose_triples", lambda *given: FIXED)
    noise = noise_for()
    exact = exact_of([(0, 1, 1, 2), (1, 4, 0, 3)] * 5000, noise)
    facts = {"sizes": list(SIZES), "public_total": None}
    told = released_residuals(Mechanism(noise, exact, RESIDUALS, facts).draw(SeededWords(5)))
    assert told.asked == (*noise.workload.asked, *FIXED.triples)
    for triple in FIXED.triples:
        off = told.marginal(triple) - exact.triples[triple]
        assert 0.5 < np.square(off).mean() / told.variance(triple) < 2


def test_candidates_are_the_narrowest_that_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(candidate_triples(SIZES)) == set(TRIPLES)
    assert candidate_triples((1, 5, 5, 5)) == ((1, 2, 3),)
    assert candidate_triples((2, 2, 100_000)) == ()
    monkeypatch.setattr(module, "MOST_CELLS", 90)
    assert candidate_triples(SIZES) == ((0, 2, 3), (0, 1, 2))
    monkeypatch.setattr(module, "MOST_CANDIDATES", 1)
    assert candidate_triples(SIZES) == ((0, 2, 3),)


def test_all_triples_of_forty_two_columns_are_candidates_and_of_more_as_many() -> None:
    assert len(candidate_triples((2,) * 42)) == math.comb(42, 3)
    assert len(candidate_triples((2,) * 60)) == MOST_CANDIDATES
