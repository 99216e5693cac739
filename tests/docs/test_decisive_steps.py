"""The step that decides the moments' noise under REPLACE_ONE, attacked: no two rows lie further apart than the bound.

Rows are searched as the proof sees them, slot by slot: a number in [-1, 1], a null, or a category. The same search
finds rows beyond every weaker bound, so it would find a wrong one.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from understudy.pipelines.methods.gaussian.mechanism import Shape, Weights, sensitivity
from understudy.pipelines.privacy.relation import Relation

VALUES = 3  # of every category


def query(row: np.ndarray, numeric: int, weights: Weights) -> np.ndarray:
    """Of one row: numbers as they are (NaN is null), categories by code. Every feature of the header, weighted."""
    numbers = row[:numeric]
    null = np.isnan(numbers)
    x = np.where(null, 0.0, numbers)
    parts = [np.array([value]) for value in x] + [np.eye(VALUES)[int(code)] for code in row[numeric:]]
    products = [np.outer(parts[s], parts[t]).ravel() for s in range(len(parts)) for t in range(s + 1, len(parts))]
    return np.concatenate(
        [
            [weights.count],
            weights.linear * np.concatenate([*parts, null.astype(float)]),
            weights.square * (x**2 - 0.5),
            weights.pair * np.concatenate(products) if products else np.zeros(0),
        ]
    )


def furthest(slots: int, numeric: int, weights: Weights, starts: int, rng: np.random.Generator) -> float:
    """The largest squared distance found by changing one slot of one of two rows at a time, from many starts."""

    def apart(pair: np.ndarray) -> float:
        return float(np.sum((query(pair[0], numeric, weights) - query(pair[1], numeric, weights)) ** 2))

    best = 0.0
    for _ in range(starts):
        pair = np.concatenate(
            [rng.choice([-1.0, 0.0, 1.0, np.nan], (2, numeric)), rng.integers(0, VALUES, (2, slots - numeric))], axis=1
        )
        now, before = apart(pair), -1.0
        while now > before:
            before = now
            for index in np.ndindex(2, slots):
                choices = (-1.0, 0.0, 1.0, np.nan, rng.uniform(-1, 1)) if index[1] < numeric else range(VALUES)
                for value in choices:
                    trial = pair.copy()
                    trial[index] = value
                    if (found := apart(trial)) > now:
                        pair, now = trial, found
        best = max(best, now)
    return best


CASES = [
    (4, 4, Weights(0, 1.0, 1.0, 1.0)),
    (4, 4, Weights(0, 0.3, 0.1, 1.0)),
    (4, 4, Weights(0, 2.0, 0.2, 1.0)),
    (3, 3, Weights(0, 0.5, 3.0, 1.0)),
    (2, 2, Weights(0, 1.0, 0.1, 1.0)),
    (4, 2, Weights(0, 0.7, 0.6, 1.0)),
    (3, 0, Weights(0, 0.4, 0.0, 1.0)),
    (3, 2, Weights(0, 1.0, 1.0, 0.0)),
    (6, 6, Weights(0, 1.0, 0.5, 1.0)),
]


@pytest.mark.parametrize(("slots", "numeric", "weights"), CASES)
def test_no_two_rows_lie_further_apart_than_the_replace_one_bound(slots, numeric, weights) -> None:
    found = furthest(slots, numeric, weights, 25, np.random.default_rng(slots * 10 + numeric))
    bound = sensitivity(weights, Shape(numeric, slots, 1, Relation.REPLACE_ONE, 1)) ** 2
    assert found <= bound * (1 + 1e-12)
    assert found >= 0.5 * bound


def test_random_weights_and_shapes_do_not_break_it_either() -> None:
    rng = np.random.default_rng(5)
    for _ in range(25):
        slots = int(rng.integers(1, 5))
        numeric = int(rng.integers(0, slots + 1))
        weights = Weights(0, *np.exp(rng.normal(0, 1, 3)))
        bound = sensitivity(weights, Shape(numeric, slots, 1, Relation.REPLACE_ONE, 1)) ** 2
        assert furthest(slots, numeric, weights, 4, rng) <= bound * (1 + 1e-12)


@pytest.mark.parametrize(
    ("dropped", "slots", "weights"),
    [
        ("b^4/e^2", 5, Weights(0, 1.0, 0.0, 1.0)),
        ("max(0, c^2 - e^2/2) d", 3, Weights(0, 0.1, 3.0, 1.0)),
        ("e^2 D^2", 4, Weights(0, 0.3, 0.1, 1.0)),
        ("half of 2 b^2 D", 2, Weights(0, 1.0, 0.1, 0.5)),
    ],
)
def test_the_same_search_breaks_the_bound_when_a_term_is_left_out(dropped: str, slots: int, weights: Weights) -> None:
    b, c, e = weights.linear, weights.square, weights.pair
    terms = {
        "half of 2 b^2 D": b * b * slots,
        "e^2 D^2": e * e * slots**2,
        "b^4/e^2": b**4 / e**2,
        "max(0, c^2 - e^2/2) d": max(0.0, c * c - e * e / 2) * slots,
    }
    whole = sum(terms.values()) + b * b * slots
    found = furthest(slots, slots, weights, 40, np.random.default_rng(1))
    assert found <= whole * (1 + 1e-12)
    assert found > whole - terms[dropped]


def test_a_surplus_row_of_an_entity_is_within_the_bound_that_pairs_have() -> None:
    """Step 9: R <= min(W1, W2) + a^2 for all weights, so a unit that brings fewer rows is covered."""
    rng = np.random.default_rng(8)
    for _ in range(3000):
        slots = int(rng.integers(1, 30))
        numeric = int(rng.integers(0, slots + 1))
        weights = Weights(*np.exp(rng.normal(0, 2, 4)))
        alone = sensitivity(weights, Shape(numeric, slots, 1, Relation.ADD_REMOVE, 1))
        assert alone <= sensitivity(weights, Shape(numeric, slots, 1, Relation.REPLACE_ONE, 1, True)) * (1 + 1e-12)
    assert math.isfinite(alone)
