"""Long lists of values: by range (`{from: 1, to: 265}`) or from a public file (`{file: zones.csv, column: id}`).

A list is expanded when the spec is read, so the spec that is hashed, planned and deployed holds the values themselves:
it is identified by what the file held, never by the file's name. The file is public, as the spec is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.public_files import PublicFiles

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_KEYS = "from and to (whole numbers), or file and column"


def range_of(values: dict[Any, Any], most: int) -> list[int]:
    """The whole numbers of a range, both ends in it; ValueError if it is none."""
    if "file" in values:
        raise ValueError("a file of values is read with the spec's own file, or from the directory Python runs in")
    first, last = values.get("from"), values.get("to")
    if set(values) != {"from", "to"} or type(first) is not int or type(last) is not int:
        raise ValueError(f"a list by reference has the keys {_KEYS}")
    if not first <= last < first + most:
        raise ValueError(f"{first} to {last} has no values or more than {most:,}")
    return list(range(first, last + 1))


def with_lists(tree: dict[str, Any], base: Path) -> dict[str, Any]:
    """A copy of a spec's tree in which files of values are replaced by their values; paths start at `base`."""
    files = PublicFiles.of(tree, base)
    return in_every_table(
        tree, lambda columns: {name: _expanded(name, column, files) for name, column in columns.items()}
    )


def in_every_table(tree: dict[str, Any], expanded: Callable[[dict[Any, Any]], dict[Any, Any]]) -> dict[str, Any]:
    """A copy of a spec's tree, which nobody has checked yet, with its columns expanded, or those of its tables."""
    if isinstance(columns := tree.get("columns"), dict):
        tree = {**tree, "columns": expanded(columns)}
    if isinstance(tables := tree.get("tables"), dict):
        told = {
            name: in_every_table(each, expanded) if isinstance(each, dict) else each for name, each in tables.items()
        }
        tree = {**tree, "tables": told}
    return tree


def _expanded(name: Any, column: Any, files: PublicFiles) -> Any:
    values = column.get("values") if isinstance(column, dict) else None
    if not isinstance(values, dict) or "file" not in values:
        return column
    where = f"columns.{str(name)[:60]}.values"
    path, heading = values.get("file"), values.get("column")
    if not isinstance(path, str) or set(values) - {"file", "column"} or not isinstance(heading, str | None):
        raise SpecError(f"{where}: a list by reference has the keys {_KEYS}", "see docs/formats.md")
    return {**column, "values": _listed(files, path, heading, where)}


def _listed(files: PublicFiles, file: str, heading: str | None, where: str) -> list[str | int]:
    if heading is None:
        texts = [line.strip() for line in files.text(file, where).splitlines()]
    else:
        texts = [row[0] for row in files.columns(file, [heading], where)]
    texts = [text for text in texts if text]
    if all(_WHOLE.fullmatch(text) for text in texts):
        return [int(text) for text in texts]
    return list(texts)
