"""Parts, lapses and derived columns: taken apart and put together, row by row, exact in every published row."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.table.coding.strategies import domain_of
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.expressions import Expression
from understudy.pipelines.spec.reading import load_spec, spec_of
from understudy.pipelines.table.checks import breaches, checks_of
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.coding.encode import encode, encode_column
from understudy.pipelines.table.contract import contract_of
from understudy.pipelines.table.finishing import finished
from understudy.pipelines.table.modelled import modelled, names_to_read
from understudy.pipelines.table.synthetic import Synthetic

TAXI = {
    "pickup": {
        "type": "datetime", "min": "2026-01-05", "max": "2026-03-29T23:59:59", "bins": "week",
        "parts": ["date", "hour", "weekday"], "nullable": True,
    },
    "dropoff": {"type": "datetime", "after": "pickup", "up_to": "6h", "nullable": True},
    "fare": {"type": "number", "min": 0, "max": 200, "decimals": 2},
    "tip": {"type": "number", "min": 0, "max": 50, "decimals": 2, "spikes": [0]},
    "zip": {"type": "category", "values": ["10001", "10002", "11201"], "nullable": True},
    "total": {"derive": "fare + tip"},
    "rate": {"derive": "round(tip / fare, 3)"},
    "place": {"derive": 'concat(zip, "/", year(pickup))'},
    "minutes": {"derive": "minutes(dropoff - pickup)", "decimals": 1},
    "borough": {"from": "zip", "table": {"10001": "Manhattan", "10002": "Manhattan", "11201": "Brooklyn"}},
}  # fmt: skip
DOMAIN = domain_of(TAXI)


def published(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in DOMAIN.sizes], axis=1)
    return finished(decode(codes, DOMAIN, rng), DOMAIN, rng=rng)


def test_the_parts_are_columns_of_their_own_and_the_whole_is_published():
    assert DOMAIN.names == ("pickup.date", "pickup.hour", "pickup.weekday", "dropoff", "fare", "tip", "zip")
    assert published(10, 0).column_names == list(TAXI)
    assert names_to_read(["pickup.hour", "dropoff", "who"], DOMAIN) == ["pickup", "dropoff", "who"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.datetimes(dt.datetime(2026, 1, 5), dt.datetime(2026, 3, 29))),
            st.integers(-10_000, 30_000),
        ),
        max_size=12,
    ),
    st.integers(0, 11),
)
def test_rows_are_taken_apart_one_by_one(rows, place):
    starts = [start for start, _ in rows]
    ends = [None if start is None else start + dt.timedelta(seconds=lapse) for start, lapse in rows]
    table = pa.table({"pickup": pa.array(starts, pa.timestamp("us")), "dropoff": pa.array(ends, pa.timestamp("us"))})
    names = ["pickup.date", "pickup.hour", "pickup.weekday", "dropoff"]
    found = modelled(table, DOMAIN, names).to_pylist()
    for (start, lapse), row in zip(rows, found, strict=True):
        if start is None:
            assert set(row.values()) == {None}
            continue
        assert (row["pickup.date"], row["pickup.hour"]) == (start.date(), start.hour)
        assert row["pickup.weekday"] == start.weekday()
        assert row["dropoff"] == lapse
        clipped, seconds = min(max(lapse, 0), 6 * 3600), DOMAIN.lapses[0].seconds
        coded = encode_column(pa.array([row["dropoff"], clipped], pa.float64()), seconds)
        assert coded[0] == coded[1]
    if rows:
        row = place % len(rows)
        assert modelled(table.slice(row, 1), DOMAIN, names).to_pylist() == [found[row]]


@pytest.mark.parametrize("values", [["2026-02-30", "x", None, ""], [None, None, None, None], ["9999-12-31"] * 4])
def test_taking_apart_is_total(values):
    table = pa.table({"pickup": pa.array(values, pa.string()), "dropoff": pa.array(values[::-1], pa.string())})
    assert modelled(table, DOMAIN, ["pickup.hour", "dropoff"]).num_rows == 4


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_put_together_is_taken_apart_again(seed):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, 200) for size in DOMAIN.sizes], axis=1)
    table = finished(decode(codes, DOMAIN, rng), DOMAIN, rng=rng)
    found = np.stack(Synthetic(table, DOMAIN).codes.columns, axis=1)
    whole = codes[:, 0] != DOMAIN.columns[0].null_code
    known = whole & (codes[:, 1] < 24) & (codes[:, 2] < 7)
    assert (found[known, :3] == codes[known, :3]).all()
    assert (found[whole, 3] == codes[whole, 3]).all()
    assert (found[:, 4:] == codes[:, 4:]).all()


def test_weekday_and_date_agree_in_every_row():
    domain = domain_of({"seen": {**TAXI["pickup"], "nullable": False, "bins": "month"}})
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, size, 5000) for size in domain.sizes], axis=1)
    moments = finished(decode(codes, domain, rng), domain, rng=rng).column("seen").to_pylist()
    assert all(moment.weekday() == code for moment, code in zip(moments, codes[:, 2], strict=True))
    assert all(moment.hour == code for moment, code in zip(moments, codes[:, 1], strict=True))
    assert {moment.month for moment in moments} == {1, 2, 3}


def test_no_moment_lies_before_the_one_it_follows():
    rows = published(3000, 1).to_pylist()
    pairs = [(row["pickup"], row["dropoff"]) for row in rows if row["dropoff"] is not None]
    assert all(start is not None and start <= end <= start + dt.timedelta(hours=6) for start, end in pairs)
    assert len(pairs) > 2000


def test_a_total_is_the_sum_of_its_parts_to_the_cent():
    for row in published(3000, 2).to_pylist():
        parts = [Decimal(str(row["fare"])), Decimal(str(row["tip"]))]
        assert Decimal(str(row["total"])) == sum(parts)
        if row["fare"]:
            assert row["rate"] == pytest.approx(row["tip"] / row["fare"], abs=5.1e-4)
        else:
            assert row["rate"] is None
        assert row["borough"] == {"11201": "Brooklyn", None: None}.get(row["zip"], "Manhattan")
        if row["zip"] and row["pickup"]:
            assert row["place"] == f"{row['zip']}/2026"
        if row["dropoff"]:
            assert row["minutes"] == pytest.approx((row["dropoff"] - row["pickup"]).total_seconds() / 60, abs=0.051)


def test_the_contract_finds_a_wrong_sum_a_wrong_order_and_a_wrong_word():
    checks, table = checks_of(contract_of(DOMAIN, None)), published(50, 4)
    assert breaches(table, checks) == []

    def broken(name: str, value: object) -> list[str]:
        values = table.column(name).to_pylist()
        place = next(i for i, each in enumerate(values) if each is not None)
        values[place] = value
        column = pa.array(values, table.schema.field(name).type)
        return [
            str(check) for check in breaches(table.set_column(table.column_names.index(name), name, column), checks)
        ]

    assert broken("total", 9999.0) == ["total: is not what it is derived from"]
    assert "dropoff: does not follow pickup" in broken("dropoff", dt.datetime(2020, 1, 1))
    assert broken("borough", "Queens") == ["borough: is not what it is derived from"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 10**4), st.integers(1, 50)), min_size=1, max_size=5)
)
def test_exact_arithmetic_is_that_of_decimals(rows):
    from understudy.pipelines.table.composed import Made
    from understudy.pipelines.table.derived import derive

    table = pa.table({
        "a": [a / 100 for a, _, _ in rows], "b": [b / 1000 for _, b, _ in rows], "n": [n for _, _, n in rows],
    })  # fmt: skip
    places = (("a", 2), ("b", 3))
    found = derive(Made("x", Expression("a * n - b + 0.1"), None, places), table).to_pylist()
    for (a, b, n), value in zip(rows, found, strict=True):
        exact = Decimal(a) / 100 * n - Decimal(b) / 1000 + Decimal("0.1")
        assert value == float(exact)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "a.b", "a[0]", "lambda: 1", "a if b else c", "a ** 9", "exec(a)", "a +", "1e400",
             "f(a)", "round(a, n)", "column(a)", "[a]", "a and b", "True", "a @ b", "(" * 300, "a" * 600],
)  # fmt: skip
def test_an_expression_says_nothing_but_what_it_may(text):
    with pytest.raises(ValueError, match=r"expression|round|column|operand"):
        Expression(text)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"total": {"derive": "fare + gone"}}, "no published column"),
        ({"total": {"derive": "rate + fare"}}, "derived after it"),
        ({"dropoff": {"type": "datetime", "after": "fare", "up_to": "6h"}}, "no datetime"),
        ({"dropoff": {"type": "datetime", "after": "pickup", "up_to": "6h"}}, "nullable too"),
        ({"dropoff": {"type": "datetime", "after": "pickup", "up_to": "soon"}}, "6h"),
        ({"borough": {"from": "fare", "table": {"1": "a"}}}, "no category"),
        ({"pickup.hour": {"type": "boolean"}}, "rename one"),
        ({"pickup": {**TAXI["pickup"], "parts": ["hour"]}}, "at least one"),
        ({"pickup": {**TAXI["pickup"], "bins": "day"}}, "know their weekday"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words(changed, words):
    with pytest.raises(ValidationError, match=words):
        domain_of({**TAXI, **changed})


def test_derived_columns_are_not_measured_and_leave_the_hash_alone(tmp_path: Path):
    from tests.docs.test_documents import REST_OF_A_SPEC

    columns = {name: column for name, column in TAXI.items() if "type" in column}
    plain, made = (spec_of({**REST_OF_A_SPEC, "columns": each}) for each in (columns, TAXI))
    assert plain.hash == made.hash
    assert encode(modelled(published(5, 0), DOMAIN, DOMAIN.names), DOMAIN).rows == 5


def test_a_lookup_may_lie_in_a_file_beside_the_spec(tmp_path: Path):
    (tmp_path / "regions.csv").write_text("zip,region,more\n1,North,x\n2,South,y\n3,East,z\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "name: t\nsource: {uri: t.parquet, snapshot: s}\nprivacy: {account: a, epsilon: 1, delta: 1e-6}\n"
        "columns:\n  zip: {type: category, values: ['1', '2']}\n  region: {from: zip, table: regions.csv}\n"
        "publish: {to: out}\n"
    )
    read = load_spec(spec)
    assert read.columns["region"].table == {"1": "North", "2": "South"}  # type: ignore[union-attr]
    spec.write_text(spec.read_text().replace("region:", "area:"))
    with pytest.raises(SpecError, match="no column 'area'"):
        load_spec(spec)
