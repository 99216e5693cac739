"""Rules between a table and those above it: what they are read as, and what is refused because it cannot be kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.trees import clinic, domains_of, flat
from understudy.pipelines.errors import SpecError
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.spec.rules import Rule
from understudy.pipelines.table.tree_rules import TreeRule, in_order, rows_breaking, tree_rules

BORN = {"type": "date", "min": "1990-01-01", "max": "2020-12-31", "bins": 4}
GIVEN = {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "bins": "quarter"}
PATIENTS = {"columns": {"born": BORN, "sex": {"type": "category", "values": ["f", "m"]}}}
DRUGS = {"columns": {"drug": {"type": "category", "values": ["x", "y"]}, "given_on": GIVEN}}


def rules_of(*rules: dict[str, Any]) -> tuple[TreeRule, ...]:
    spec = clinic(patients=PATIENTS, drugs=DRUGS, generate={"rules": list(rules)})
    assert spec.tree is not None
    return tree_rules(spec.generate.rules, spec.tree, domains_of(spec))


def test_a_rule_is_one_of_the_rows_of_the_lowest_table_that_it_names() -> None:
    [rule] = rules_of({"forbid": {"drugs.drug": ["x"], "patients.sex": ["m"]}})
    assert rule.table == "drugs"
    assert rule.places == (("drugs", 0), ("patients", 1))
    assert rule.allowed.tolist() == [[True, False], [True, True]]


def test_an_order_of_dates_allows_the_bins_in_which_it_can_hold() -> None:
    [rule] = rules_of({"order": ["patients.born", "visits.visited_on"]})
    assert rule.order == (("patients", 0), ("visits", 1))
    assert rule.allowed.all()  # the last bin of births begins before the first visits end
    [rule] = rules_of({"order": ["visits.visited_on", "drugs.given_on"]})
    assert np.array_equal(rule.allowed, np.triu(np.ones((4, 4), dtype=bool)))


def test_what_follows_from_two_orders_is_asked_of_bins_too() -> None:
    first = {"order": ["patients.born", "visits.visited_on"]}
    direct, other, followed = rules_of(first, {"order": ["visits.visited_on", "drugs.given_on"]})
    assert direct.rule is not None
    assert other.rule is not None
    assert followed.rule is None
    assert followed.order == (("patients", 0), ("drugs", 1))
    assert in_order([each.order for each in (other, direct) if each.order]) == [
        ("patients", 0), ("visits", 1), ("drugs", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{"order": ["born", "visits.visited_on"]}], "'born', which is no modelled column of a table; say it as"),
        ([{"order": ["patients.born", "visits.left_on"]}], "'visits.left_on', which is no modelled column"),
        ([{"order": ["patients.sex", "visits.visited_on"]}], r"cannot order 'patients.sex' \(category\)"),
        ([{"forbid": {"visits.ward": ["z"]}}], "visits.ward has no value z"),
        ([{"order": ["visits.visited_on", "drugs.given_on"]}, {"order": ["drugs.given_on", "visits.visited_on"]}],
         "in a circle"),
        ([{"order": ["visits.visited_on", "patients.born"]}, {"order": ["patients.born", "drugs.given_on"]}],
         "all rows below would have to leave room"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_kept_is_refused_before_anything_is_paid(rules: list[Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        plan_release(clinic(patients=PATIENTS, drugs=DRUGS, generate={"rules": rules}))


def test_tables_of_which_none_lies_below_the_others_have_no_rule_in_common() -> None:
    beside = {"parent": {"table": "patients", "by": "patient_id"}}
    spec = clinic(drugs=beside, generate={"rules": [{"forbid": {"drugs.drug": ["x"], "visits.ward": ["a"]}}]})
    with pytest.raises(SpecError, match="no table of drugs, visits lies below all the others"):
        plan_release(spec)


def test_a_flat_table_that_keeps_entities_has_rules_by_the_names_of_columns() -> None:
    spec = flat()
    assert spec.tree is not None
    rule = Rule.model_validate({"if": {"sex": ["m"]}, "then": {"ward": ["a"]}})
    [found] = tree_rules([rule], spec.tree, domains_of(spec))
    assert found.table == "rows"
    assert found.places == (("entities", 0), ("rows", 0)) or found.places == (("rows", 0), ("entities", 0))


def test_rows_that_break_a_rule_are_counted_beside_the_rows_above_them() -> None:
    spec = clinic(patients=PATIENTS, drugs=DRUGS)
    assert spec.tree is not None
    domains = domains_of(spec)
    [rule] = rules_of({"forbid": {"drugs.drug": ["x"], "patients.sex": ["m"]}})
    tables = {
        "patients": pa.table({"patient_id": [5, 6], "born": pa.nulls(2, pa.date32()), "sex": ["f", "m"]}),
        "visits": pa.table({"visit_id": [1, 2, 3], "patient_id": [6, 5, 6]}),
        "drugs": pa.table({"visit_id": [1, 2, 3, 3], "drug": ["x", "x", "y", "x"]}),
    }
    assert rows_breaking(rule, tables, spec.tree, domains) == 2
