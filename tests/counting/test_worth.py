"""What triples are worth: interactions beyond the pairs are found, noise and echoes are not taken for one, and whatever
the noisy numbers are a choice comes out."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.counting.interactions import Score, groupings, unexplained
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.merging import merged
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.counting.triples import MOST_FOR_SCORES
from understudy.pipelines.counting.worth import (
    MOST_FOR_TRIPLES,
    Choice,
    Scoring,
    choose_triples,
    worth_scoring,
)

SIZES = (2, 3, 6, 8, 2)
ORDERED = (False, True, True, True, False)
PAIRS = tuple(combinations(range(5), 2))
TRIPLES = tuple(combinations(range(5), 3))
LEFT = 0.47


def centred(table: np.ndarray) -> np.ndarray:
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def counted(codes: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
    shape = [SIZES[column] for column in clique]
    if not clique:
        return np.array(float(len(codes)))
    cells = np.ravel_multi_index([codes[:, column] for column in clique], shape)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(float)


def known_of(codes: np.ndarray, std: float, rng: np.random.Generator) -> Residuals:
    found = {}
    for clique in {subset for pair in PAIRS for subset in subsets(pair)}:
        table = counted(codes, clique)
        found[clique] = Residual(centred(table + std * rng.normal(size=table.shape)), std)
    return Residuals(PAIRS, SIZES, found)


def scores_of(codes: np.ndarray, known: Residuals, std: float, rng: np.random.Generator) -> list[Score]:
    ways = groupings(known, ORDERED)
    todo = [(triple, way) for triple in TRIPLES for way in ways]
    tables = [merged(counted(codes, triple), [way[column] for column in triple]) for triple, way in todo]
    return [
        Score(triple, way, centred(table + std * rng.normal(size=table.shape)), std)
        for (triple, way), table in zip(todo, tables, strict=True)
    ]


def choice_for(
    codes: np.ndarray, seed: int, pair_std: float = 75.0, score_std: float = 300.0, noise_level: float = 20.0
) -> Choice:
    rng = np.random.default_rng(seed)
    known = known_of(codes, pair_std, rng)
    beyond = unexplained(known, scores_of(codes, known, score_std, rng))
    return choose_triples(known, beyond, TRIPLES, noise_level, 0.5, LEFT)


def rows(seed: int, count: int = 40_000) -> np.ndarray:
    """Columns that depend on each other in pairs only: a chain."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, SIZES[0], count)]
    for size in SIZES[1:]:
        follows = rng.random(count) < 0.4
        columns.append(np.where(follows, columns[-1] % size, rng.integers(0, size, count)))
    return np.stack(columns, axis=1)


def test_nothing_is_chosen_where_pairs_explain_everything() -> None:
    """But for chance, which may find something in one table of ten."""
    assert sum(choice_for(rows(seed), seed) != Choice((), 0.0) for seed in range(10)) <= 2


@pytest.mark.parametrize("seed", range(6))
def test_an_exclusive_or_is_found_first(seed: int) -> None:
    codes = rows(seed)
    codes[:, 4] = codes[:, 0] ^ (codes[:, 3] >= 4)
    choice = choice_for(codes, seed)
    assert choice.triples[0] == (0, 3, 4)
    assert choice.part > 0


