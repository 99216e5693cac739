"""Rules between tables hold in every generated row: of codes by how rows are made, of values within their bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.tree.released_trees import made_tree, released_from
from tests.trees import FLAT, clinic, domains_of
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.tree.generating.decoding import decode_flat, decode_tree
from understudy.pipelines.methods.tree.generating.generate import generate_tree
from understudy.pipelines.methods.tree.generating.tables import generate_flat, generate_tables
from understudy.pipelines.methods.tree.generating.tree_codes import TreeCodes
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tree_checks import tree_breaches, tree_checks
from understudy.pipelines.table.tree_rules import TreeRule, rows_breaking, tree_rules

QUICK = PrivPGDConfig(epochs=1, device="cpu")
YEAR = {"min": "2020-01-01", "max": "2020-12-31"}


def dated(**drugs: Any) -> ReleaseSpec:
    """Patients are born, visits begin and end, drugs are given: dates of three tables, in bins that overlap."""
    born = {"type": "date", "min": "2015-01-01", "max": "2020-12-31", "bins": 3, "nullable": True}
    visits = {
        "visited_on": {"type": "date", **YEAR, "bins": "quarter"},
        "left_on": {"type": "date", **YEAR, "bins": 5, "nullable": True},
    }
    given_on = {"type": "date", "min": "2020-01-01", "max": "2021-06-30", "bins": 7}
    return clinic(
        patients={"columns": {"born": born, "sex": {"type": "category", "values": ["f", "m"]}}},
        visits={"columns": visits},
        drugs={"columns": {"given_on": given_on, "drug": {"type": "category", "values": ["x", "y"]}}, **drugs},
    )


ORDERS = [
    ("patients.born", "visits.visited_on"),
    ("visits.visited_on", "visits.left_on"),
    ("visits.visited_on", "drugs.given_on"),
    ("patients.born", "drugs.given_on"),
]


def held(spec: ReleaseSpec, released_roots: int, seed: int) -> dict[str, int]:
    """Rows of a generated copy that break each rule, beside those that a copy without rules has."""
    domains, rng = domains_of(spec), np.random.default_rng(seed)
    assert spec.tree is not None
    released = released_from(made_tree(spec, released_roots, rng), spec, 2.0, rng)
    made = generate_tables(released, spec, None, np.random.SeedSequence(seed))
    tables = {name: each.table for name, each in made.tables.items()}
    assert tree_breaches(tables, tree_checks(spec.tree)) == []
    rules = tree_rules(spec.generate.rules, spec.tree, domains)
    return {str(rule.rule): rows_breaking(rule, tables, spec.tree, domains) for rule in rules if rule.rule is not None}


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(ORDERS), min_size=1, max_size=4, unique=True), st.integers(0, 2**32), st.booleans())
def test_values_of_different_tables_come_in_order(orders: list[Any], seed: int, drugs_in_order: bool) -> None:
    spec = dated(**({"order_by": "given_on"} if drugs_in_order else {}))
    ruled = spec.model_copy(update={"generate": spec.generate.model_copy(update={"rules": rules(orders)})})
    assert set(held(ruled, 120, seed).values()) == {0}


def rules(orders: list[tuple[str, str]]) -> Any:
    return clinic(generate={"rules": [{"order": list(pair)} for pair in orders]}).generate.rules


def test_without_the_rules_the_same_copy_has_rows_in_the_wrong_order() -> None:
    spec, rng = dated(), np.random.default_rng(2)
    domains = domains_of(spec)
    assert spec.tree is not None
    released = released_from(made_tree(spec, 200, rng), spec)
    made = decode_tree(generate_tree(released, domains, 200, np.random.SeedSequence(3), QUICK), spec.tree, domains, rng)
    tables = {name: each.table for name, each in made.tables.items()}
    asked = tree_rules(rules(ORDERS), spec.tree, domains)
    assert all(rows_breaking(rule, tables, spec.tree, domains) > 10 for rule in asked if rule.rule is not None)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.2, 0.9))
def test_codes_obey_whatever_is_allowed_beside_the_rows_above(seed: int, share: float) -> None:
    spec, rng = clinic(), np.random.default_rng(seed)
    domains = domains_of(spec)
    assert spec.tree is not None
    released = released_from(made_tree(spec, 80, rng), spec, 1.0, rng)
    places = [
        (("patients", 0), ("visits", 0), ("visits", 1)),
        (("drugs", 0), ("visits", 0)),
        (("patients", 1), ("drugs", 0)),
    ]
    asked = [TreeRule(None, lowest, where, _some(domains, where, share, rng)) for lowest, where in
             zip(("visits", "drugs", "drugs"), places, strict=True)]  # fmt: skip
    made = generate_tree(released, domains, 80, np.random.SeedSequence(seed), QUICK, asked)
    for rule in asked:
        assert _allowed(made, rule, spec).all()
    for child, parent in (("visits", "patients"), ("drugs", "visits")):
        assert made.parent[child].max(initial=-1) < made.rows(parent)


def test_a_child_that_nothing_allows_is_left_out() -> None:
    spec, rng = clinic(), np.random.default_rng(4)
    domains = domains_of(spec)
    assert spec.tree is not None
    released = released_from(made_tree(spec, 80, rng), spec)
    allowed = np.ones((2, domains["visits"].sizes[0]), dtype=bool)
    allowed[1] = False
    rule = TreeRule(None, "visits", (("patients", 0), ("visits", 0)), allowed)
    made = generate_tree(released, domains, 80, np.random.SeedSequence(5), QUICK, [rule])
    assert _allowed(made, rule, spec).all()
    assert (
        0 < made.rows("visits") < generate_tree(released, domains, 80, np.random.SeedSequence(5), QUICK).rows("visits")
    )
    tables = {name: each.table for name, each in decode_tree(made, spec.tree, domains, rng).tables.items()}
    assert tree_breaches(tables, tree_checks(spec.tree)) == []


def test_a_flat_table_that_keeps_entities_obeys_its_rules() -> None:
    born = {"type": "date", "min": "2019-01-01", "max": "2020-12-31", "bins": 2}
    given_rules = [{"order": ["born", "on"]}, {"forbid": {"sex": ["m"], "ward": ["b"]}}]
    told = {**FLAT, "columns": {**FLAT["columns"], "born": born}, "generate": {"rules": given_rules}}
    told["privacy"] = {**FLAT["privacy"], "unit": {**FLAT["privacy"]["unit"], "columns": ["sex", "born"]}}
    spec = ReleaseSpec.model_validate(told)
    domains, rng = domains_of(spec), np.random.default_rng(6)
    assert spec.tree is not None
    released = released_from(made_tree(spec, 150, rng), spec)
    whole = TableDomain.of(spec)
    free = decode_flat(
        generate_tree(released, domains, 150, np.random.SeedSequence(7), QUICK), spec.tree, domains, whole, rng
    ).table
    assert pc.sum(pc.greater(free["born"], free["on"])).as_py() > 10
    kept = generate_flat(released, spec, whole, 150, np.random.SeedSequence(7)).table
    assert kept.num_rows > 150
    assert pc.sum(pc.greater(kept["born"], kept["on"])).as_py() == 0
    assert pc.sum(pc.and_(pc.equal(kept["sex"], "m"), pc.equal(kept["ward"], "b"))).as_py() == 0


def _some(domains: dict[str, TableDomain], where: Any, share: float, rng: np.random.Generator) -> np.ndarray:
    shape = tuple(domains[table].sizes[column] for table, column in where)
    allowed = rng.random(shape) < share
    allowed[(slice(None),) * (len(shape) - 1) + (0,)] = True
    return allowed


def _allowed(made: TreeCodes, rule: TreeRule, spec: ReleaseSpec) -> np.ndarray:
    assert spec.tree is not None
    codes = [made.codes[table][made.ancestors(rule.table, table, spec.tree), c] for table, c in rule.places]
    return np.asarray(rule.allowed[tuple(codes)])


def test_measured_numbers_hardly_change_by_a_rule_that_the_table_keeps() -> None:
    spec, rng = clinic(), np.random.default_rng(8)
    domains = domains_of(spec)
    assert spec.tree is not None
    table = made_tree(spec, 2_000, rng)
    broken = table.codes["visits"][:, 0] == 2
    table.codes["visits"][broken & (table.codes["patients"][table.parent["visits"], 0] == 1), 0] = 0
    released = released_from(table, spec)
    allowed = np.ones((2, domains["visits"].sizes[0]), dtype=bool)
    allowed[1, 2] = False
    rule = TreeRule(None, "visits", (("patients", 0), ("visits", 0)), allowed)
    found = generate_tree(released, domains, None, np.random.SeedSequence(9), QUICK, [rule])
    seen, wanted = (
        np.histogram2d(each.codes["patients"][each.parent["visits"], 0], each.codes["visits"][:, 0], bins=(2, 4))[0]
        for each in (found, table)
    )
    assert seen[1, 2] == 0
    assert np.abs(seen / seen.sum() - wanted / wanted.sum()).sum() / 2 == pytest.approx(0, abs=0.02)
