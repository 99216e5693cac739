"""Metadata of SDV, single-table and multi-table: types and keys. It lists neither values nor bounds."""

from __future__ import annotations

from typing import Any

from understudy.pipelines.drafting.contracts.values import records, text
from understudy.pipelines.drafting.facts import ColumnFacts, Kind, TableFacts

_KINDS: dict[str, Kind] = {
    "numerical": "number",
    "datetime": "datetime",
    "boolean": "boolean",
    "categorical": "unknown",
}


def is_one(tree: dict[str, Any]) -> bool:
    return any(
        isinstance(column, dict) and "sdtype" in column
        for table in _tables(tree).values()
        for column in table["columns"].values()
    )


def tables(tree: dict[str, Any]) -> dict[str, TableFacts]:
    refers = {
        (text(one.get("child_table_name")), str(one.get("child_foreign_key"))): text(one.get("parent_table_name"))
        for one in records(tree.get("relationships"))
    }
    return {
        name: TableFacts(
            tuple(
                _column(column, said, table.get("primary_key"), refers.get((name, column), ""))
                for column, said in table["columns"].items()
                if isinstance(said, dict)
            ),
            "",
        )
        for name, table in _tables(tree).items()
    }


def _tables(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = tree.get("tables")
    listed = found if isinstance(found, dict) else {"": tree}
    return {
        str(name): table
        for name, table in listed.items()
        if isinstance(table, dict) and isinstance(table.get("columns"), dict)
    }


def _column(name: str, said: dict[str, Any], primary: Any, refers_to: str) -> ColumnFacts:
    kind = text(said.get("sdtype"))
    whole = text(said.get("computer_representation")).lower().startswith(("int", "uint"))
    written = text(said.get("datetime_format"))
    stored: Kind = "integer" if kind == "numerical" and whole else _KINDS.get(kind, "unknown")
    if stored == "datetime" and written and "%H" not in written and "%I" not in written:
        stored = "date"
    known = kind in (*_KINDS, "id", "unknown", "")
    return ColumnFacts(
        name,
        stored,
        kind,
        primary=name == primary,
        unique=name == primary,
        references=refers_to,
        says="direct" if said.get("pii") is True or not known else "id" if kind == "id" else "",
    )
