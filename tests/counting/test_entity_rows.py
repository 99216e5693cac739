"""Rows told from counted entities: exact where nothing is noised, and with the noise that is said where it is."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.pipelines.counting.entity_rows import EntityResiduals
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.counting.weights import EntityWeights

SIZES = (3, 2)


def centred(table: np.ndarray) -> np.ndarray:
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def told(weights: EntityWeights, joint: np.ndarray, numbers: np.ndarray | None, std: float = 0.0) -> EntityResiduals:
    """Residuals of a table over columns and level, in entities, without noise."""
    level = joint.ndim - 1
    asked = tuple((*clique, level) for clique in subsets(tuple(range(level))))
    found = {}
    for subset in subsets(tuple(range(joint.ndim))):
        summed = joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in subset))
        found[subset] = Residual(centred(np.asarray(summed)), 1.0)
    everything = tuple(sorted({*asked, *((c,) for c in range(level))}))
    return EntityResiduals(Residuals(everything, joint.shape, found), weights, numbers, std)


@pytest.mark.parametrize("cap", [2, 4, 12, 32])
def test_without_noise_the_rows_are_exact(cap: int) -> None:
    """Also where rounding down loses ticks: a tick stands for as many rows as its entity divides it into."""
    weights, rng = EntityWeights.of(cap), np.random.default_rng(0)
    people = rng.integers(1, cap + 1, 4000)
    ticks = people * weights.ticks_of(people) / weights.ticks  # of each entity, in entities: 1 or a little less
    numbers = np.bincount(people - 1, ticks, minlength=cap)
    by_level = np.bincount(weights.level_of(people), ticks, minlength=len(weights.levels))
    joint = np.outer([0.5, 0.3, 0.2], by_level).reshape(3, -1)
    found = told(weights, joint, numbers, 1e-9)
    assert found.rows == pytest.approx(people.sum(), rel=1e-9)
    assert found.row_counts((0,)) == pytest.approx(people.sum() * np.array([0.5, 0.3, 0.2]), rel=1e-9)


def test_a_level_that_noise_hides_is_taken_as_a_usual_tail() -> None:
    weights = EntityWeights.of(32)
    joint = np.outer(np.ones(3) / 3, [900.0, 50, 20, 10, 5, 2])
    usual = told(weights, joint, None).rows_each
    noisy = told(weights, joint, np.random.default_rng(1).normal(0, 1e6, 32), 1e6).rows_each
    assert noisy == pytest.approx(usual, rel=0.02)
    assert usual[:2].tolist() == [1, 2]
    assert all(
        numbers[0] <= rows <= 1.04 * numbers[-1] for rows, numbers in zip(usual, weights.numbers_in, strict=True)
    )


def test_the_noise_of_rows_is_the_one_that_is_said() -> None:
    """By simulation, within four standard errors of a variance."""
    weights, rng = EntityWeights.of(12), np.random.default_rng(2)
    shape, draws = (*SIZES, len(weights.levels)), 3000
    stds = {subset: 1.0 + len(subset) for subset in subsets((0, 1, 2))}
    asked = tuple(clique for clique in stds if clique)
    cells = []
    for _ in range(draws):
        noise = {s: Residual(centred(rng.normal(0, std, [shape[c] for c in s])), std) for s, std in stds.items()}
        found = EntityResiduals(Residuals(asked, shape, noise), weights)
        cells.append([found.row_counts((0,))[0], found.row_counts((0, 1))[1, 1], float(found.row_counts(()))])
    said = [found.row_variance(clique) for clique in ((0,), (0, 1), ())]
    assert np.var(cells, axis=0) == pytest.approx(said, rel=4 * np.sqrt(2 / draws))
