"""Adaptive rounds with a wide ordered column: its groups are scored, chosen with it and paid for with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.counting.test_adaptive import Till
from understudy.pipelines.auditing.moves import moved
from understudy.pipelines.counting.adaptive import (
    AdaptivePlan,
    Bought,
    Contest,
    measure_adaptively,
    plan_rounds,
    score_of,
)
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.groups import Groupings, groupings
from understudy.pipelines.counting.lifted import residuals_of_tables
from understudy.pipelines.counting.released import GROUPED
from understudy.pipelines.inference.residuals import residuals_of
from understudy.pipelines.methods.privpgd.method import PrivPGDMethod
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.publishing.measured import measured_files, read_measured
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

SIZES = (200, 100, 2)
PAIRS = ((0, 1), (0, 2), (1, 2))


def ways() -> dict[int, Groupings]:
    found = {0: groupings(200, True, ()), 1: groupings(100, True, ())}
    return {column: each for column, each in found.items() if each is not None}


def planned(relation: Relation = Relation.ADD_REMOVE, rounds: int = 1, epsilon: str = "2") -> AdaptivePlan:
    unit, budget = Unit("patient", 2), Budget(epsilon, "1e-6")
    return plan_rounds(3, PAIRS, rounds, 0.2, budget, relation, unit, groupings=ways())


def counts_of(codes: np.ndarray) -> Callable[[Sequence[tuple[int, ...]]], list[np.ndarray]]:
    def counted(cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        tables = [np.zeros([SIZES[column] for column in clique], dtype=np.int64) for clique in cliques]
        for clique, table in zip(cliques, tables, strict=True):
            np.add.at(table, tuple(codes[:, column] for column in clique), 1)
        return tables

    return counted


def independent(bought: Bought) -> Callable[[tuple[int, ...]], np.ndarray]:
    ones = {clique[0]: np.clip(noisy, 0, None) for clique, noisy, _ in bought.marginals if len(clique) == 1}
    return lambda clique: np.outer(ones[clique[0]], ones[clique[1]]) / max(1.0, float(ones[clique[1]].sum()))


@pytest.mark.parametrize("relation", Relation)
def test_groups_are_within_what_a_round_costs_whatever_is_chosen(relation: Relation) -> None:
    plan = planned(relation)
    assert [each.columns for each in plan.grouped] == [(0,), (0,), (1,), (1,)]
    assert {pair: len(plan.each_round.grouped(pair)) for pair in PAIRS} == {(0, 1): 4, (0, 2): 2, (1, 2): 2}
    for pair in PAIRS:
        assert plan.each_round.noise_of(pair).event == plan.each_round.counts.event
    assert plan.each_round.noise_of((2,)) == plan.each_round.counts  # nothing wide, nothing grouped
    loss = composed_loss([charge.event for charge in plan.charges], 1e-6, relation)
    assert 1.99 < loss.epsilon <= 2.0


def test_golden_noise_of_a_round_in_groups() -> None:
    """Codes get a tenth of what a pair gets, and each finer way a part of the coarser one's."""
    noise = planned().each_round
    of_pair = np.array(noise.noise_of((0, 2)).stds) / noise.counts.stds[0]
    assert of_pair == pytest.approx([10**0.5, (1.3 / 0.9) ** 0.5, (1.3 / 0.9 / 0.3) ** 0.5], rel=1e-9)
    assert noise.counts.stds[0] == pytest.approx(5.40970, rel=1e-5)


rows = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), max_size=12)
unit = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), min_size=1, max_size=2)


@settings(max_examples=20, deadline=None)
@given(rows, unit, unit, st.sampled_from(Relation))
def test_neighbour_replay_of_scores_and_groups(rest: list, mine: list, other: list, relation: Relation) -> None:
    noise = planned(relation).each_round
    expected = [np.full([SIZES[column] for column in pair], 1) for pair in PAIRS]
    contests = []
    for table in (rest + mine, rest + other if relation is Relation.REPLACE_ONE else rest):
        exact = counts_of(np.array(table, dtype=int).reshape(-1, 3))(PAIRS)
        told = [score_of(pair, *tables, noise) for pair, *tables in zip(PAIRS, exact, expected, strict=True)]
        contests.append(Contest(PAIRS, np.array(told), dict(zip(PAIRS, exact, strict=True))))
    assert moved(noise, *contests) <= 1 + 1e-9
    assert np.abs(contests[0].scores - contests[1].scores).max() <= noise.score_sensitivity


def test_two_equal_rows_of_a_unit_move_exactly_what_is_paid_for() -> None:
    noise = planned().each_round
    for pair in PAIRS:
        tables = [noise.tables_of(pair, counts_of(np.array([[7, 9, 1]] * many))([pair])[0]) for many in (5, 3)]
        assert float(moved(noise.noise_of(pair), *tables)) == pytest.approx(1, rel=1e-9)


