"""What was found becomes a column: from exact sums with noise of a known size, whatever the column holds."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.randomness import SeededWords
from tests.table.coding.strategies import arrays
from understudy.pipelines.discovery.closing import LEFT_OUT, Sizes, closed_column, kind_of
from understudy.pipelines.discovery.found import Found, found_of
from understudy.pipelines.discovery.grid import COARSE_CELLS, FINE_CELLS
from understudy.pipelines.discovery.mechanism import Question, discovery_noise
from understudy.pipelines.discovery.observing import Looking
from understudy.pipelines.discovery.rules import CLOSINGS, VERSION, Rules
from understudy.pipelines.discovery.sizing import LEAST_BINS, MOST_BINS, affordable_bins
from understudy.pipelines.discovery.tally import Asked
from understudy.pipelines.discovery.tallying import tally_table
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.relation import Relation, Unit
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.spec.derived import Column
from understudy.pipelines.spec.open import OpenColumn, opened

ROWS = 20_000
SIZES = Sizes(20, 160)
ANY = {"type": "discover"}
COLUMN: TypeAdapter[Any] = TypeAdapter(Column)
QUESTIONS = (
    Question("units", 1, 0.1), Question("0/values", None, 1.0, 1000), Question("0/coarse", COARSE_CELLS, 1.0),
    Question("0/fine", FINE_CELLS, 1.0),
)  # fmt: skip


def found(
    values: Any, multiplier: float = 5.0, seed: int = 1, kind: Any = None, rules: Rules = CLOSINGS[VERSION]
) -> Found:
    table = pa.table({"x": values})
    noise = discovery_noise(QUESTIONS, multiplier, 1e-7, Relation.ADD_REMOVE, Unit())
    sums = tally_table(ArrowSource(table), [Asked(Looking("x", kind), ("values", "coarse", "fine"))], Unit(), b"k")
    stds = {question.name: std for question, std in zip(QUESTIONS, noise.stds, strict=True)}
    return found_of(Measurement("domain", {"grain": 1, "stds": stds}, noise.draw(sums, SeededWords(seed))), 0, rules)


def column(declared: dict[str, Any]) -> OpenColumn:
    return OpenColumn.model_validate(opened(declared))


def closed(values: Any, declared: dict[str, Any] = ANY, **more: Any) -> Any:
    one = column(declared)
    body = closed_column(one, found(values, kind=one.kind, **more), SIZES)
    return COLUMN.validate_python(body)


rng = np.random.default_rng(7)
AGES = rng.integers(18, 80, ROWS)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([str(age) for age in AGES], "integer"),
        (AGES, "integer"),
        ([f"{amount:.2f}" for amount in rng.gamma(2, 30, ROWS)], "number"),
        (rng.normal(size=ROWS), "number"),
        ([("yes", "no", "maybe")[i % 3] for i in range(ROWS)], "category"),
        (np.arange(ROWS) % 2 == 0, "category"),
        ([str(dt.date(2020, 1, 1) + dt.timedelta(days=i % 900)) for i in range(ROWS)], "date"),
        ([f"2021-{i % 12 + 1:02d}-03 {i % 24:02d}:15:00" for i in range(ROWS)], "datetime"),
        ([("250.83", "V27", "401", "E885")[min(i % 8, 3)] for i in range(ROWS)], "category"),
        ([f"{age}" if age % 50 else "?" for age in AGES], "integer"),
        ([f"note number {i}" for i in range(ROWS)], "category"),
        ([None] * ROWS, None),
        ([], None),
    ],
)
def test_what_kind_a_column_is(values: Any, kind: str | None) -> None:
    typed = pa.array(values, pa.string()) if isinstance(values, list) else pa.array(values)
    assert kind_of(column(ANY), found(typed)) == kind


def test_free_text_and_what_drowns_are_left_out() -> None:
    assert closed([f"note number {i}" for i in range(ROWS)]).model_dump() == LEFT_OUT
    assert closed(["a", "b"]).model_dump() == LEFT_OUT


def test_a_number_whose_other_values_drown_is_kept_as_what_many_share() -> None:
    one = closed(["0"] * (ROWS - 20) + ["5"] * 20)
    assert (one.type, one.values, one.other) == ("category", ("0",), True)


def test_values_are_listed_by_how_many_share_them_and_other_is_kept() -> None:
    words = ["b"] * 9000 + [" a "] * 5000 + ["other"] * 2000 + ["rare"] * 3
    one = closed(words, {"type": "category", "values": ["c"], "more": "discover", "nullable": True})
    assert one.values == ("c", "b", "a")
    assert one.other
    assert one.nullable
    assert one.trim


def test_values_that_differ_by_case_alone_are_one_where_the_spec_says_so() -> None:
    one = closed(
        ["Yes"] * 6000 + ["yes"] * 5000 + ["no"] * 4000, {"type": "category", "values": "discover", "case": "ignore"}
    )
    assert len(one.values) == 2


def test_bounds_hold_nearly_all_values_and_are_not_far_off() -> None:
    one = closed(AGES, {"type": "integer", "min": "discover", "max": "discover"})
    assert 10 <= one.min <= 18
    assert 79 <= one.max <= 100
    assert one.bins == 32
    half = closed(AGES, {"type": "integer", "min": "discover", "max": 60})
    assert half.max == 60
    below = closed(-AGES, {"type": "integer", "min": "discover", "max": "discover"})
    assert -100 <= below.min <= -79
    assert -18 <= below.max <= 0


def test_quantiles_have_about_as_many_rows_each() -> None:
    incomes = np.round(rng.lognormal(10, 1, ROWS), 2)
    one = closed(incomes, {"type": "number", "min": "discover", "max": "discover", "bins": "quantiles"})
    shares = np.histogram(incomes, bins=one.bins)[0] / ROWS
    assert len(one.bins) > 10
    assert shares.max() < 0.2
    assert shares.sum() > 0.98


def test_spikes_are_values_that_stand_out() -> None:
    paid = np.where(rng.random(ROWS) < 0.4, 9.99, np.round(rng.gamma(2, 40, ROWS), 2))
    one = closed(paid, {"type": "number", "min": 0, "max": 1000, "bins": 8, "spikes": "discover"})
    assert one.spikes == (9.99,)
    assert one.bins == 8
    hours = np.where(rng.random(ROWS) < 0.5, 40, rng.integers(1, 100, ROWS))
    assert closed(hours).spikes == (40,)
    assert closed(AGES).spikes == ()
    bounded = {"type": "integer", "min": 0, "max": 120, "spikes": "discover"}
    assert closed(AGES, bounded).spikes == ()
    assert closed(hours, bounded).spikes == (40,)


def test_missing_values_make_a_column_nullable_and_none_do_not() -> None:
    some = [None if i % 5 == 0 else str(age) for i, age in enumerate(AGES)]
    assert closed(pa.array(some)).nullable
    assert not closed(AGES).nullable
    unreadable = ["x" if i % 20 == 0 else str(age) for i, age in enumerate(AGES)]
    assert closed(unreadable).nullable  # or they would count as the lowest value


BOUNDS = ({"type": kind, "min": "discover", "max": "discover"} for kind in ("integer", "number", "date", "datetime"))
declarations = st.sampled_from([ANY, *BOUNDS, {"type": "category", "values": "discover"}])


@settings(max_examples=150, deadline=None)
@given(arrays, declarations, st.integers(0, 2**31))
def test_whatever_is_found_a_spec_can_say(values: pa.Array, declared: dict[str, Any], seed: int) -> None:
    """Closing comes after paying: no noise and no data may make it fail."""
    many = pa.concat_arrays([values] * 200) if len(values) else values
    one = column(declared)
    for multiplier in (0.05, 20.0):
        COLUMN.validate_python(closed_column(one, found(many, multiplier, seed, one.kind), SIZES))


def test_more_rows_and_less_noise_afford_more_bins_within_limits() -> None:
    assert affordable_bins(10, 100, 50) == LEAST_BINS
    assert affordable_bins(1_000, 5, 10) < affordable_bins(100_000, 5, 10)
    assert affordable_bins(100_000, 50, 10) < affordable_bins(100_000, 5, 10)
    assert affordable_bins(100_000, 5, 40) < affordable_bins(100_000, 5, 10)
    assert affordable_bins(10**9, 1, 2) == MOST_BINS
    assert affordable_bins(48_842, 4.7, 15) == 40  # Adult at epsilon 1


@settings(max_examples=150, deadline=None)
@given(declarations, st.integers(0, 2**31), st.sampled_from([0.0, 0.01, 0.5, 0.999]), st.booleans())
def test_not_even_noise_beyond_belief_makes_closing_fail(
    declared: dict[str, Any], seed: int, empty: float, spread: bool
) -> None:
    """Any cells may be occupied: the far ends of the grid, alone or together, with values that are numbers or none."""
    chance = np.random.default_rng(seed)
    coarse = np.where(chance.random(COARSE_CELLS) < empty, 0.0, chance.normal(size=COARSE_CELLS) * 1e4)
    fine = chance.normal(size=FINE_CELLS) * (1e4 if spread else 1.0)
    texts = ["0", "-0.0", "1e300", "9007199254740993", "1", "1.0000000001", "a", "A1", "other", "2014-05-01", "9" * 90]
    values = {text: float(chance.random() * 1e5) for text in texts if chance.random() < 0.5}
    seen = Found(1e5, 1.0, dict(sorted(values.items(), key=lambda one: -one[1])), coarse, 1.0, fine, 1.0)
    COLUMN.validate_python(closed_column(column(declared), seen, SIZES))
