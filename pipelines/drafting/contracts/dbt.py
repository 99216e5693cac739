"""dbt properties (`schema.yml`): descriptions, data types, constraints, and the tests that say what a column holds.

accepted_values, relationships, not_null and unique of dbt itself; accepted_range of dbt_utils; the sets and ranges of
dbt_expectations. Tests may be spelled `tests` or `data_tests`, and their arguments may stand under `arguments`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from understudy.pipelines.drafting.conditions import apply_conditions, conditions_of
from understudy.pipelines.drafting.contracts.values import beyond, records, text, values
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts, with_bound, with_values
from understudy.pipelines.drafting.sql_types import typed

PROJECT = "dbt_project.yml"
_KINDS = ("models", "seeds", "snapshots")


def is_one(tree: dict[str, Any]) -> bool:
    named = any(records(tree.get(kind)) for kind in (*_KINDS, "sources"))
    return named and ("version" in tree or any(records(one.get("columns")) for one in _nodes(tree)))


def property_files(folder: Path) -> list[Path]:
    """Every properties file of a project; what was compiled or installed is not the project's own."""
    skipped = {"target", "dbt_packages", "dbt_modules", "logs"}
    return [
        file
        for file in sorted([*folder.rglob("*.yml"), *folder.rglob("*.yaml")])
        if file.name not in (PROJECT, "profiles.yml", "packages.yml", "dependencies.yml")
        and not skipped & set(file.relative_to(folder).parts)
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]


def tables(tree: dict[str, Any]) -> dict[str, TableFacts]:
    found = {}
    for node in _nodes(tree):
        columns = tuple(_column(one) for one in records(node.get("columns")) if text(one.get("name")))
        if columns:
            name = text(node.get("identifier")) or text(node.get("alias")) or text(node.get("name"))
            found[name] = TableFacts(columns, "", "", None, text(node.get("description")))
    return found


def _nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for kind in _KINDS:
        yield from records(tree.get(kind))
    for source in records(tree.get("sources")):
        yield from records(source.get("tables"))


def _column(said: dict[str, Any]) -> ColumnFacts:
    column = ColumnFacts(text(said.get("name")), comment=text(said.get("description")))
    if spelled := text(said.get("data_type")):
        column = typed(column, spelled, "")
    for constraint in records(said.get("constraints")):
        column = _with_constraint(column, constraint)
    for key in ("tests", "data_tests"):
        listed = said.get(key)
        for test in listed if isinstance(listed, list) else ():
            column = _with_test(column, *_named(test))
    return column


def _named(test: Any) -> tuple[str, dict[str, Any]]:
    """Its name without its package, and its arguments."""
    if isinstance(test, str):
        return test.rpartition(".")[2], {}
    if not isinstance(test, dict) or not test:
        return "", {}
    name, arguments = next(iter(test.items()))
    if "test_name" in test:
        name, arguments = text(test["test_name"]), test
    inner = arguments.get("arguments") if isinstance(arguments, dict) else None
    given = {**arguments, **(inner if isinstance(inner, dict) else {})} if isinstance(arguments, dict) else {}
    return str(name).rpartition(".")[2], given


def _with_test(column: ColumnFacts, name: str, given: dict[str, Any]) -> ColumnFacts:
    match name:
        case "not_null":
            return replace(column, nullable=False)
        case "unique":
            return replace(column, unique=True)
        case "relationships":
            return replace(column, references=_referred(text(given.get("to"))))
        case "accepted_values" if listed := values(given.get("values")):
            return with_values(column, listed, "accepted_values")
        case "expect_column_values_to_be_in_set" if listed := values(given.get("value_set")):
            return with_values(column, listed, "expect_column_values_to_be_in_set")
        case "accepted_range" | "expect_column_values_to_be_between":
            strict = given.get("inclusive") is False or given.get("strictly") is True
            whole = strict and column.kind == "integer"
            low, high = beyond(given.get("min_value"), 1, whole), beyond(given.get("max_value"), -1, whole)
            return with_bound(column, low, high, name) if low is not None or high is not None else column
    return column


def _with_constraint(column: ColumnFacts, constraint: dict[str, Any]) -> ColumnFacts:
    match text(constraint.get("type")):
        case "not_null":
            return replace(column, nullable=False)
        case "unique":
            return replace(column, unique=True)
        case "primary_key":
            return replace(column, primary=True, unique=True)
        case "foreign_key":
            return replace(column, references=_referred(text(constraint.get("to") or constraint.get("expression"))))
        case "check":
            return apply_conditions(column, conditions_of(text(constraint.get("expression")), ""), "constraint check")
    return column


def _referred(to: str) -> str:
    """`ref('patients')`, `source('clinic', 'patients')` or `clinic.patients (id)`."""
    quoted = re.findall(r"""['"]([^'"]+)['"]""", to)
    return quoted[-1] if quoted else to.partition("(")[0].strip().rpartition(".")[2]
