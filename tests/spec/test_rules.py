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
