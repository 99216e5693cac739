from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.coding.strategies import DOMAIN, domain_of
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.coding.encode import encode


def _random_codes(rows: int, seed: int, domain=DOMAIN) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, rows) for size in domain.sizes], axis=1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.integers(0, 2**32))
def test_encoding_a_decoded_table_gives_the_codes_back(rows, seed):
    codes = _random_codes(rows, seed)
    table = decode(codes, DOMAIN, np.random.default_rng(seed))
    found = np.stack(encode(table, DOMAIN).columns, axis=1)
    assert (found == codes).all()


@settings(max_examples=100, deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.integers(1, 60),
    st.sampled_from(["linear", "log"]),
    st.integers(0, 2**32),
)
def test_numbers_of_any_bounds_come_back(low, span, bins, scale, seed):
    domain = domain_of({"x": {"type": "number", "min": low, "max": low + span, "bins": bins, "scale": scale}})
    edges = np.array(domain.columns[0].edges)
    codes = np.flatnonzero(np.diff(edges) > 0).repeat(5).reshape(-1, 1)
    table = decode(codes, domain, np.random.default_rng(seed))
    assert (encode(table, domain).columns[0] == codes[:, 0]).all()


@settings(max_examples=150, deadline=None)
@given(
    st.integers(-(10**4), 10**4),
    st.integers(1, 10**5),
    st.integers(1, 50),
    st.integers(0, 4),
    st.integers(0, 2**32),
)
def test_rounding_to_decimals_stays_in_the_bounds_and_in_the_bin_if_it_can(low, span, bins, decimals, seed):
    low, high = low / 100, (low + span) / 100
    domain = domain_of({"x": {"type": "number", "min": low, "max": high, "bins": bins, "decimals": decimals}})
    codes = np.repeat(np.arange(bins), 4).reshape(-1, 1)
    values = decode(codes, domain, np.random.default_rng(seed)).column("x").to_numpy()
    assert ((values >= low) & (values <= high)).all()
    grid = 10**decimals
    if np.floor(high * grid) > np.ceil(low * grid):
        assert (values == np.round(values, decimals)).all()
    if (high - low) / bins > 1.01 / grid:
        assert (encode(pa.table({"x": values}), domain).columns[0] == codes[:, 0]).all()


def test_types_are_the_columns_own():
    table = decode(_random_codes(50, 1), DOMAIN, np.random.default_rng(1))
    assert {name: str(table.schema.field(name).type) for name in DOMAIN.names} == {
        "age": "int64", "small": "int64", "income": "int64", "charge": "double", "ratio": "double",
        "price": "double",
        "visited": "date32[day]", "weekly": "date32[day]", "seen": "timestamp[us]", "hourly": "timestamp[us]",
        "sex": "string", "ward": "string", "rank": "int64", "coin": "int64", "flag": "bool", "yes": "bool",
    }  # fmt: skip


def test_values_respect_the_declared_bounds():
    table = decode(_random_codes(5000, 2), DOMAIN, np.random.default_rng(2)).to_pydict()
    assert (min(table["age"]), max(table["age"])) == (0, 110)
    assert all(x is None or -10 <= x <= 2**53 for x in table["income"])
    assert all(dt.date(2024, 2, 27) <= day <= dt.date(2026, 12, 31) for day in table["visited"])
    assert all(m is None or dt.datetime(2026, 1, 1, 6, 30) <= m <= dt.datetime(2026, 3, 1) for m in table["seen"])
    assert set(table["ward"]) == {"A", "B", "true", "2026-01-01", "1.5", "other", None}
    assert set(table["coin"]) == {0, 1, None}


def test_values_are_uniform_within_a_bin_on_the_columns_scale_where_its_neighbour_is_as_full():
    domain = domain_of(
        {
            "x": {"type": "number", "min": 0, "max": 10, "bins": 2},
            "y": {"type": "number", "min": 1, "max": 1 + np.expm1(4.0), "bins": 2, "scale": "log"},
            "k": {"type": "integer", "min": 0, "max": 9, "bins": 2},
        }
    )
    codes = np.repeat([[0] * 3, [1] * 3], 40_000, axis=0)
    table = decode(codes, domain, np.random.default_rng(3))
    x, y, k = (table.column(name).to_numpy()[40_000:] for name in "xyk")
    for share in ((x - 5) / 5, (np.log1p(y - 1) - 2) / 2):
        assert np.abs(np.quantile(share, [0.1, 0.5, 0.9]) - [0.1, 0.5, 0.9]).max() < 0.02
    assert np.abs(np.bincount(k)[5:] / 40_000 - 0.2).max() < 0.02


def test_surrogates_are_fresh_ids():
    domain = domain_of({"id": {"type": "identifier", "action": "surrogate"}, "yes": {"type": "boolean"}})
    table = decode(np.zeros((3, 1), int), domain, np.random.default_rng(0))
    assert table.to_pydict() == {"id": [1, 2, 3], "yes": [False] * 3}


def test_codes_outside_the_domain_are_refused():
    domain = domain_of({"yes": {"type": "boolean"}})
    with pytest.raises(ValueError, match="'yes' must lie between 0 and 1"):
        decode(np.array([[2]]), domain, np.random.default_rng(0))
    with pytest.raises(ValueError, match="2 columns of codes"):
        decode(np.zeros((1, 2), int), domain, np.random.default_rng(0))