@pytest.mark.parametrize("seed", range(6))
def test_what_only_echoes_an_interaction_is_not_chosen(seed: int) -> None:
    """Column 1 follows column 0, so that it seems to have a part in what columns 0, 3 and 4 have in common."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, 40_000) for size in SIZES], axis=1)
    codes[:, 1] = np.where(rng.random(len(codes)) < 0.5, codes[:, 0], codes[:, 1])
    codes[:, 4] = codes[:, 0] ^ (codes[:, 3] >= 4)
    known = known_of(codes, 75.0, rng)
    scores = scores_of(codes, known, 300.0, rng)
    alone = [score for score in scores if score.triple == (1, 3, 4)]
    assert unexplained(known, alone)[1, 3, 4] > 0.05
    chosen = choice_for(codes, seed).triples
    assert chosen[0] == (0, 3, 4)
    assert (1, 3, 4) not in chosen


@pytest.mark.parametrize("seed", range(6))
def test_odd_against_even_is_found_though_neighbours_are_merged(seed: int) -> None:
    codes = rows(seed)
    codes[:, 4] = (codes[:, 2] + codes[:, 3]) % 2
    assert choice_for(codes, seed).triples[0] == (2, 3, 4)


def test_with_much_noise_nothing_is_chosen() -> None:
    codes = rows(0)
    codes[:, 4] = codes[:, 0] ^ (codes[:, 3] >= 4)
    assert choice_for(codes, 0, pair_std=1e5, score_std=1e6, noise_level=2e4).triples == ()


def test_all_triples_are_had_for_a_small_part_where_rows_and_budget_make_them_affordable() -> None:
    """Though none stands out: what chance leaves in the triples of so small a table is told at so little noise."""
    codes = rows(0)
    assert choice_for(codes, 0).triples == ()
    choice = choice_for(codes, 0, pair_std=4.0, score_std=300.0, noise_level=1.0)
    assert (set(choice.triples), choice.part) == (set(TRIPLES), MOST_FOR_TRIPLES)


def test_more_rows_make_more_triples_worth_it() -> None:
    """Interactions of all triples, as weak as can be: too weak for few rows, worth nearly all of the rest for many."""
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 400_000) for size in SIZES], axis=1)
    for a, b, c in TRIPLES:
        odd = rng.random(len(codes)) < 0.1
        codes[odd, c] = (codes[odd, a] + codes[odd, b]) % SIZES[c]
    few, many = choice_for(codes[:4_000], 2), choice_for(codes, 2)
    assert len(few.triples) < len(many.triples)
    assert set(many.triples) == set(TRIPLES)
    assert few.part <= many.part == MOST_FOR_TRIPLES  # pairs are asked for, and keep nearly all


def test_pairs_have_little_more_noise_whatever_is_chosen() -> None:
    assert 1 < 1 / math.sqrt(1 - MOST_FOR_SCORES - MOST_FOR_TRIPLES) < 1.035


def test_triples_are_scored_where_rows_and_budget_can_tell_anything_of_them() -> None:
    """None of few rows, all of many; of very many with less of the budget, so that nearly all stays with the pairs."""
    rng = np.random.default_rng(0)

    def scoring(count: int) -> Scoring:
        return worth_scoring(known_of(rows(0, count), 5.0, rng), TRIPLES, 4.0, 0.03)

    assert scoring(30) == Scoring((), 0.0)
    some, all_of_them = scoring(1_000), scoring(40_000)
    assert 0 < len(some.tests) < len(all_of_them.tests)
    assert {triple for triple, _ in all_of_them.tests} == set(TRIPLES)
    assert scoring(1_000_000).part < 0.001 < all_of_them.part


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 1.0, 1e4, 1e12, -1e9]), st.sampled_from([1e-3, 5.0, 1e9]))
def test_whatever_the_noisy_numbers_are_a_choice_comes_out(seed: int, total: float, std: float) -> None:
    rng = np.random.default_rng(seed)
    known = known_of(np.zeros((0, 5), dtype=np.int64), std, rng)
    known.by_clique[()] = Residual(np.array(total), std)  # type: ignore[index]
    scores = scores_of(np.zeros((0, 5), dtype=np.int64), known, std, rng)
    scoring = worth_scoring(known, TRIPLES, std, 0.03)
    assert {triple for triple, _ in scoring.tests} <= set(TRIPLES)
    assert 0 <= scoring.part <= 0.03
    assert bool(scoring.tests) == (scoring.part > 0)
    beyond = unexplained(known, scores)
    assert set(beyond) == set(TRIPLES)
    assert all(math.isfinite(distance) and distance >= 0 for distance in beyond.values())
    choice = choose_triples(known, beyond, TRIPLES, std, 0.5, LEFT)
    assert set(choice.triples) <= set(TRIPLES)
    assert len(set(choice.triples)) == len(choice.triples)
    assert 0 <= choice.part < LEFT
    assert bool(choice.triples) == (choice.part > 0)
