"""Discovered domains: what a unit gives, from where on a value is shown, and tests that wrong noise or a wrong
threshold fail."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.discovery.tallied import Way, as_cells, by_tasks, duckdb_source, in_pieces, streamed
from tests.randomness import ReplayedWords, SeededWords
from understudy.pipelines.discovery.mechanism import DiscoveryNoise, Question, Sums, discovery_noise, shown_values
from understudy.pipelines.discovery.observing import Looking
from understudy.pipelines.discovery.tally import Asked
from understudy.pipelines.discovery.tallying import tally_table
from understudy.pipelines.discovery.thresholds import GRAIN, grain, spill, threshold_for, weights
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.curves import own_delta
from understudy.pipelines.privacy.events import Approximate, Gaussian
from understudy.pipelines.privacy.relation import Relation, Unit

OPEN = Question("0/values", None, 0.5, most=1000)
ALICE, FOUR = Unit(), Unit("who", 4)
UNITS = (ALICE, FOUR, Unit("who", 1))
ASKED = [Asked(Looking("x", None), ("values", "coarse", "fine")), Asked(Looking("y", "integer"), ("coarse",))]

Row = tuple[str | None, int]
row = st.tuples(st.sampled_from(["a", "b", "7", "2.5", "2014-05-01", "", None, "c" * 200]), st.integers(-3, 3))
tables = st.lists(st.lists(row, max_size=6), max_size=8)


def in_duckdb(table: pa.Table, asked: Sequence[Asked], unit: Unit) -> dict[str, Sums]:
    with tempfile.TemporaryDirectory() as folder:
        return tally_table(duckdb_source(table, Path(folder) / "t.duckdb"), asked, unit, b"key")


WAYS: dict[str, tuple[Way, int]] = {
    "one stream": (streamed, 30), "threads": (in_pieces, 30), "tasks of Dask": (by_tasks, 30),
    "an engine": (in_duckdb, 4),
}  # fmt: skip


def sums_of(units: Sequence[Sequence[Row]], unit: Unit, way: Way = streamed) -> dict[str, Sums]:
    held = [(who, *one) for who, rows in enumerate(units) for one in rows]
    table = pa.table({
        "who": pa.array([who for who, _, _ in held], pa.int64()),
        "x": pa.array([x for _, x, _ in held], pa.string()),
        "y": pa.array([y for _, _, y in held], pa.int64()),
    })  # fmt: skip
    return way(table, ASKED, unit)


@pytest.mark.parametrize("by", WAYS)
def test_neighbour_replay(by: str) -> None:
    """Cells that others hold too move by no more than S in all; a cell that one unit alone holds has its weight."""
    way, examples = WAYS[by]

    @settings(max_examples=examples, deadline=None)
    @given(tables, st.lists(row, min_size=1, max_size=6), st.lists(row, max_size=6), st.sampled_from(UNITS),
           st.sampled_from(Relation))  # fmt: skip
    def replayed(rest: list, mine: list, other: list, unit: Unit, relation: Relation) -> None:
        _replay(rest, mine, other, unit, relation, way)

    replayed()


def _replay(rest: list, mine: list, other: list, unit: Unit, relation: Relation, way: Way) -> None:
    if unit.entity is None:
        rest, mine, other = [rows[:1] for rows in rest], mine[:1], other[:1]
    neighbour = [*rest, other] if relation is Relation.REPLACE_ONE else rest
    common, with_me, without = (sums_of(each, unit, way) for each in (rest, [*rest, mine], neighbour))
    most = grain(unit) ** 2 * (2 if relation is Relation.REPLACE_ONE else 1)
    for name in with_me:
        before, after, shared = as_cells(without[name]), as_cells(with_me[name]), as_cells(common[name])
        opened = with_me[name].values is not None
        held = set(shared) if opened else set(before) | set(after)
        assert sum((after.get(cell, 0) - before.get(cell, 0)) ** 2 for cell in held) <= most
        new = [total for cell, total in after.items() if opened and cell not in shared]
        assert len(new) <= unit.max_rows
        assert all(total == weights(unit)[t] for total in new for t in [_touched(mine, unit, with_me[name], shared)])


def _touched(mine: Sequence[Row], unit: Unit, sums: Sums, shared: dict[str, int]) -> int:
    """How many different values the unit gave weight to: read off the largest weight that fits."""
    moved = [total - shared.get(cell, 0) for cell, total in as_cells(sums).items()]
    given_ = {amount for amount in moved if amount}
    assert len(given_) == 1  # every cell that it touches gets the same
    return int(np.flatnonzero(weights(unit) == given_.pop())[0])


def test_what_a_unit_gives_is_bounded_and_nearly_all() -> None:
    for k in (1, 2, 7, 1000):
        given_ = weights(Unit("who", k)).astype(object)
        for t in range(1, k + 1):
            assert t * int(given_[t]) ** 2 <= grain(Unit("who", k)) ** 2
            assert (int(given_[t]) + 1) ** 2 * t > grain(Unit("who", k)) ** 2
    assert weights(ALICE).tolist() == [0, 1]
    assert weights(FOUR).tolist() == [0, GRAIN, 46340, 37837, 32768]


@pytest.mark.parametrize("unit", [ALICE, FOUR, Unit("who", 50)])
@pytest.mark.parametrize("delta", [1e-5, 1e-7, 1e-12])
def test_the_threshold_spills_no_more_than_delta_and_one_less_would(unit: Unit, delta: float) -> None:
    std = 37.3 * grain(unit)
    threshold = threshold_for(std, delta, unit)
    assert exact_spill(threshold, std, unit) <= spill(threshold, std, unit) <= delta
    assert spill(threshold - 1, std, unit) > delta
    assert exact_spill(threshold, std, unit) > delta * (1 - 6 / 37.3)


def exact_spill(threshold: int, std: float, unit: Unit) -> float:
    """By mpmath, over all t, and as the probability that any of t values is shown, not its union bound."""
    with mpmath.workdps(50):
        worst = mpmath.mpf(0)
        for t in range(1, unit.max_rows + 1):
            weight = int(mpmath.floor(grain(unit) / mpmath.sqrt(t)))
            tail = mpmath.erfc((threshold - weight - mpmath.mpf("0.5")) / std / mpmath.sqrt(2)) / 2
            worst = max(worst, 1 - (1 - tail) ** t)
        return float(worst)


def test_golden_thresholds() -> None:
    """20 rows' noise at delta 1e-7: 1 + 1/2 + 5.1993 std, rounded up; of four values likewise where noise is small."""
    assert threshold_for(20.0, 1e-7, ALICE) == math.ceil(1.5 + 20 * 5.199337582)
    assert threshold_for(20.0 * GRAIN, 1e-7, FOUR) / GRAIN == pytest.approx(1 + 20 * 5.199337582, abs=5.6)
    assert threshold_for(0.3 * GRAIN, 1e-7, FOUR) / GRAIN == pytest.approx(1 + 0.3 * 5.199337582, abs=0.001)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("unit", [ALICE, FOUR])