def related(count: int = 20_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 200, count)
    second = np.clip(first // 2 + rng.integers(-9, 10, count), 0, 99)
    return np.stack([first, second, rng.integers(0, 2, count)], axis=1)


def test_wide_columns_that_depend_on_each_other_are_chosen_by_their_groups() -> None:
    """By 20,000 codes alone their pair is never worth its noise."""
    plan, till, codes = planned(epsilon="0.5"), Till(), related()
    bought, _ = measure_adaptively(plan, counts_of(codes), independent, till)
    assert bought.marginals[-1][0] == (0, 1)
    exact = counts_of(codes)([(0, 1)])[0]
    alone = plan_rounds(3, PAIRS, 1, 0.2, Budget("0.5", "1e-6"), Relation.ADD_REMOVE, Unit("patient", 2))
    assert score_of((0, 1), exact, np.rint(independent(bought)((0, 1))).astype(int), alone.each_round) < 0
    told = residuals_of_tables(bought.marginals, bought.grouped, SIZES)
    in_groups = [each for each in told.grouped if each.columns == (0, 1)]
    assert len(in_groups) == 4
    for each in in_groups:
        table = each.summed(exact).astype(float)
        truth = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
        off = (told.grouped[each].counts - truth) / told.grouped[each].std
        assert np.abs(off).max() < 6
        freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
        assert np.square(off).sum() / freedom == pytest.approx(1, abs=6 * math.sqrt(2 / freedom))
    again, _ = measure_adaptively(plan, counts_of(codes), independent, till)
    assert till.draws == 2
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(bought.grouped, again.grouped, strict=True))


def test_what_an_earlier_version_stored_of_a_wide_column_is_read_without_groups() -> None:
    plan, till, codes = planned(), Till(), related(500)
    bought, _ = measure_adaptively(plan, counts_of(codes), independent, till)
    for stage, sold in till.sold.items():
        arrays: dict[str, Any] = {name: each for name, each in sold.arrays.items() if "grouped" not in name}
        till.sold[stage] = type(sold)(sold.kind, sold.facts, arrays)
    again, _ = measure_adaptively(plan, counts_of(codes), independent, till)
    assert again.grouped == []
    assert [clique for clique, _, _ in again.marginals] == [clique for clique, _, _ in bought.marginals]
    assert again.marginals[-1][2] == plan.round_std


def test_a_release_is_made_of_groups_that_travel_with_it_and_answer() -> None:
    """Through the method: ranges of the pair in the copy, and the numbers that a reader gets."""
    spec = ReleaseSpec.model_validate(
        {
            "name": "wide",
            "source": {"uri": "wide.parquet", "snapshot": "1"},
            "privacy": {"account": "a", "epsilon": 1, "delta": "1e-6"},
            "columns": {
                name: {"type": "integer", "min": 0, "max": size - 1, "bins": size}
                for name, size in zip("abc", SIZES, strict=True)
            },
            "method": {"name": "privpgd", "marginals": "adaptive", "rounds": 1},
            "publish": {"to": "releases/"},
        }
    )
    domain, method, codes, till = TableDomain.of(spec), PrivPGDMethod(), related(), Till()
    rows = pa.table({name: codes[:, place] for place, name in enumerate("abc")})
    table = LocalTable(ArrowSource(rows), domain, spec.privacy.protected_unit, b"key", threads=1)
    measured = method.measure(table, spec, method.plan(spec, domain), till)
    assert [0, 1] in measured.facts["cliques"]
    assert len(measured.facts[GROUPED]) == 8
    copy = method.generate(measured, spec, domain, 20_000, lambda *_: None)
    made = np.stack([copy[name].to_numpy() for name in "abc"], axis=1)
    assert range_error(made, codes) < 0.012
    shuffled = np.column_stack([np.random.default_rng(1).permutation(codes[:, 0]), codes[:, 1:]])
    assert range_error(shuffled, codes) > 0.04  # or this would show nothing
    files = {file.path: file.content for file in measured_files(measured, domain, 1)}
    again = read_measured(files.get)
    assert again is not None
    known, told = residuals_of(measured), residuals_of(again.measurement)
    assert set(told.grouped) == set(known.grouped)
    assert all(np.array_equal(told.grouped[each].counts, known.grouped[each].counts) for each in told.grouped)


def range_error(one: np.ndarray, other: np.ndarray) -> float:
    """Shares of rows below ends of both columns."""
    ends = np.linspace(0, 1, 21)
    below = [np.histogram2d(rows[:, 0] / 200, rows[:, 1] / 100, bins=[ends, ends])[0] for rows in (one, other)]
    shares = [each.cumsum(axis=0).cumsum(axis=1) / each.sum() for each in below]
    return float(np.abs(shares[0] - shares[1]).mean())
