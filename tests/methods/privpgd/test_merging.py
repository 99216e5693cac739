"""Merged codes: wide columns are fitted over few codes and published over all of theirs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.strategies import by_residuals
from benchmarks.support.tables import CodedTable
from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.constraints import Rule
from understudy.pipelines.methods.privpgd.engine import synthesize
from understudy.pipelines.methods.privpgd.learning import learn, merged_marginal
from understudy.pipelines.methods.privpgd.merging import MOST_CODES, MOST_INTERVALS, merge
from understudy.pipelines.methods.privpgd.problem import GridColumn

COLUMNS = [GridColumn(700, True), GridColumn(400, False), GridColumn(4, False)]


def wide_table(rows: int = 20_000) -> CodedTable:
    """The nominal column's codes fall as 1/rank; the narrow one follows both of the others."""
    rng = np.random.default_rng(0)
    first = np.clip(rng.normal(350, 100, rows), 0, 699).astype(np.int64)
    ranks = 1 / np.arange(1, 401)
    second = rng.choice(400, rows, p=ranks / ranks.sum())
    third = np.where(rng.random(rows) < 0.8, (first > 350) + 2 * (second < 3), rng.integers(0, 4, rows))
    sizes = tuple(column.size for column in COLUMNS)
    return CodedTable("wide", ("a", "b", "c"), np.stack([first, second, third], axis=1), sizes, (True, False, False), 2)


@pytest.fixture(scope="module")
def measured() -> Residuals:
    table = wide_table()
    return by_residuals(table, table.codes, 3.0)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 900), st.booleans(), st.integers(0, 2), st.integers(0, 2**31))
def test_every_code_has_one_merged_code(size: int, ordered: bool, off: int, seed: int) -> None:
    masses = np.random.default_rng(seed).dirichlet(np.full(size, 0.3))
    column = GridColumn(size, ordered, tuple(range(size - off, size)) if ordered and size > off else ())
    found = merge(masses, column, 1000.0, 3.0)
    if found is None:
        assert size <= MOST_CODES or not ordered
        return
    assert sorted(set(found.of.tolist())) == list(range(found.size))
    assert found.members.sum() == size
    assert found.probabilities.sum() == pytest.approx(1.0)
    if ordered:
        assert np.all(np.diff(found.of) >= 0)  # neighbours
        assert found.size <= MOST_INTERVALS + off
        assert all(found.members[found.of[code]] == 1 for code in column.unordered_codes)


def test_no_merged_code_reaches_over_a_cut() -> None:
    masses = np.random.default_rng(2).dirichlet(np.full(703, 0.3))
    column = GridColumn(703, True, (701, 702))
    cuts = (0, 100, 350, 701, 702)
    found = merge(masses, column, 30_000.0, 3.0, cuts)
    assert found is not None
    assert all(found.of[cut - 1] < found.of[cut] for cut in cuts[1:])
    assert found.size > 40  # sqrt(30,000 / 16), and some by the cuts
    small = merge(masses, column, 100.0, 3.0)
    assert small is not None
    assert small.size <= 34


def test_frequent_codes_without_order_stay_apart_and_rare_ones_are_one() -> None:
    masses = np.full(500, 0.5 / 497)
    masses[[7, 100, 499]] = 0.3, 0.15, 0.05
    found = merge(masses, GridColumn(500, False), 10_000.0, 20.0)
    assert found is not None
    assert found.size == 4
    assert found.members.tolist() == [1, 1, 1, 497]
    assert found.of[[7, 100, 499]].tolist() == [0, 1, 2]


def test_single_codes_are_drawn_as_the_column_has_them() -> None:
    rng = np.random.default_rng(1)
    masses = rng.dirichlet(np.ones(300))
    found = merge(masses, GridColumn(300, True), 1000.0, 3.0)
    assert found is not None
    merged = rng.choice(found.size, 50_000, p=found.probabilities).astype(np.int32)
    codes = found.single_codes(merged, rng)
    assert np.array_equal(found.of[codes], merged)
    within = np.bincount(codes, minlength=300) - np.bincount(merged, minlength=found.size)[found.of] * (
        masses / found.probabilities[found.of]
    )
    assert np.abs(within).max() <= 1.0 + 1e-9  # systematic draws


def test_estimates_over_merged_codes_are_sums_of_those_over_single_ones(measured: Residuals) -> None:
    merged, _ = learn(measured, COLUMNS, measured.total, frozenset())
    assert set(merged) == {0, 1}
    for clique in measured.asked:
        summed = measured.marginal(clique)
        for axis, column in enumerate(clique):
            if column in merged:
                summed = np.apply_along_axis(lambda fibre, of=merged[column].of: np.bincount(of, fibre), axis, summed)
        assert np.allclose(merged_marginal(measured, clique, merged), summed, atol=1e-6)


def test_a_wide_table_is_copied_over_all_its_codes(measured: Residuals) -> None:
    table = wide_table()
    fake = synthesize(measured, COLUMNS, 20_000, PrivPGDConfig(epochs=1), seed=1)
    for column, size in enumerate(table.sizes):
        real, copy = (np.bincount(each[:, column], minlength=size) / 20_000 for each in (table.codes, fake))
        assert np.abs(np.cumsum(real - copy)).max() < 0.02
    both = [np.bincount(4 * (each[:, 0] // 100) + each[:, 2], minlength=28) / 20_000 for each in (table.codes, fake)]
    assert np.abs(both[0] - both[1]).sum() / 2 < 0.02
    top = [
        np.bincount(4 * np.minimum(each[:, 1], 10) + each[:, 2], minlength=44) / 20_000 for each in (table.codes, fake)
    ]
    assert np.abs(top[0] - top[1]).sum() / 2 < 0.03


def test_columns_of_a_rule_are_not_merged_and_the_rule_holds(measured: Residuals) -> None:
    allowed = np.ones((700, 4), dtype=bool)
    allowed[:333, 1] = False

    class Tabulated:
        def rule(self, sizes: object) -> Rule:
            return Rule((0, 2), allowed)

        def penalty(self, sizes: object) -> None:
            return None

    fake = synthesize(measured, COLUMNS, 2_000, PrivPGDConfig(epochs=1), constraints=[Tabulated()], seed=1)
    assert allowed[fake[:, 0], fake[:, 2]].all()
    merged, _ = learn(measured, COLUMNS, measured.total, frozenset({0, 2}))
    assert set(merged) == {1}
