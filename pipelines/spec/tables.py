"""Public tables that a spec looks values up in: a CSV file beside it, read when the spec is read.

The spec that is planned, deployed and stored holds what the file said, so that no later run depends on the file.
"""

from __future__ import annotations

import csv
import io
import stat
from pathlib import Path
from typing import Any

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.derived import tagged

MOST_BYTES = 20_000_000


def with_tables(tree: dict[str, Any], base: Path) -> dict[str, Any]:
    """A copy of a spec's tree in which files of lookups are replaced by what they say of the values that occur."""
    columns = tree.get("columns")
    if not isinstance(columns, dict):
        return tree
    return {**tree, "columns": {name: _expanded(name, column, columns, base) for name, column in columns.items()}}


def _expanded(name: Any, column: Any, columns: dict[Any, Any], base: Path) -> Any:
    found = tagged(column)
    if not isinstance(found, dict) or found.get("type") != "lookup" or not isinstance(found.get("table"), str):
        return column
    where = f"columns.{str(name)[:60]}.table"
    key, path = str(found.get("from")), base / found["table"]
    rows = csv.reader(io.StringIO(_read(path, where)))
    header = [field.strip() for field in next(rows, [])]
    for wanted in (key, str(name)):
        if header.count(wanted) != 1:
            raise SpecError(
                f"{where}: {path.name} has no column {wanted!r}, or several",
                f"it has {', '.join(header)[:200]}; name its columns as the spec's are named",
            )
    places = header.index(key), header.index(str(name))
    said = {row[places[0]].strip(): row[places[1]].strip() for row in rows if len(row) > max(places)}
    declared = columns.get(key)
    listed = declared.get("values") if isinstance(declared, dict) else None
    if isinstance(listed, list | tuple):
        said = {str(value): said[str(value)] for value in listed if str(value) in said}
    whole = bool(said) and all(text.removeprefix("-").isdigit() and str(int(text)) == text for text in said.values())
    return {**found, "table": {key: int(text) if whole else text for key, text in said.items() if text}}


def _read(path: Path, where: str) -> str:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            raise SpecError(f"{where}: {path} is no file of at most {MOST_BYTES:,} bytes", "name a CSV file")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
    raise SpecError(f"{where}: cannot read {path}: {reason}", "check the path, which starts at the spec")
