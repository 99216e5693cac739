"""Targets for rows where entities were counted: carried over by levels, shrunk towards a trend, positive and whole."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from understudy.pipelines.counting.entity_rows import EntityResiduals
from understudy.pipelines.counting.groups import groupings
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.shares import share_out, subsets
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.methods.privpgd.engine import synthesize
from understudy.pipelines.methods.privpgd.level_tables import shrink_by_trend, tilted
from understudy.pipelines.methods.privpgd.problem import GridColumn
from understudy.pipelines.methods.privpgd.projection import maximum_entropy
from understudy.pipelines.methods.privpgd.row_targets import carried_over, row_tables

SIZES, CAP = (4, 3, 5), 8
GRID = [GridColumn(size, True) for size in SIZES]
WEIGHTS = EntityWeights.of(CAP)


def people(count: int = 30_000) -> tuple[np.ndarray, np.ndarray]:
    """Codes of one row each, and how many rows everybody has; the first two columns depend on that."""
    rng = np.random.default_rng(4)
    rows = np.minimum(rng.zipf(1.8, count), CAP)
    busy = np.log2(rows)
    first = np.clip(np.rint(0.6 * busy + rng.normal(0.8, 0.8, count)), 0, 3)
    second = np.clip(np.rint(0.5 * first + rng.normal(0, 0.6, count)), 0, 2)
    third = np.clip(np.rint(rng.normal(2, 1, count) + 0.7 * (second - 1)), 0, 4)
    return np.stack([first, second, third], axis=1).astype(int), rows


def released(std: float, seed: int = 0) -> tuple[EntityResiduals, dict[tuple[int, ...], np.ndarray]]:
    """All pairs of entities, with and without their level; and the true tables of rows."""
    codes, rows = people()
    whole = np.column_stack([codes, WEIGHTS.level_of(rows)])
    shape, rng = (*SIZES, len(WEIGHTS.levels)), np.random.default_rng(seed)
    asked = [*((c,) for c in range(4)), *combinations(range(4), 2)]
    found = {}
    for clique in {subset for each in asked for subset in subsets(each)}:
        table = np.zeros([shape[c] for c in clique])
        np.add.at(table, tuple(whole[:, c] for c in clique) or (), 1.0 if clique else len(whole))
        noisy = table + rng.normal(0, std, table.shape)
        for axis in range(noisy.ndim):
            noisy = noisy - noisy.mean(axis=axis, keepdims=True)
        found[clique] = Residual(noisy, std)
    true = {}
    for clique in asked:
        if 3 not in clique:
            table = np.zeros([shape[c] for c in clique])
            np.add.at(table, tuple(whole[:, c] for c in clique), rows)
            true[clique] = table / table.sum()
    numbers = np.bincount(rows - 1, minlength=CAP) + rng.normal(0, std, CAP)
    return EntityResiduals(Residuals(tuple(asked), shape, found), WEIGHTS, numbers, std), true


def released_in_groups(std: float) -> tuple[EntityResiduals, np.ndarray, np.ndarray]:
    """A wide ordered column that depends on how many rows everybody has, and a narrow one; their codes and rows."""
    rng = np.random.default_rng(5)
    codes, rows = people()
    wide = np.clip(np.rint(40 * np.log2(rows) + 60 + 15 * codes[:, 0] + 10 * rng.normal(size=len(rows))), 0, 299)
    whole = np.column_stack([codes[:, 0], wide.astype(int), WEIGHTS.level_of(rows)])
    sizes = (SIZES[0], 300, len(WEIGHTS.levels))
    ways = groupings(300, True, ())
    assert ways is not None
    workload = share_out(list(combinations(range(3), 2)), sizes, 4.0, groupings={1: ways})

    def noisy(table: np.ndarray) -> Residual:
        table = table + rng.normal(0, std, table.shape)
        for axis in range(table.ndim):
            table = table - table.mean(axis=axis, keepdims=True)
        return Residual(table, std)

    tables = {}
    for clique in workload.measured:
        tables[clique] = np.zeros([sizes[c] for c in clique])
        np.add.at(tables[clique], tuple(whole[:, c] for c in clique) or (), 1.0 if clique else len(whole))
    found = {clique: noisy(table) for clique, table in tables.items()}
    grouped = {each: noisy(each.summed(tables[each.columns])) for each in workload.grouped}
    residuals = Residuals(workload.asked, sizes, found, grouped)
    numbers = np.bincount(rows - 1, minlength=CAP).astype(float)
    return EntityResiduals(residuals, WEIGHTS, numbers, std), whole, rows


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).sum() / 2)


FOCUS = pytest.mark.parametrize("focus", [frozenset[int](), frozenset({0, 2})])


@FOCUS
def test_tables_are_of_rows_and_not_of_entities(focus: frozenset[int]) -> None:
    counted, true = released(1.0)
    for clique, table in row_tables(counted, GRID, focus=focus)[0].items():
        entities = counted.residuals.marginal(clique) / counted.entities
        assert table.probabilities.min() >= 0
        assert table.probabilities.sum() == pytest.approx(1)
        assert distance(table.probabilities, true[clique]) < 0.01
        assert clique == (2,) or distance(entities, true[clique]) > 0.04  # or this would show nothing
    assert counted.rows == pytest.approx(people()[1].sum(), rel=0.01)


@FOCUS
def test_with_noise_that_hides_everything_targets_are_tables_still(focus: frozenset[int]) -> None:
    counted, _ = released(1e6)
    for table in row_tables(counted, GRID, focus=focus)[0].values():
        assert table.probabilities.min() >= 0
        assert table.probabilities.sum() == pytest.approx(1)
        assert np.isfinite(table.variance)


@FOCUS
def test_rows_are_generated_as_there_are_and_without_the_level(focus: frozenset[int]) -> None:
    counted, true = released(5.0)
    codes = synthesize(counted, GRID, 20_000, seed=1, focus=focus)
    assert codes.shape == (20_000, 3)
    for clique, table in true.items():
        copy = np.zeros(table.shape)
        np.add.at(copy, tuple(codes[:, c] for c in clique), 1 / len(codes))
        assert distance(copy, table) < 0.02


@pytest.mark.parametrize("std", [3.0, 30.0])
def test_groups_tell_rows_of_a_wide_column_what_its_codes_alone_would_not(std: float) -> None:
    """Ranges of it, by the narrow column, in the rows that are made; without what groups say they are off by more."""
    counted, whole, rows = released_in_groups(std)
    columns = [GridColumn(SIZES[0], True), GridColumn(300, True)]
    alone = replace(counted, residuals=replace(counted.residuals, grouped={}))
    true = shares_below(whole[:, :2], rows)
    off = [np.abs(shares_below(synthesize(each, columns, 20_000, seed=1)) - true).mean() for each in (counted, alone)]
    assert off[0] < 0.006 * math.sqrt(std / 3)
    assert std < 10 or off[0] < 0.6 * off[1]


def shares_below(codes: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Of rows with each code of the first column, the shares below every tenth code of the second one."""
    table = np.zeros((SIZES[0], 300))
    np.add.at(table, tuple(codes.T), 1.0 if weights is None else weights)
    return np.asarray(table.cumsum(axis=1)[:, ::10] / table.sum())


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 2)])
def test_rows_are_those_of_the_table_of_greatest_entropy(shape: tuple[int, ...]) -> None:
    """Against fitting the whole table with its levels."""
    rng, ndim = np.random.default_rng(3), len(shape)
    whole = rng.random((*shape, 5)) ** 3
    whole /= whole.sum()
    entities, outweighs = whole.sum(axis=-1), rng.random(5) * 9
    by_level = [whole.sum(axis=tuple(other for other in range(ndim) if other != axis)) for axis in range(ndim)]
    lower = {tuple(range(ndim)): entities} | {(axis, ndim): table for axis, table in enumerate(by_level)}
    expected = maximum_entropy(lower, whole.shape) @ outweighs
    assert carried_over(entities, by_level, outweighs) == pytest.approx(expected / expected.sum(), abs=1e-5)


def test_a_trend_is_found_as_far_as_noise_allows() -> None:
    column, levels, scores = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.6, 0.25, 0.1, 0.05]), np.array([0.0, 1, 2, 3])
    slopes = np.array([-0.8, -0.2, 0.3, 0.9])
    true = np.outer(column, levels) * np.exp(np.outer(slopes, scores - levels @ scores))
    true /= true.sum()
    margins = true.sum(axis=1), true.sum(axis=0)
    assert tilted(true, np.full(4, 1e-12), *margins, scores) == pytest.approx(true, abs=1e-4)
    assert tilted(true, np.full(4, 1e6), *margins, scores) == pytest.approx(np.outer(*margins), abs=1e-3)
    rng = np.random.default_rng(0)
    errors = {"trend": 0.0, "independence": 0.0}
    for _ in range(20):
        noisy = true + rng.normal(0, 0.01, true.shape)
        found = shrink_by_trend(noisy, 1e-4, *margins, scores).probabilities
        errors["trend"] += float(np.square(found - true).sum())
        errors["independence"] += float(np.square(np.outer(*margins) - true).sum())
    assert errors["trend"] < 0.3 * errors["independence"]
