"""Specs of several tables: what they say, and what is refused with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prefect.utilities.collections import visit_collection
from pydantic import ValidationError

from tests.trees import CLINIC, clinic, flat
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.public_files import PublicFiles
from understudy.pipelines.table.domain import TableDomain


def refused(**changes: Any) -> str:
    with pytest.raises(ValidationError) as told:
        clinic(**changes)
    return str(told.value)


def test_tables_are_a_tree_whose_parents_come_first_however_they_are_listed():
    tree = clinic().tree
    assert tree is not None
    assert tree.names == ("patients", "visits", "drugs")
    turned = ReleaseSpec.model_validate({**CLINIC, "tables": dict(reversed(CLINIC["tables"].items()))}).tree
    assert turned is not None
    assert turned.names == tree.names
    assert tree.root.name == "patients"
    assert [table.name for table in tree.above("drugs")] == ["visits", "patients"]
    assert [table.name for table in tree.children("patients")] == ["visits"]
    assert (tree.most_rows("patients"), tree.most_rows("visits"), tree.most_rows("drugs")) == (1, 3, 6)


def test_one_table_is_a_flat_spec_with_its_own_source_and_fresh_keys():
    spec = clinic(visits={"source": {"uri": "visits.csv"}})
    visits, drugs = spec.table("visits"), spec.table("drugs")
    assert visits.source.uri == "visits.csv"
    assert visits.source.table is None
    assert visits.source.snapshot == "2026-01"
    assert (drugs.source.uri, drugs.source.table) == ("duckdb:///clinic.duckdb", "drugs")
    assert list(visits.columns) == ["visit_id", "patient_id", "ward", "visited_on"]
    assert TableDomain.of(visits).surrogates == ("visit_id", "patient_id")
    assert TableDomain.of(drugs).surrogates == ("visit_id",)
    assert visits.privacy.unit.entity is None


def test_the_unit_is_the_root_named_or_left_out():
    named = clinic(privacy={**CLINIC["privacy"], "unit": "patients"})
    assert named.privacy.unit.entity == clinic().privacy.unit.entity == "patients"
    assert named.hash == clinic().hash
    assert "is the root, patients" in refused(privacy={**CLINIC["privacy"], "unit": "visits"})


def test_a_spec_of_tables_survives_being_written_down():
    spec = clinic()
    again = ReleaseSpec.model_validate(spec.model_dump(mode="json", by_alias=True))
    assert again == spec
    assert again.hash == spec.hash


def test_an_orchestrator_can_look_through_the_spec():
    """Prefect makes a dictionary of every part of a flow's parameters."""
    spec = clinic()
    assert spec.tables is not None
    assert dict(spec.tables["visits"])["max_rows"] == 3
    looked = visit_collection(spec, visit_fn=lambda part: part, return_data=True)
    assert looked == spec


def test_the_hash_knows_what_is_measured_and_nothing_else():
    spec = clinic()
    assert clinic(visits={"max_rows": 4}).hash != spec.hash
    assert clinic(visits={"share": 0.5}).hash != spec.hash
    assert clinic(drugs={"source": {"table": "drugs", "external": True}}).hash == spec.hash
    columns = CLINIC["tables"]["patients"]["columns"]
    assert clinic(patients={"columns": dict(reversed(columns.items()))}).hash != spec.hash


def test_a_table_of_two_parents_is_refused_with_the_reason():
    assert "would count for two people" in refused(drugs={"parent": [{"table": "visits", "by": "visit_id"}]})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"visits": {"parent": {"table": "nobody", "by": "x"}}}, "is no table of the spec"),
        ({"visits": {"parent": {"table": "drugs", "by": "x"}}, "drugs": {"key": "drug_id"}}, "round in a circle"),
        ({"visits": {"parent": None, "max_rows": None, "order_by": None}}, "2 tables have no parent"),
        ({"visits": {"key": None}}, "the key is missing by which drugs"),
        ({"visits": {"max_rows": None}}, "max_rows is missing"),
        ({"visits": {"max_rows": 90_000}}, "lower max_rows"),
        ({"visits": {"order_by": "ward"}}, "no date, datetime or number"),
        ({"visits": {"key": "patient_id"}}, "key and parent.by are one column"),
        ({"visits": {"share": 0.6}, "drugs": {"share": 0.6}}, "leave nothing of the budget"),
        ({"drugs": {"columns": {"visit_id": {"type": "integer", "min": 0, "max": 9}}}}, "cannot be modelled"),
        ({"drugs": {"columns": {}}}, "no column is modelled"),
        ({"columns": {"a": {"type": "boolean"}}}, "drop `columns`"),
        ({"method": {"name": "gaussian"}}, "by the method privpgd only"),
        ({"source": {**CLINIC["source"], "table": "patients"}}, "source.table is of one table"),
        ({"rolling": {"period": "month", "column": "visited_on"}}, "rolling.column is of one table"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_reason(changes: dict[str, Any], reason: str):
    assert reason in refused(**changes)


def test_the_roots_address_stands_for_the_releases():
    spec = clinic(source={"snapshot": "s"}, patients={"source": {"uri": "a.csv"}}, visits={"source": {"uri": "b.csv"}})
    assert spec.source.uri == "a.csv"
    assert spec.table("visits").source.uri == "b.csv"


def test_a_flat_table_that_keeps_entities_is_a_tree_of_two():
    spec = flat()
    assert spec.tree is not None
    assert spec.tree.is_implied
    assert spec.tree.most_rows("rows") == 4
    assert list(spec.table("entities").columns) == ["patient_id", "sex"]
    assert list(spec.table("rows").columns) == ["patient_id", "ward", "on"]
    assert flat(columns=[], order_by=None).tree is None
    for unit, reason in (
        ({"columns": ["sex", "ward", "on"], "order_by": None}, "no column of their own"),
        ({"columns": ["nobody"]}, "no modelled column"),
        ({"order_by": "sex"}, "no date, datetime or number"),
        ({"entity": None, "max_rows": 1}, "name its column"),
    ):
        with pytest.raises(ValidationError, match=reason):
            flat(**unit)


def test_a_public_list_must_not_be_any_of_the_private_tables(tmp_path: Path):
    (tmp_path / "b.csv").write_text("ward\nsecret\n")
    tree = {"source": {"uri": "a.csv"}, "tables": {"visits": {"source": {"uri": "b.csv"}}}}
    with pytest.raises(SpecError, match="private table"):
        PublicFiles.of(tree, tmp_path).text("b.csv", "values")