def test_the_event_is_the_plan_and_costs_what_was_set_aside(relation: Relation, unit: Unit) -> None:
    questions = (OPEN, Question("1/coarse", 7, 0.3), Question("1/values", None, 0.2, 5))
    noise = discovery_noise(questions, 8.0, 1e-7, relation, unit)
    event = noise.event
    assert isinstance(event, Approximate)
    assert event.event == Gaussian(8.0)
    assert 0.5e-7 < float(own_delta(event)) <= 1e-7
    assert composed_loss([event], 1e-6, relation).epsilon < composed_loss([event], 2e-7, relation).epsilon
    fewer = discovery_noise(questions[1:2], 8.0, 1e-7, relation, unit)
    assert fewer.event == Gaussian(8.0)


def test_less_noise_or_a_lower_threshold_is_another_event() -> None:
    noise = discovery_noise((OPEN,), 8.0, 1e-7, Relation.ADD_REMOVE, FOUR)
    bent = replace(noise, stds=(math.nextafter(noise.stds[0], 0),))
    assert bent.event != noise.event
    assert noise.thresholds[0] is not None
    lower = replace(noise, thresholds=(noise.thresholds[0] - GRAIN,)).event
    assert isinstance(lower, Approximate)
    assert own_delta(lower) > own_delta(noise.event)
    assert float(own_delta(lower)) > 1e-7


