"""Contracts of five kinds, told apart by their content, and what each says about a column."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from understudy.pipelines.drafting.contracts.reading import contract_facts, is_contract
from understudy.pipelines.drafting.declared import declared_facts
from understudy.pipelines.drafting.draft import Choices, draft_table
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts
from understudy.pipelines.drafting.writing import written
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec

ODCS = """\
apiVersion: v3.1.0
kind: DataContract
id: 4c1d5a2e
version: 1.0.0
status: active
servers:
  - {server: lake, type: local, path: data/visits.parquet, format: parquet}
schema:
  - name: visits
    physicalName: visits
    description: One visit each
    properties:
      - {name: visit_id, logicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true, unique: true}
      - {name: patient_id, logicalType: string, required: true, relationships: [{to: patients.id}]}
      - {name: age, logicalType: integer, required: true, logicalTypeOptions: {minimum: 0, exclusiveMaximum: 121}}
      - name: ward
        logicalType: string
        examples: [SECRET]
        quality: [{type: library, metric: invalidValues, arguments: {validValues: [A, B]}, mustBe: 0}]
      - {name: state, logicalType: string, enum: [{value: open}, {value: closed}]}
      - {name: seen, logicalType: date, physicalType: timestamp, logicalTypeOptions: {minimum: "2020-01-01"}}
      - {name: contact, logicalType: string, logicalTypeOptions: {format: email}}
      - {name: vitals, logicalType: object}
"""

DBT = """\
version: 2
models:
  - name: visits
    description: One visit each
    columns:
      - {name: visit_id, data_type: bigint, constraints: [{type: primary_key}]}
      - name: patient_id
        data_tests: [not_null, {relationships: {arguments: {to: ref('patients'), field: id}}}]
      - name: ward
        description: Where the patient lay
        tests:
          - not_null
          - accepted_values: {values: [A, B], severity: warn}
      - name: state
        data_tests: [{accepted_values: {arguments: {values: [1, 2, 3], quote: false}}}]
      - name: age
        data_type: integer
        tests: [{dbt_utils.accepted_range: {min_value: 0, max_value: 120, inclusive: true}}]
      - name: stay
        data_type: integer
        constraints: [{type: check, expression: "stay >= 0 and stay < 400"}]
      - {name: noted, data_type: varchar, tests: [some_package.some_test]}
  - name: other
    columns: [{name: x}]
