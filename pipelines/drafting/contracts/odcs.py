"""Open Data Contract Standard, version 3: bitol-io.github.io/open-data-contract-standard."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from understudy.pipelines.drafting.contracts.values import beyond, bound, kind_named, records, text, values
from understudy.pipelines.drafting.facts import ColumnFacts, Kind, TableFacts, with_bound, with_values
from understudy.pipelines.drafting.sql_types import typed

_DIALECTS = {"postgres": "postgres", "postgresql": "postgres", "duckdb": "duckdb", "mysql": "mysql",
             "snowflake": "snowflake", "bigquery": "bigquery", "databricks": "databricks"}  # fmt: skip
_PERSONAL = re.compile(r"email|phone|name|address|ssn|passport|iban", re.IGNORECASE)


def is_one(tree: dict[str, Any]) -> bool:
    return tree.get("kind") == "DataContract" and isinstance(tree.get("schema"), list)


def tables(tree: dict[str, Any]) -> dict[str, TableFacts]:
    servers = records(tree.get("servers"))
    kind = text(servers[0].get("type")).lower() if servers else ""
    found = {}
    for schema in records(tree["schema"]):
        name = text(schema.get("physicalName")) or text(schema.get("name"))
        columns = tuple(_column(one, _DIALECTS.get(kind, "")) for one in records(schema.get("properties")))
        uri, table = _address(servers[0], name) if servers else ("", None)
        found[name] = TableFacts(columns, "", uri, table, text(schema.get("description")))
    return found


def _column(said: dict[str, Any], dialect: str) -> ColumnFacts:
    column = ColumnFacts(
        text(said.get("physicalName")) or text(said.get("name")),
        _kind(said),
        text(said.get("logicalType")),
        nullable=False if said.get("required") is True else None,
        comment=text(said.get("description")),
        primary=said.get("primaryKey") is True and said.get("primaryKeyPosition") in (None, -1, 1),
        unique=said.get("unique") is True,
        references=_reference(said),
    )
    if column.kind == "unknown" and (spelled := text(said.get("physicalType"))):
        column = typed(column, spelled, dialect)
    options = said.get("logicalTypeOptions")
    if isinstance(options, dict):
        column = _with_options(column, options)
    if listed := values([one.get("value") for one in records(said.get("enum"))]):
        column = with_values(column, listed, "the contract's enum")
    for quality in records(said.get("quality")):
        column = _with_quality(column, quality)
    return column


def _kind(said: dict[str, Any]) -> Kind:
    """3.1 says `date` of moments too, with a format that has hours."""
    kind = kind_named(said.get("logicalType"))
    options = said.get("logicalTypeOptions")
    written = text(options.get("format")) if isinstance(options, dict) else ""
    physical = text(said.get("physicalType")).lower()
    return "datetime" if kind == "date" and (re.search("[Hh]", written) or physical.startswith("timestamp")) else kind


def _with_options(column: ColumnFacts, options: dict[str, Any]) -> ColumnFacts:
    whole = column.kind == "integer"
    column = with_bound(column, bound(options.get("minimum")), bound(options.get("maximum")))
    column = with_bound(
        column, beyond(options.get("exclusiveMinimum"), 1, whole), beyond(options.get("exclusiveMaximum"), -1, whole)
    )
    if column.low is not None or column.high is not None:
        column = replace(column, declared_by=(*column.declared_by, "the contract"))
    longest = options.get("maxLength")
    if _PERSONAL.search(text(options.get("format"))):
        column = replace(column, says="direct")
    return replace(column, most_characters=longest) if isinstance(longest, int) else column


def _with_quality(column: ColumnFacts, quality: dict[str, Any]) -> ColumnFacts:
    """`invalidValues` (3.1) or `validValues` (3.0): the values that a check lets pass."""
    arguments = quality.get("arguments")
    listed = values(arguments.get("validValues")) if isinstance(arguments, dict) else ()
    listed = listed or values(quality.get("validValues"))
    return with_values(column, listed, "the contract's valid values") if listed else column


def _reference(said: dict[str, Any]) -> str:
    for relation in records(said.get("relationships")):
        to = relation.get("to")
        if isinstance(to, str) and to:
            return to.rpartition(".")[0] or to
    return ""


def _address(server: dict[str, Any], name: str) -> tuple[str, str | None]:
    """Where the contract says the rows are, as a spec says it; empty where a spec cannot. Never a user or password."""
    kind, database, schema = (text(server.get(key)) for key in ("type", "database", "schema"))
    table = f"{schema}.{name}" if schema else name
    match kind.lower():
        case "local" | "file":
            return text(server.get("path")), None
        case "s3" | "gcs" | "azure":
            return text(server.get("location")).partition("*")[0].rstrip("/"), None
        case "duckdb":
            return (f"duckdb:///{database}", table) if database else ("", table)
        case "postgres" | "postgresql":
            port = f":{server['port']}" if server.get("port") else ""
            return f"postgresql://{text(server.get('host'))}{port}/{database}", table
    return "", table