def shown_share(noise: DiscoveryNoise, several: int, threshold_shift: int, people: int, seed: int) -> float:
    """How often any of the values is shown of a person who alone has `several` ones."""
    assert noise.thresholds[0] is not None
    count = people * several
    bent = replace(noise, thresholds=(noise.thresholds[0] + threshold_shift,), questions=(replace(OPEN, most=count),))
    names = pa.array([f"{i % people}" + "'" * (i // people) for i in range(count)], pa.large_string())
    alone = {OPEN.name: Sums(np.full(count, weights(noise.unit)[several], np.int64), names)}
    shown = shown_values(bent.draw(alone, SeededWords(seed)), OPEN.name)
    return len({name.rstrip("'") for name in shown}) / people


@pytest.mark.parametrize(("unit", "several"), [(ALICE, 1), (FOUR, 4), (FOUR, 1)])
def test_a_lone_value_appears_with_probability_at_most_delta(unit: Unit, several: int) -> None:
    """At delta 0.01, where it can be seen; a threshold one standard deviation too low or too high is caught."""
    noise = discovery_noise((OPEN,), 8.0, 0.01, Relation.ADD_REMOVE, unit)
    people = 100_000
    tolerance = 4 * math.sqrt(0.01 / people)
    found = shown_share(noise, several, 0, people, 1)
    assert found <= 0.01 + tolerance
    if (unit, several) == (FOUR, 1):
        return  # not the worst case: with so much noise that is who has four values
    assert found >= 0.008 - tolerance
    deviation = round(noise.stds[0])
    assert shown_share(noise, several, -deviation, people, 2) > 0.01 + 10 * tolerance
    assert shown_share(noise, several, deviation, people, 3) < 0.008 - 4 * tolerance


@pytest.mark.parametrize("scale", [0.95, 1.0, 1.05])
def test_the_noise_has_the_declared_scale_and_no_other(scale: float) -> None:
    question = Question("cells", 40_000, 1.0)
    noise = discovery_noise((question,), 300.0, 1e-7, Relation.ADD_REMOVE, ALICE)
    drawn_with = replace(noise, stds=(noise.stds[0] * scale,))
    zeros = {"cells": Sums(np.zeros(40_000, np.int64))}
    drawn = drawn_with.draw(zeros, SeededWords(5))["cells"] / noise.stds[0]
    accepted = abs(drawn.var() - 1) < 4 * math.sqrt(2 / 40_000)
    assert accepted == (scale == 1.0)


def test_what_is_not_shown_leaves_no_trace_and_order_is_not_that_of_rows() -> None:
    noise = discovery_noise((OPEN,), 3.0, 1e-7, Relation.ADD_REMOVE, ALICE)
    known = pa.array(["b", "a", "hapax"], pa.large_string())
    sums = Sums(np.array([1000, 1000, 1], np.int64), known)
    turned = Sums(np.array([1000, 1000], np.int64), pa.array(["a", "b"], pa.large_string()))

    class NoNoise:
        def words(self, count: int) -> np.ndarray:
            return np.full(count, 2**62, np.uint64)  # the same draw for each

    one, other = (noise.draw({OPEN.name: each}, NoNoise()) for each in (sums, turned))
    assert shown_values(one, OPEN.name).keys() == {"a", "b"}
    assert list(shown_values(one, OPEN.name)) == ["a", "b"]
    assert {name: array.tobytes() for name, array in one.items()} == {n: a.tobytes() for n, a in other.items()}


def test_draws_of_common_cells_do_not_depend_on_what_else_is_held() -> None:
    noise = discovery_noise((OPEN, Question("cells", 50, 0.5)), 3.0, 1e-7, Relation.ADD_REMOVE, ALICE)
    cells = Sums(np.arange(50))
    few = {OPEN.name: Sums(np.array([500]), pa.array(["a"], pa.large_string())), "cells": cells}
    more = {OPEN.name: Sums(np.array([500, 1]), pa.array(["a", "z"], pa.large_string())), "cells": cells}
    one, other = (noise.draw(each, ReplayedWords(4)) for each in (few, more))
    assert shown_values(one, OPEN.name) == shown_values(other, OPEN.name)
    assert one["cells"].tolist() == other["cells"].tolist()


def test_at_most_so_many_values_are_kept_the_most_frequent_ones() -> None:
    noise = discovery_noise((replace(OPEN, most=3),), 5.0, 1e-7, Relation.ADD_REMOVE, ALICE)
    names = [f"v{i}" for i in range(10)]
    sums = Sums(np.arange(10) * 10_000, pa.array(names, pa.large_string()))
    assert list(shown_values(noise.draw({OPEN.name: sums}, SeededWords(3)), OPEN.name)) == ["v9", "v8", "v7"]


def test_no_value_at_all_is_an_answer() -> None:
    noise = discovery_noise((OPEN,), 5.0, 1e-7, Relation.ADD_REMOVE, ALICE)
    nothing = Sums(np.zeros(0, np.int64), pa.array([], pa.large_string()))
    assert shown_values(noise.draw({OPEN.name: nothing}, SeededWords(3)), OPEN.name) == {}
