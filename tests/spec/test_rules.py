"""Rules hold for every value that the allowed codes can be decoded to, and broken rows are found."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.spec.rules import Rule
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.finishing import finished
from understudy.pipelines.table.rules import allowed_cells, broken_rows, keep_order

SPEC = """
name: stays
source: {uri: stays.parquet, snapshot: "1"}
privacy: {account: a, epsilon: 1, delta: 1e-6}
columns:
  age: {type: integer, min: 0, max: 99, bins: 7}
  married: {type: category, values: [no, yes], nullable: true}
  smoker: {type: boolean}
  admitted: {type: date, min: 2026-01-01, max: 2026-06-30, bins: month, nullable: true}
  discharged: {type: date, min: 2026-01-01, max: 2026-06-30, bins: 11}
publish: {to: out}
""".replace("[no, yes]", "['no', 'yes']")
DOMAIN = TableDomain.of(parse_spec(SPEC))

RULES = [
    {"if": {"age": {"max": 14}}, "then": {"married": ["no"]}},
    {"forbid": {"smoker": [True], "age": {"max": 9}}},
    {"order": ["admitted", "discharged"]},
    {"if": {"married": [None]}, "then": {"age": {"min": 20, "max": 90}}},
    {"if": {"admitted": {"min": dt.date(2026, 5, 1)}}, "then": {"smoker": [False]}},
]


def rows_of(rule: Rule, seed: int, rows: int = 400) -> tuple[np.ndarray, pa.Table]:
    """Random codes that the rule's cells allow, decoded, with orders kept."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, 20 * rows) for size in DOMAIN.sizes], axis=1)
    columns, allowed = allowed_cells(rule, DOMAIN)
    codes = codes[allowed[tuple(codes[:, c] for c in columns)]][:rows]
    assert len(codes) == rows
    return codes, keep_order(decode(codes, DOMAIN, rng), codes, [rule], DOMAIN, rng)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(RULES), st.integers(0, 2**32))
def test_allowed_codes_never_decode_to_a_broken_row(stated: dict, seed: int) -> None:
    rule = Rule.model_validate(stated)
    _, table = rows_of(rule, seed)
    assert not broken_rows(rule, table, DOMAIN).any()


@pytest.mark.parametrize("stated", RULES)
def test_rules_forbid_something_and_broken_rows_are_found(stated: dict) -> None:
    rule = Rule.model_validate(stated)
    _, allowed = allowed_cells(rule, DOMAIN)
    assert allowed.any()
    assert not allowed.all()
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 3000) for size in DOMAIN.sizes], axis=1)
    assert broken_rows(rule, decode(codes, DOMAIN, rng), DOMAIN).any()


