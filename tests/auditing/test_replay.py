"""Record and replay of generated neighbours: no pair moves more than was paid for, and none can be told apart."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.auditing.sizes import pairs
from tests.methods import test_door
from understudy.pipelines.auditing.cases import CASES, OPEN, OPEN_TREES, TREES, open_case, planned_case
from understudy.pipelines.auditing.families import HABITS
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.moves import FAR, moved
from understudy.pipelines.auditing.replay import Outcome, Recorder, Subject, compared, measured, replayed, spec_of
from understudy.pipelines.auditing.turns import in_turn
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.discovery import mechanism
from understudy.pipelines.discovery.mechanism import Sums
from understudy.pipelines.discovery.thresholds import threshold_for
from understudy.pipelines.methods.privpgd import listed
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.spec.plugins import METHODS, names


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    test_door.shrink(monkeypatch.setattr)


@lru_cache(maxsize=64)
def planned_at_the_door(case: str) -> Planned:
    return plan_release(test_door.spec_of(case))


def outcome(planned: Subject, choose: random.Random) -> Outcome:
    pair = made_pair(spec_of(planned), choose)
    return compared(planned, pair, choose.randrange(2**32))


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(choose=st.randoms(use_true_random=True))
def test_no_pair_of_neighbours_is_told_apart(case: str, choose: random.Random) -> None:
    found = outcome(planned_case(case), choose)
    assert found.holds, found


@pytest.mark.parametrize("case", TREES)
def test_nor_are_two_sets_of_tables_that_differ_in_one_family(case: str) -> None:
    """Plain seeds: a hundred cells a pair are too many for Hypothesis to shrink."""
    planned, habits = planned_case(case), set()
    for seed in range(pairs(25)):
        choose = random.Random(seed)
        pair = made_pair(planned.spec, choose)
        habits.add(pair.habit)
        with in_turn(seed % 10 != 0):
            found = compared(planned, pair, seed)
        assert found.holds, (seed, pair.habit, found)
    assert habits == set(HABITS)


@pytest.mark.parametrize("case", OPEN)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(choose=st.randoms(use_true_random=True))
def test_nor_where_columns_are_discovered_first(case: str, choose: random.Random) -> None:
    found = outcome(open_case(case, "10"), choose)
    assert found.holds, found


@pytest.mark.parametrize("case", OPEN_TREES)
def test_nor_two_sets_of_tables_whose_columns_are_discovered_first(case: str) -> None:
    spec, habits, stages, shares = open_case(case, "10"), set(), set(), []
    for seed in range(pairs(20)):
        pair = made_pair(spec, random.Random(seed))
        habits.add(pair.habit)
        with in_turn(seed % 10 != 0):
            found = compared(spec, pair, seed)
            assert found.holds, (seed, pair.habit, found)
            seller = Recorder(seed)
            measured(spec, pair.table, seller)
        shares.append(found.share)
        stages |= {tuple(step.charge.stage for step in seller.steps)}
    assert habits == set(HABITS)
    assert ("discover", "discover further", "tree") in stages
    assert max(shares) > 0.9


def test_where_nothing_was_found_both_tables_are_told_so_in_the_same_words() -> None:
    spec, refused = open_case("tree, discovery", "10"), 0
    for seed in range(12):
        pair = made_pair(spec, random.Random(seed))
        with in_turn():
            measurement = measured(spec, pair.table, Recorder(seed))
            assert not isinstance(measurement, str)
            refused += measurement.kind == "refused"
            assert replayed(spec, pair.table, pair.neighbour, seed).holds
    assert refused


def test_discovery_meets_its_worst_case_and_finds_what_many_share() -> None:
    spec, choose, stages = open_case("discovery", "10"), random.Random(5), set()
    shares = []
    for _ in range(12):
        pair = made_pair(spec, choose)
        shares.append(replayed(spec, pair.table, pair.neighbour, 1).share)
        seller = Recorder(1)
        assert not isinstance(measured(spec, pair.table, seller), str)
        stages |= {tuple(step.charge.stage for step in seller.steps)}
    assert max(shares) > 0.98
    assert stages == {("discover", "discover further", "marginals")}


@pytest.mark.parametrize("case", test_door.CASES)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(choose=st.randoms(use_true_random=True))
def test_nor_at_any_door(case: str, choose: random.Random) -> None:
    """Whatever method and mode the tests of the door know, also those that came later than the audit."""
    found = outcome(planned_at_the_door(case), choose)
    assert found.holds, found


def test_every_method_relation_and_unit_is_attacked() -> None:
    specs = [planned_case(case).spec for case in CASES]
    assert {spec.method.name for spec in specs} == set(names(METHODS))
    for relation in Relation:
        for entity in (None, "who"):
            assert any((s.privacy.relation, s.privacy.unit.entity) == (relation, entity) for s in specs)


@pytest.mark.parametrize("case", ["privpgd", "gaussian, fixed centre", "kernel", "mixing", "tree"])
def test_what_is_paid_for_is_reached_so_that_the_measure_is_not_slack(case: str) -> None:
    planned, choose = planned_case(case), random.Random(5)
    assert max(outcome(planned, choose).share for _ in range(40)) > 0.98


def test_a_unit_too_many_is_an_excess() -> None:
    planned = planned_case("privpgd, people")
    rows = [dict.fromkeys(("length", "width", "petals", "seen", "wild")) | {"kind": "rose"}] * 3
    table = pa.Table.from_pylist([{**row, "who": 1} for row in rows] or [], schema=_schema())
    two_more = pa.Table.from_pylist([{**row, "who": who} for row in rows for who in (1, 2, 3)], schema=_schema())
    assert replayed(planned, table, two_more, 1).excesses


def test_a_fact_that_differs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "_total_is_public", lambda spec: True)
    planned = planned_case("privpgd")
    pair = made_pair(planned.spec, random.Random(3))
    assert "marginals: other facts are stored" in replayed(planned, pair.table, pair.neighbour, 1).differences


def test_noise_that_depends_on_the_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = ResidualNoise.draw

    def quieter(noise: ResidualNoise, exact: Any, randomness: Any) -> Any:
        total = next(iter(exact.values())).sum()
        return draw(replace(noise, stds=tuple(std * (1 + 0.1 * (total % 2)) for std in noise.stds)), exact, randomness)

    monkeypatch.setattr(ResidualNoise, "draw", quieter)
    planned = planned_case("privpgd")
    pair = made_pair(planned.spec, random.Random(3))
    assert any("depends on the table" in each for each in replayed(planned, pair.table, pair.neighbour, 1).differences)


def test_a_failure_is_seen() -> None:
    planned = planned_case("privpgd")
    table = pa.table({"length": [1.0]})
    assert replayed(planned, table, table, 1).differences


def test_what_is_compared_is_exact() -> None:
    """A residual that moves by one unit more than is paid for, in the last place, is found."""
    planned, seller = planned_case("privpgd"), Recorder(1)
    measured(planned, made_pair(planned.spec, random.Random(1)).table, seller)
    [step] = seller.steps
    noise, exact = step.mechanism.noise, step.mechanism.exact
    assert moved(noise, exact, exact) == 0
    first = next(iter(exact))
    assert moved(noise, exact, {**exact, first: exact[first] + 10**6}) > 1
    assert moved(noise, exact, {name: exact[name] for name in list(exact)[1:]}) == FAR


def test_a_value_that_one_table_alone_has_may_be_shown_as_rarely_as_delta_says() -> None:
    """And one unit more of it is an excess, whatever the sums' own distance is."""
    spec, seller = open_case("discovery", "10"), Recorder(1)
    measured(spec, made_pair(spec, random.Random(1)).table, seller)
    noise, exact = seller.steps[0].mechanism.noise, seller.steps[0].mechanism.exact
    name = next(q.name for q in noise.questions if q.cells is None)
    mine = {**exact, name: Sums(np.array([1]), pa.array(["only Alice"], pa.large_string()))}
    nobody = {**exact, name: Sums(np.array([], np.int64), pa.array([], pa.large_string()))}
    assert moved(noise, nobody, mine) <= 1
    twice = {**exact, name: Sums(np.array([3]), pa.array(["only Alice"], pa.large_string()))}
    assert moved(noise, nobody, twice) > 1


def test_what_is_drawn_may_cost_no_more_than_the_spec_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event may hold what it claims, and all of them be more than was promised: here by a threshold one too low,
    whose event says so."""
    spec = open_case("discovery", "10")
    pair = made_pair(spec, random.Random(1))
    assert not replayed(spec, pair.table, pair.neighbour, 1).excesses
    told = threshold_for
    monkeypatch.setattr(mechanism, "threshold_for", lambda std, delta, unit: told(std, delta, unit) - 1)
    [excess] = replayed(spec, pair.table, pair.neighbour, 1).excesses
    assert "where 10 is declared" in excess


def test_noise_without_a_measure_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match=r"auditing/moves\.py"):
        moved(object(), np.zeros(1), np.zeros(1))


def _schema() -> pa.Schema:
    types = {"length": pa.float64(), "width": pa.float64(), "petals": pa.int64(), "seen": pa.date32()}
    return pa.schema({**types, "wild": pa.bool_(), "kind": pa.string(), "who": pa.int64()})
