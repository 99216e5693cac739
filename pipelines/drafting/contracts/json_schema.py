"""JSON Schema of a row, or of an array of rows: json-schema.org."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.pipelines.drafting.contracts.values import beyond, bound, kind_named, records, text, values
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts, with_bound, with_values

MOST_STEPS = 20
_DIRECT = ("email", "idn-email", "hostname", "ipv4", "ipv6", "uri", "iri", "uri-reference")


def is_one(tree: dict[str, Any]) -> bool:
    return bool(_properties(tree, tree))


def tables(tree: dict[str, Any]) -> dict[str, TableFacts]:
    row = _row(tree, tree)
    required = row.get("required") if isinstance(row.get("required"), list) else []
    columns = tuple(
        _column(name, said, tree, name in (required or [])) for name, said in _properties(tree, tree).items()
    )
    return {text(row.get("title")): TableFacts(columns, "", "", None, text(row.get("description")))}


def _row(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The schema of one row, behind an array and references."""
    for _ in range(MOST_STEPS):
        node = _resolved(node, root)
        items = node.get("items")
        if node.get("type") != "array" or not isinstance(items, dict):
            break
        node = items
    return node


def _properties(node: dict[str, Any], root: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = _row(node, root).get("properties")
    if not isinstance(found, dict):
        return {}
    return {str(name): said for name, said in found.items() if isinstance(said, dict)}


def _column(name: str, said: dict[str, Any], root: dict[str, Any], required: bool) -> ColumnFacts:
    said, optional = _without_null(_resolved(said, root), root)
    column = ColumnFacts(
        name,
        _kind(said),
        nullable=False if required and not optional else None,
        comment=text(said.get("description")) or text(said.get("title")),
        says="direct" if said.get("format") in _DIRECT else "id" if said.get("format") == "uuid" else "",
    )
    whole = column.kind == "integer"
    column = with_bound(column, bound(said.get("minimum")), bound(said.get("maximum")))
    column = with_bound(
        column, beyond(said.get("exclusiveMinimum"), 1, whole), beyond(said.get("exclusiveMaximum"), -1, whole)
    )
    if column.low is not None or column.high is not None:
        column = replace(column, declared_by=("the JSON Schema",))
    listed = values(said.get("enum") if "enum" in said else [said["const"]] if "const" in said else None)
    if listed and column.kind != "boolean":
        column = with_values(column, listed, "the JSON Schema's enum")
    longest = said.get("maxLength")
    return replace(column, most_characters=longest) if isinstance(longest, int) else column


def _kind(said: dict[str, Any]) -> Any:
    if said.get("type") == "string" and said.get("format") in ("date", "date-time"):
        return kind_named(said["format"])
    return kind_named(said.get("type")) if isinstance(said.get("type"), str) else "unknown"


def _without_null(said: dict[str, Any], root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema of a value that is there, and whether null is allowed beside it."""
    kinds = said.get("type")
    if isinstance(kinds, list):
        rest = [kind for kind in kinds if kind != "null"]
        return {**said, "type": rest[0] if len(rest) == 1 else None}, len(rest) < len(kinds)
    for key in ("anyOf", "oneOf"):
        arms = [_resolved(arm, root) for arm in records(said.get(key))]
        rest = [arm for arm in arms if arm.get("type") != "null"]
        if len(rest) == 1:
            return {**said, **rest[0]}, len(rest) < len(arms)
    return said, None in said["enum"] if isinstance(said.get("enum"), list) else False


def _resolved(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """References within the document are followed; others are not fetched."""
    for _ in range(MOST_STEPS):
        reference = node.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return node
        found: Any = root
        for part in reference[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            return node
        node = {**found, **{key: value for key, value in node.items() if key != "$ref"}}
    return node