def test_order_is_kept_within_one_bin_without_leaving_it() -> None:
    rule = Rule.model_validate({"order": ["admitted", "discharged"]})
    codes, table = rows_of(rule, 5)
    from understudy.pipelines.table.coding.encode import encode

    assert np.array_equal(np.stack(encode(table, DOMAIN).columns, axis=1), codes)


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"forbid": {"nobody": [1]}}, "nobody"),
        ({"forbid": {"married": ["maybe"]}}, "maybe"),
        ({"forbid": {"married": {"min": 1}}}, "no range"),
        ({"forbid": {"age": [3]}}, "bins"),
        ({"order": ["age", "married"]}, "cannot order"),
        ({"order": ["age", "admitted"]}, "cannot order"),
    ],
)
def test_impossible_rules_are_refused(stated: dict, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        allowed_cells(Rule.model_validate(stated), DOMAIN)


@pytest.mark.parametrize(
    "stated",
    [
        "{}",
        "{if: {age: {max: 3}}}",
        "{forbid: {age: {max: 3}}, order: [age, age]}",
        "{order: [age]}",
        "{forbidden: {}}",
    ],
)
def test_a_rule_is_of_one_kind(stated: str) -> None:
    with pytest.raises(SpecError, match=r"generate\.rules"):
        parse_spec(SPEC + f"generate: {{rules: [{stated}]}}\n")


def test_rules_change_nothing_that_is_measured() -> None:
    with_rule = parse_spec(SPEC + "generate: {rules: [{order: [admitted, discharged]}]}\n")
    assert with_rule.hash == parse_spec(SPEC).hash
    with pytest.raises(SpecError, match="privpgd only"):
        parse_spec(SPEC + "generate: {rules: [{order: [admitted, discharged]}]}\nmethod: {name: gaussian}\n")


KEPT = """
name: typed
source: {uri: typed.parquet, snapshot: "1"}
privacy: {account: a, epsilon: 1, delta: 1e-6}
columns:
  seen: {type: datetime, min: 2026-01-01, max: 2026-06-30, bins: month, nullable: true}
  day: {type: date, min: 2026-01-01, max: 2026-06-30, bins: month}
  smoker: {type: boolean, nullable: true}
  grade: {type: category, values: ["1", "2.5"]}
publish: {to: out}
"""
IN_TYPES = [
    {},
    {"seen": "timestamp[s]", "day": "date32[day]", "smoker": "int8", "grade": "double"},
    {"seen": "timestamp[ns, tz=Europe/Berlin]", "day": "timestamp[ms]", "smoker": "bool", "grade": "enum"},
]


@pytest.mark.parametrize("types", IN_TYPES, ids=["plain", "narrow", "zoned"])
@pytest.mark.parametrize(
    "stated",
    [{"if": {"grade": ["1"]}, "then": {"smoker": [True, None]}},
     {"forbid": {"seen": {"min": dt.datetime(2026, 3, 1)}, "smoker": [True]}},
     {"forbid": {"seen": {"min": dt.date(2026, 3, 1)}, "day": {"max": dt.datetime(2026, 3, 31, 12)}}},
     {"if": {"seen": [None]}, "then": {"grade": ["2.5"]}}],
    ids=["words", "moments", "days", "null"],
)  # fmt: skip
def test_rules_are_judged_alike_in_whatever_type_a_table_is_published(types: dict[str, str], stated: dict) -> None:
    domain = TableDomain.of(parse_spec(KEPT))
    rule = Rule.model_validate(stated)
    assert (
        broken_rows(Rule.model_validate(rule.model_dump(mode="json")), *_kept(domain, {})).tolist()
        == broken_rows(rule, *_kept(domain, {})).tolist()
    )  # as it is read back from a measurement
    columns, allowed = allowed_cells(rule, domain)
    for codes, broken in ((_drawn(domain), True), (_drawn(domain), False)):
        chosen = allowed[tuple(codes[:, c] for c in columns)] != broken
        table = finished(decode(codes[chosen], domain, np.random.default_rng(0)), domain, types)
        found = broken_rows(rule, table, domain)
        assert found.any() == broken
        assert table.num_rows > 50


def _drawn(domain: TableDomain) -> np.ndarray:
    rng = np.random.default_rng(2)
    return np.stack([rng.integers(0, size, 2000) for size in domain.sizes], axis=1)


def _kept(domain: TableDomain, types: dict[str, str]) -> tuple[pa.Table, TableDomain]:
    return finished(decode(_drawn(domain), domain, np.random.default_rng(0)), domain, types), domain


@pytest.mark.parametrize(
    "stated", [{"forbid": {"seen": {"min": 5}}}, {"forbid": {"age": {"max": dt.date(2026, 1, 1)}}}]
)
def test_a_range_is_in_the_units_of_its_column(stated: dict) -> None:
    domain = TableDomain.of(parse_spec(KEPT.replace("  day:", "  age: {type: integer, min: 0, max: 9}\n  day:")))
    with pytest.raises(SpecError, match="range in"):
        allowed_cells(Rule.model_validate(stated), domain)
