"""Pairs told together: nothing is lost where there is no noise, noise is kept out where columns say the same, and the
freedom is Stein's.
"""

from itertools import combinations

import numpy as np
import pytest

from understudy.pipelines.methods.privpgd.regressed import MOST_CODES, Seen, told_together
from understudy.pipelines.methods.privpgd.shrinkage import centred

SIZES = (12, 4, 12, 6)
ON_AXIS = (12, None, 11, None)  # the last code of the third is off its axis


def table(rng: np.random.Generator, codes: int, rows: int = 200_000) -> np.ndarray:
    """Four columns that follow one hidden number, and a label that follows the first two."""
    hidden = rng.normal(size=rows)
    columns = [np.clip((hidden + 0.4 * rng.normal(size=rows) + 2) / 4 * n, 0, n - 1).astype(int) for n in SIZES]
    score = columns[0] / 4 + columns[1] / 2 + rng.logistic(size=rows)
    label = np.searchsorted(np.quantile(score, np.arange(1, codes) / codes), score)
    return np.stack([*columns, label], axis=1)


def shares(rows: np.ndarray, *columns: int) -> np.ndarray:
    found = np.zeros([int(rows[:, c].max()) + 1 for c in columns])
    np.add.at(found, tuple(rows[:, c] for c in columns), 1 / len(rows))
    return found


def problem(
    codes: int,
) -> tuple[np.ndarray, dict[int, np.ndarray], dict[tuple[int, ...], np.ndarray], list[np.ndarray]]:
    """The label's probabilities, its true interactions, the other pairs, and the other columns."""
    rows = table(np.random.default_rng(1), codes)
    alone = [shares(rows, c) for c in range(5)]
    truth = {c: shares(rows, c, 4) - np.outer(alone[c], alone[4]) for c in range(4)}
    return alone[4], truth, {pair: shares(rows, *pair) for pair in combinations(range(4), 2)}, alone[:4]


def noisy(
    truth: dict[int, np.ndarray], alone: list[np.ndarray], std: float, rng: np.random.Generator
) -> dict[int, Seen]:
    return {
        c: Seen(alone[c], ON_AXIS[c], exact + centred(std * rng.normal(size=exact.shape)), std)
        for c, exact in truth.items()
    }


@pytest.mark.parametrize("codes", [2, 5])
def test_without_noise_to_speak_of_nothing_is_lost(codes: int) -> None:
    label, truth, pairs, alone = problem(codes)
    found = told_together(label, noisy(truth, alone, 1e-7, np.random.default_rng(2)), pairs)
    assert sorted(found) == [0, 1, 2, 3]
    for c, exact in truth.items():
        assert np.abs(found[c].interaction - exact).max() < 1e-5
        assert np.abs(found[c].interaction.sum(axis=0)).max() < 1e-9


@pytest.mark.parametrize("codes", [2, 5])
def test_columns_that_say_the_same_are_known_better_together(codes: int) -> None:
    label, truth, pairs, alone = problem(codes)
    rng, errors, noise = np.random.default_rng(3), [], []
    for _ in range(5):
        seen = noisy(truth, alone, 0.004, rng)
        found = told_together(label, seen, pairs)
        errors.append(sum(np.square(found[c].interaction - truth[c]).sum() for c in truth))
        noise.append(sum(np.square(seen[c].interaction - truth[c]).sum() for c in truth))
    assert np.mean(errors) < 0.6 * np.mean(noise)


def test_noise_alone_is_told_as_next_to_nothing() -> None:
    label, truth, pairs, alone = problem(2)
    nothing = {c: np.zeros_like(exact) for c, exact in truth.items()}
    seen = noisy(nothing, alone, 0.004, np.random.default_rng(4))
    found = told_together(label, seen, pairs)
    kept = sum(np.square(found[c].interaction).sum() for c in truth)
    assert kept < 0.1 * sum(np.square(seen[c].interaction).sum() for c in truth)


def test_freedom_is_steins_divergence() -> None:
    """2 std^2 freedom is what the squared distance to the noisy interaction is short of, of the error, on average."""
    label, truth, pairs, alone = problem(3)
    rng, std, gaps = np.random.default_rng(5), 0.003, []
    for _ in range(200):
        seen = noisy(truth, alone, std, rng)
        found = told_together(label, seen, pairs)
        for c, exact in truth.items():
            noise, moved = seen[c].interaction - exact, found[c].interaction - exact
            gaps.append(float((noise * moved).sum()) / std**2 - found[c].freedom)
    # The strength is learned too, which adds a little that the formula leaves out.
    assert abs(np.mean(gaps)) < 0.6


def test_fewer_than_two_predictors_tell_nothing_together_and_the_widest_are_left_out() -> None:
    label, truth, pairs, alone = problem(2)
    rng = np.random.default_rng(6)
    seen = noisy(truth, alone, 0.004, rng)
    assert told_together(label, {0: seen[0]}, pairs) == {}
    assert told_together(np.ones(1), seen, pairs) == {}
    wide = np.full(MOST_CODES, 1 / MOST_CODES)
    seen[9] = Seen(wide, None, np.zeros((MOST_CODES, 2)), 0.004)
    assert sorted(told_together(label, seen, pairs)) == [0, 1, 2, 3]
