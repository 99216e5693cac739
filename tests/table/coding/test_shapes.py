"""Spikes, scales, steps and slopes: value -> code -> value stays within what was declared, row by row."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.table.coding.strategies import domain_of
from understudy.pipelines.table.coding.decode import decode, decode_column
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.coding.placing import spread, tilted, tilts
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.scales import Scale


def column_of(**declared) -> DomainColumn:
    return domain_of({"x": declared}).columns[0]


def back(values, column: DomainColumn, type_: pa.DataType, seed: int = 0) -> tuple[np.ndarray, list]:
    codes = encode_column(pa.array(values, type_), column)
    return codes, decode_column(codes, column, np.random.default_rng(seed)).to_pylist()


@st.composite
def number_columns(draw):
    scale = draw(st.sampled_from(["linear", "log", "ratio", "signed"]))
    low = draw(st.integers(1, 5000)) / 100 if scale == "ratio" else draw(st.integers(-5000, 5000)) / 100
    high = low + draw(st.integers(100, 10**7)) / 100
    spikes = draw(st.lists(st.sampled_from([0.0, low, high, (low + high) / 2, -999.0, 1e9]), unique=True, max_size=4))
    bins = draw(st.one_of(st.integers(1, 60), st.just([low, low + (high - low) / 3, high])))
    step = draw(st.sampled_from([None, 0.25, 0.01, 5.0]))
    declared = {"type": "number", "min": low, "max": high, "bins": bins, "scale": scale, "spikes": spikes}
    return column_of(**declared, **({} if step is None else {"step": step})), spikes, step


@settings(max_examples=150, deadline=None)
@given(number_columns(), st.lists(st.floats(-1e4, 1e6), max_size=30), st.integers(0, 2**32))
def test_a_number_comes_back_within_its_bin_and_a_spike_as_it_is(given_column, values, seed):
    column, spikes, step = given_column
    low, high = column.declared_span
    values = [*values, *spikes, low, high]
    codes, found = back(values, column, pa.float64(), seed)
    lows, highs = column.intervals()
    for value, code, got in zip(values, codes, found, strict=True):
        if value in spikes:
            assert got == value
            assert code in [place for place, _ in column.spikes]
        elif not column.is_spike[code]:
            slack = step or 0.0
            assert lows[code] - slack <= got <= highs[code] + slack
            if low <= value <= high:
                assert abs(got - value) <= highs[code] - lows[code] + slack + 1e-9 * abs(value)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(-(10**5), 10**5), st.integers(1, 10**6), st.integers(1, 80),
    st.sampled_from(["linear", "log", "signed"]),
    st.lists(st.integers(-(10**6), 2 * 10**6), unique=True, max_size=5), st.integers(0, 2**32),
)  # fmt: skip
def test_a_whole_number_comes_back_within_its_bin_and_a_spike_as_it_is(low, span, bins, scale, spikes, seed):
    column = column_of(type="integer", min=low, max=low + span, bins=bins, scale=scale, spikes=spikes)
    values = [*spikes, *(spike + 1 for spike in spikes), low, low + span, low + span // 2]
    codes, found = back(values, column, pa.int64(), seed)
    lows, highs = column.intervals()
    for value, code, got in zip(values, codes, found, strict=True):
        if value in spikes:
            assert got == value
        elif low <= value <= low + span:
            assert lows[code] <= value < highs[code]
            assert lows[code] <= got < highs[code]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.datetimes(dt.datetime(2026, 1, 1), dt.datetime(2026, 3, 1)), max_size=20), st.integers(0, 2**32),
       st.sampled_from(["hour", "day", "week", 9]), st.sampled_from([None, "second", "hour", "day"]))  # fmt: skip
def test_a_moment_comes_back_within_its_bin_at_its_resolution(moments, seed, bins, resolution):
    given = {} if resolution is None else {"resolution": resolution}
    never = dt.datetime(9999, 12, 31)
    column = column_of(
        type="datetime", min="2026-01-01", max="2026-03-01", bins=bins, spikes=["9999-12-31"], nullable=True, **given
    )
    values = [*moments, never, None]
    codes, found = back(values, column, pa.timestamp("us"), seed)
    lows, highs = column.intervals()
    unit = int(column.step)
    assert found[-2:] == [never, None]
    for code, got in zip(codes[:-2], found[:-2], strict=True):
        whole = (got - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
        assert lows[code] <= whole < highs[code]
        assert whole % unit == 0 or whole == lows[code]


@settings(max_examples=60, deadline=None)
@given(number_columns(), st.lists(st.one_of(st.none(), st.floats()), max_size=20), st.integers(0, 19))
def test_the_code_of_a_row_depends_on_that_row_alone(given_column, values, place):
    column = given_column[0]
    together = encode_column(pa.array(values, pa.float64()), column)
    if values:
        row = place % len(values)
        assert encode_column(pa.array([values[row]], pa.float64()), column)[0] == together[row]


def test_days_that_mean_something_else_are_spikes():
    column = column_of(
        type="date", min="2020-01-01", max="2020-12-31", bins="month", spikes=["1900-01-01", "9999-12-31"]
    )
    values = [dt.date(1900, 1, 1), dt.date(2020, 5, 5), dt.date(9999, 12, 31), dt.date(2021, 5, 1), dt.date(1950, 1, 1)]
    _, found = back(values, column, pa.date32())
    assert (found[0], found[2]) == (values[0], values[2])
    assert [(day.year, day.month) for day in (found[1], found[3], found[4])] == [(2020, 5), (2020, 12), (2020, 1)]


def test_zero_is_published_as_often_as_it_was_counted():
    rng = np.random.default_rng(1)
    tips = np.where(rng.random(20_000) < 0.37, 0.0, np.round(rng.gamma(2, 2, 20_000), 2) + 0.01)
    column = column_of(type="number", min=0, max=100, bins=40, decimals=2, spikes=[0])
    _, found = back(tips, column, pa.float64())
    assert np.mean(np.array(found) == 0) == np.mean(tips == 0)


def test_a_spike_holds_what_four_bytes_make_of_it_and_nothing_else():
    column = column_of(type="number", min=0, max=1, bins=4, spikes=[0.1])
    codes = encode_column(pa.array([0.1, float(np.float32(0.1)), 0.1001, 0.0999], pa.float64()), column)
    assert codes[0] == codes[1] != codes[2] != codes[3]


def test_bins_may_be_listed():
    column = column_of(type="integer", bins=[0, 1, 5, 20, 100])
    assert column.edges == (0, 1, 5, 20, 101)
    assert encode_column(pa.array([0, 1, 4, 5, 19, 20, 100, 500]), column).tolist() == [0, 1, 1, 2, 2, 3, 3, 3]
    assert column_of(type="number", bins=[0.5, 2, 10]).edges == (0.5, 2.0, 10.0)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"type": "number", "min": 0, "max": 5, "scale": "ratio"}, "above 0"),
        ({"type": "integer", "bins": [0, 5, 5, 9]}, "rise"),
        ({"type": "integer", "bins": [0, 5, 9], "max": 10}, "begin at min"),
        ({"type": "number", "min": 0, "max": 5, "spikes": [0, 0]}, "more than once"),
        ({"type": "number", "min": 0, "max": 5, "spikes": [1, 1.0000001]}, "too close"),
        ({"type": "number", "min": 0, "max": 5, "step": 0.25, "decimals": 2}, "`step` or `decimals`"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_in_words(declared, words):
    with pytest.raises(ValidationError, match=words):
        column_of(**declared)


def test_the_ratio_scale_is_a_true_logarithm_and_log_is_what_it_was():
    """With `log` and min 1000 half of the bins lie below 2,000 (issue 18); with `ratio` a ninth of them does."""
    ratio = np.array(column_of(type="number", min=1000, max=500_000, bins=36, scale="ratio").edges)
    assert np.allclose(ratio[1:] / ratio[:-1], 500 ** (1 / 36))
    log = np.array(column_of(type="number", min=1000, max=500_000, bins=36, scale="log").edges)
    assert (log < 2000).sum() > 18
    assert (ratio < 2000).sum() == 5


def test_the_signed_scale_has_zero_between_two_bins_and_widens_both_ways():
    edges = np.array(column_of(type="integer", min=-20_000, max=1_000_000, bins=40, scale="signed").edges)
    assert 0 in edges
    assert (np.diff(np.diff(edges[edges >= 0]))[:-1] >= 0).all()
    assert (np.diff(np.diff(edges[edges <= 0])) <= 0).all()


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["linear", "log", "ratio", "signed"]), st.floats(0.01, 1e4), st.floats(0.01, 1e6), st.floats(0, 1)
)
def test_a_scale_leads_there_and_back(name, low, span, share):
    low = low if name == "ratio" else low - 5000
    scale = Scale(name, low, low + span)
    value = np.array([low + share * span])
    assert np.allclose(scale.backward(scale.forward(value)), value, rtol=1e-9, atol=1e-6 * span)


def test_values_follow_the_slope_of_the_neighbouring_bins():
    """Exponential amounts in few bins: a staircase misses the distribution by 0.037, the slopes by a third of it."""
    rng = np.random.default_rng(2)
    real = np.sort(np.minimum(rng.exponential(10, 60_000), 79.99))
    column = column_of(type="number", min=0, max=80, bins=8)
    codes, found = back(real, column, pa.float64())
    placed = np.sort(np.array(found))
    lows, highs = column.intervals()
    flat = np.sort(rng.uniform(lows[codes], highs[codes]))
    grid = np.linspace(0, 80, 400)

    def distance(values: np.ndarray) -> float:
        return float(np.abs(np.searchsorted(values, grid) - np.searchsorted(real, grid)).max() / len(real))

    assert distance(placed) < 0.45 * distance(flat)
    assert (encode_column(pa.array(found), column) == codes).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 500), min_size=1, max_size=30), st.integers(0, 2**32))
def test_no_bin_gains_or_loses_a_row_whatever_its_neighbours(counts, seed):
    column = column_of(type="number", min=0, max=30, bins=len(counts), spikes=[7.5])
    codes = np.repeat(np.arange(column.value_codes), np.resize(counts, column.value_codes))
    found = tilts(codes, column)
    assert (np.abs(found) <= 1).all()
    assert not found[column.is_spike].any()
    values = decode_column(codes, column, np.random.default_rng(seed))
    assert (encode_column(values, column) == codes).all()


def test_a_tilt_is_drawn_as_it_says():
    share = (np.arange(200_000) + 0.5) / 200_000
    for tilt in (-1.0, -0.4, 0.0, 0.4, 1.0):
        drawn = tilted(share, np.full(len(share), tilt))
        assert abs(drawn.mean() - (0.5 + tilt / 6)) < 1e-4
        assert ((drawn >= 0) & (drawn < 1)).all()


def test_steps_are_kept_and_every_one_of_them_is_drawn():
    domain = domain_of({"x": {"type": "number", "min": 0, "max": 4, "bins": 2, "step": 0.25}})
    found = decode(np.repeat([[0], [1]], 20_000, axis=0), domain, np.random.default_rng(0)).column("x").to_numpy()
    values, counts = np.unique(found, return_counts=True)
    assert values[:16].tolist() == [k / 4 for k in range(16)]
    assert np.abs(counts[:8] / 20_000 - 1 / 8).max() < 0.015


def test_days_are_published_as_days_where_days_were_measured():
    column = column_of(type="datetime", min="2026-01-01", max="2026-02-01", bins="day")
    _, found = back([dt.datetime(2026, 1, 5, 17, 3)], column, pa.timestamp("us"))
    assert found == [dt.datetime(2026, 1, 5)]


def test_of_the_values_of_a_bin_one_lies_in_each_of_as_many_parts() -> None:
    """So that quantiles scatter by what was measured and not, as those of a sample do, by how values were drawn."""
    rng = np.random.default_rng(3)
    codes = rng.permutation(np.repeat([0, 1, 2, 5], [1000, 1, 77, 3]))
    shares = spread(codes, rng)
    for code in np.unique(codes):
        its = np.sort(shares[codes == code])
        assert np.array_equal(np.floor(its * len(its)), np.arange(len(its)))
    first = shares[codes == 0]
    assert abs(np.corrcoef(first, np.arange(len(first)))[0, 1]) < 0.15  # and chance decides whose
    assert len(spread(np.zeros(0, np.int64), rng)) == 0
    many = spread(np.full(5, 70_000), rng)  # codes that two bytes do not hold
    assert np.array_equal(np.floor(np.sort(many) * 5), np.arange(5))
