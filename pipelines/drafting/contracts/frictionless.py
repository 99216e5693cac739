"""Frictionless (Data Package): a table schema, or a package or resource that holds some: datapackage.org."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.pipelines.drafting.contracts.values import bound, kind_named, records, text, values
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts, with_bound, with_values

_KINDS: dict[str, Any] = {"year": "integer", "yearmonth": "text", "any": "unknown", "": "text"}


def is_one(tree: dict[str, Any]) -> bool:
    return any(records(schema.get("fields")) for _, _, schema in _schemas(tree))


def tables(tree: dict[str, Any]) -> dict[str, TableFacts]:
    return {
        name: TableFacts(_columns(schema), "", uri, None, text(schema.get("description")))
        for name, uri, schema in _schemas(tree)
    }


def _schemas(tree: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, path and table schema of each resource."""
    resources = records(tree.get("resources")) or ([tree] if isinstance(tree.get("schema"), dict) else [])
    if not resources:
        return [(text(tree.get("name")), "", tree)]
    return [
        (text(one.get("name")), text(one.get("path")), one["schema"])
        for one in resources
        if isinstance(one.get("schema"), dict)
    ]


def _columns(schema: dict[str, Any]) -> tuple[ColumnFacts, ...]:
    primary = schema.get("primaryKey")
    alone = (
        primary if isinstance(primary, str) else primary[0] if isinstance(primary, list) and len(primary) == 1 else ""
    )
    refers = {}
    for key in records(schema.get("foreignKeys")):
        fields, reference = key.get("fields"), key.get("reference")
        field = fields[0] if isinstance(fields, list) and len(fields) == 1 else fields
        if isinstance(field, str) and isinstance(reference, dict):
            refers[field] = text(reference.get("resource")) or "its own table"
    return tuple(_column(one, alone, refers) for one in records(schema.get("fields")) if text(one.get("name")))


def _column(said: dict[str, Any], primary: Any, refers: dict[str, str]) -> ColumnFacts:
    name, kind = text(said.get("name")), text(said.get("type"))
    found = said.get("constraints")
    rules = found if isinstance(found, dict) else {}
    column = ColumnFacts(
        name,
        _KINDS.get(kind) or kind_named(kind),
        kind,
        nullable=False if rules.get("required") is True else None,
        comment=text(said.get("description")) or text(said.get("title")),
        primary=name == primary,
        unique=rules.get("unique") is True or name == primary,
        references=refers.get(name, ""),
        says={"email": "direct", "uri": "direct", "uuid": "id"}.get(text(said.get("format")), ""),
    )
    low, high = bound(rules.get("minimum")), bound(rules.get("maximum"))
    if low is not None or high is not None:
        column = with_bound(column, low, high, "the table schema")
    categories = said.get("categories")
    named = [one.get("value") for one in records(categories)] or categories
    listed = values(rules.get("enum")) or values(named)
    if listed and column.kind != "boolean":
        column = with_values(column, listed, "the table schema's list")
    longest = rules.get("maxLength")
    return replace(column, most_characters=longest) if isinstance(longest, int) else column