"""

JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "array",
    "items": {"$ref": "#/$defs/visit"},
    "$defs": {
        "ward": {"enum": ["A", "B"]},
        "visit": {
            "type": "object",
            "required": ["age", "ward", "weight"],
            "properties": {
                "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 121, "description": "in years"},
                "ward": {"$ref": "#/$defs/ward"},
                "weight": {"type": ["number", "null"], "minimum": 0, "maximum": 300},
                "seen": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
                "contact": {"type": "string", "format": "email", "examples": ["SECRET"]},
                "smoker": {"type": "boolean"},
            },
        },
    },
}

FRICTIONLESS: dict[str, Any] = {
    "name": "clinic",
    "resources": [
        {
            "name": "visits",
            "path": "data/visits.csv",
            "schema": {
                "fields": [
                    {"name": "id", "type": "integer"},
                    {"name": "patient", "type": "string", "constraints": {"required": True}},
                    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": "120"}},
                    {"name": "ward", "type": "string", "constraints": {"enum": ["A", "B"], "required": True}},
                    {"name": "state", "type": "integer", "categories": [{"value": 0, "label": "new"}, {"value": 1}]},
                    {"name": "contact", "type": "string", "format": "email"},
                ],
                "primaryKey": ["id"],
                "foreignKeys": [{"fields": "patient", "reference": {"resource": "patients", "fields": "id"}}],
            },
        }
    ],
}

SDV: dict[str, Any] = {
    "METADATA_SPEC_VERSION": "V1",
    "tables": {
        "visits": {
            "primary_key": "id",
            "columns": {
                "id": {"sdtype": "id"},
                "patient_id": {"sdtype": "id"},
                "age": {"sdtype": "numerical", "computer_representation": "Int64"},
                "ward": {"sdtype": "categorical"},
                "seen": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
                "contact": {"sdtype": "email", "pii": True},
                "smoker": {"sdtype": "boolean"},
            },
        }
    },
    "relationships": [
        {"parent_table_name": "patients", "child_table_name": "visits", "child_foreign_key": "patient_id"}
    ],
}


def columns(facts: TableFacts) -> dict[str, ColumnFacts]:
    return {column.name: column for column in facts.columns}


def save(folder: Path, name: str, tree: dict[str, Any] | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    return path


def spec_from(facts: TableFacts, uri: str = "visits.csv") -> ReleaseSpec:
    choices = Choices(None, 1, Decimal(1), Decimal("1e-6"), "visits")
    text = written(draft_table(facts, "visits", choices, dt.date(2026, 11, 18)))
    return parse_spec(text.replace("FILL-IN", uri))


def test_an_odcs_contract(tmp_path: Path) -> None:
    facts = declared_facts(str(save(tmp_path, "contract.odcs.yaml", ODCS)), None, (), tmp_path)
    found = columns(facts)
    assert facts.uri == "data/visits.parquet"
    assert facts.comment == "One visit each"
    assert found["visit_id"].primary
    assert found["patient_id"].references == "patients"
    assert (found["age"].low, found["age"].high, found["age"].nullable) == (0, 120, False)
    assert found["ward"].values == ("A", "B")
    assert found["state"].values == ("open", "closed")
    assert (found["seen"].kind, found["seen"].low) == ("datetime", dt.date(2020, 1, 1))
    told = spec_from(facts).columns
    assert told["contact"].type == told["vitals"].type == "text"
    assert told["seen"].type == "datetime"
    assert told["ward"].model_dump()["other"], "a quality rule lets other values pass into the table"


def test_an_odcs_server_that_is_a_database_becomes_an_address_without_a_secret(tmp_path: Path) -> None:
    server = "{server: w, type: postgres, host: db.example.org, port: 5433, database: clinic, schema: care}"
    text = ODCS.replace("{server: lake, type: local, path: data/visits.parquet, format: parquet}", server)
    facts = declared_facts(str(save(tmp_path, "contract.yaml", text)), None, (), tmp_path)
    assert (facts.uri, facts.table) == ("postgresql://db.example.org:5433/clinic", "care.visits")


def test_a_dbt_project_about_a_table(tmp_path: Path) -> None:
    save(tmp_path, "project/dbt_project.yml", "name: clinic\nversion: 1.0.0\n")
    save(tmp_path, "project/models/marts/schema.yml", DBT)
    save(tmp_path, "project/target/schema.yml", DBT.replace("[A, B]", "[COMPILED]"))
    save(tmp_path, "project/models/sources.yml", "sources: [{name: raw, tables: [{name: raw_visits}]}]\n")
    assert is_contract(tmp_path / "project")
    found = columns(contract_facts(tmp_path / "project", "visits"))
    assert found["visit_id"].primary
    assert (found["patient_id"].references, found["patient_id"].nullable) == ("patients", False)
    assert (found["ward"].values, found["ward"].nullable, found["ward"].enforced) == (("A", "B"), False, False)
    assert found["ward"].comment == "Where the patient lay"
    assert found["state"].values == (1, 2, 3)
    assert (found["age"].low, found["age"].high) == (0, 120)
    assert (found["stay"].low, found["stay"].high) == (0, 399)
    with pytest.raises(SpecError, match=r"visits, other|other, visits"):
        contract_facts(tmp_path / "project", None)


def test_a_table_is_joined_with_what_dbt_says_about_it(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits (VISIT_ID BIGINT, patient_id VARCHAR, ward VARCHAR, age DOUBLE, extra INT)"
        )
    path = save(tmp_path, "schema.yml", DBT)
    facts = declared_facts(str(tmp_path / "clinic.duckdb"), "visits", (path,), tmp_path)
    found = columns(facts)
    assert list(found) == ["VISIT_ID", "patient_id", "ward", "age", "extra"], "the table says which columns there are"
    assert found["VISIT_ID"].primary
    assert found["ward"].values == ("A", "B")
    assert found["age"].kind == "number", "and how they are stored"
    assert facts.uri == "duckdb:///clinic.duckdb"
    assert spec_from(facts).columns["age"].model_dump()["max"] == 120


def test_the_only_table_of_a_contract_may_be_called_otherwise_than_the_file(tmp_path: Path) -> None:
    """A file has no name of its own as a table; one in a database does."""
    (tmp_path / "export-2026.csv").write_text("age,ward\n")
    contract = save(tmp_path, "contract.yaml", ODCS)
    facts = declared_facts(str(tmp_path / "export-2026.csv"), None, (contract,), tmp_path)
    assert columns(facts)["ward"].values == ("A", "B")
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute("CREATE TABLE stays (age INT)")
    with pytest.raises(SpecError, match="nothing about a table 'stays'"):
        declared_facts(str(tmp_path / "clinic.duckdb"), "stays", (contract,), tmp_path)


def test_a_json_schema(tmp_path: Path) -> None:
    facts = contract_facts(save(tmp_path, "visit.schema.json", JSON_SCHEMA), None)
    found = columns(facts)
    assert (found["age"].low, found["age"].high, found["age"].nullable) == (0, 120, False)
    assert found["age"].comment == "in years"
    assert found["ward"].values == ("A", "B")
    assert (found["weight"].kind, found["weight"].nullable) == ("number", None)
    assert found["seen"].kind == "date"
    assert found["contact"].says == "direct"
    assert spec_from(facts).columns["smoker"].type == "boolean"


def test_a_frictionless_package(tmp_path: Path) -> None:
    facts = declared_facts(str(save(tmp_path, "datapackage.json", FRICTIONLESS)), None, (), tmp_path)
    found = columns(facts)
    assert facts.uri == "data/visits.csv"
    assert found["id"].primary
    assert found["patient"].references == "patients"
    assert (found["age"].low, found["age"].high) == (0, 120)
    assert found["ward"].values == ("A", "B")
    assert found["state"].values == (0, 1)
    assert spec_from(facts).columns["contact"].type == "text"


def test_a_frictionless_table_schema_alone(tmp_path: Path) -> None:
    schema = FRICTIONLESS["resources"][0]["schema"]
    assert columns(contract_facts(save(tmp_path, "schema.json", schema), None))["age"].high == 120


def test_metadata_of_sdv(tmp_path: Path) -> None:
    found = columns(contract_facts(save(tmp_path, "metadata.json", SDV), None))
    assert found["id"].primary
    assert found["patient_id"].references == "patients"
    assert (found["age"].kind, found["seen"].kind, found["smoker"].kind) == ("integer", "date", "boolean")
    assert found["contact"].says == "direct"
    single = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", **SDV["tables"]["visits"]}
    assert columns(contract_facts(save(tmp_path, "single.json", single), None))["id"].primary


def test_examples_in_a_contract_are_never_copied(tmp_path: Path) -> None:
    for name, content in (("c.yaml", ODCS), ("s.json", JSON_SCHEMA)):
        facts = contract_facts(save(tmp_path, name, content), None)
        choices = Choices(None, 1, Decimal(1), Decimal("1e-6"), "visits")
        assert "SECRET" not in written(draft_table(facts, "visits", choices, dt.date(2026, 11, 18)))


@pytest.mark.parametrize(
    "text", ["a: [", "just words", "[1, 2]", "a: 1\n", "models: 3\n", "kind: DataContract\n", "&a [*a]"]
)
def test_what_is_no_contract_is_refused_in_one_message(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError):
        contract_facts(save(tmp_path, "contract.yaml", text), None)


def test_odd_shapes_inside_a_contract_say_nothing(tmp_path: Path) -> None:
    """Every scalar of the contracts above is replaced in turn; reading must end in facts or in one refusal."""
    for tree in (yaml.safe_load(ODCS), yaml.safe_load(DBT), JSON_SCHEMA, FRICTIONLESS, SDV):
        for bent in bends(tree):
            path = save(tmp_path, "bent.json", bent)
            try:
                facts = contract_facts(path, "visits")
                spec_from(facts)
            except SpecError:
                continue


def bends(tree: Any) -> list[Any]:
    found: list[Any] = []

    def walk(node: Any, rebuild: Any) -> None:
        found.extend(rebuild(odd) for odd in (None, "odd", -1.5, [{"name": 3}]))
        children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in children:
            walk(child, lambda new, key=key, node=node, rebuild=rebuild: rebuild(_changed(node, key, new)))

    walk(tree, lambda new: new)
    return [one for one in found if isinstance(one, dict)]


def _changed(node: Any, key: Any, new: Any) -> Any:
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[key] = new
    return copy
