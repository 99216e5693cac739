"""Public tables that a spec looks values up in: a CSV file beside it, read when the spec is read.

The spec that is planned, deployed and stored holds what the file said, so that no later run depends on the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.pipelines.spec.derived import tagged
from understudy.pipelines.spec.lists import in_every_table
from understudy.pipelines.spec.public_files import PublicFiles


def with_tables(tree: dict[str, Any], base: Path) -> dict[str, Any]:
    """A copy of a spec's tree in which files of lookups are replaced by what they say of the values that occur."""
    files = PublicFiles.of(tree, base)
    return in_every_table(
        tree, lambda columns: {name: _expanded(name, column, columns, files) for name, column in columns.items()}
    )


def _expanded(name: Any, column: Any, columns: dict[Any, Any], files: PublicFiles) -> Any:
    found = tagged(column)
    if not isinstance(found, dict) or found.get("type") != "lookup" or not isinstance(found.get("table"), str):
        return column
    where = f"columns.{str(name)[:60]}.table"
    key = str(found.get("from"))
    said = {row[0]: row[1] for row in files.columns(found["table"], [key, str(name)], where)}
    declared = columns.get(key)
    listed = declared.get("values") if isinstance(declared, dict) else None
    if isinstance(listed, list | tuple):
        said = {str(value): said[str(value)] for value in listed if str(value) in said}
    whole = bool(said) and all(text.removeprefix("-").isdigit() and str(int(text)) == text for text in said.values())
    return {**found, "table": {key: int(text) if whole else text for key, text in said.items() if text}}
