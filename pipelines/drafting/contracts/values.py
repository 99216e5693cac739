"""What contracts of every kind share: lists of values, bounds, words for types. What has another shape says nothing."""

from __future__ import annotations

import datetime as dt
from typing import Any

from understudy.pipelines.drafting.facts import Bound, Kind

_KINDS: dict[str, Kind] = {
    "string": "text", "text": "text", "varchar": "text", "str": "text",
    "integer": "integer", "int": "integer", "long": "integer", "bigint": "integer",
    "number": "number", "float": "number", "double": "number", "decimal": "number", "numeric": "number",
    "boolean": "boolean", "bool": "boolean",
    "date": "date",
    "timestamp": "datetime", "datetime": "datetime", "date-time": "datetime",
    "object": "other", "array": "other", "struct": "other", "map": "other", "record": "other", "time": "other",
    "geopoint": "other", "geojson": "other", "duration": "other", "binary": "other", "bytes": "other", "list": "other",
}  # fmt: skip


def kind_named(word: Any) -> Kind:
    return _KINDS.get(str(word).lower(), "unknown")


def records(node: Any) -> list[dict[str, Any]]:
    """The mappings of a list; whatever else stands there is not for us."""
    return [item for item in node if isinstance(item, dict)] if isinstance(node, list) else []


def text(node: Any) -> str:
    return node if isinstance(node, str) else ""


def values(node: Any) -> tuple[str | int, ...]:
    """A list of words and whole numbers; empty if it holds anything else than those and nulls."""
    listed = [item for item in node if item is not None] if isinstance(node, list) else []
    spelled = [_word(item) for item in listed]
    return tuple(item for item in spelled if item is not None) if None not in spelled else ()


def _word(item: Any) -> str | int | None:
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, float):
        return int(item) if item.is_integer() else None
    if isinstance(item, dt.date):
        return item.isoformat()
    return item if isinstance(item, str | int) else None


def bound(node: Any) -> Bound | None:
    """A number, a day or a moment, also as text."""
    if isinstance(node, str):
        for read in (dt.date.fromisoformat, dt.datetime.fromisoformat, int, float):
            try:
                return read(node)
            except ValueError:
                continue
        return None
    return node if isinstance(node, int | float | dt.date) and not isinstance(node, bool) else None


def beyond(node: Any, step: int, whole: bool) -> Bound | None:
    """A bound that is itself excluded: of whole numbers the next one."""
    found = bound(node)
    if whole and isinstance(found, int | float):
        return int(found) + step if float(found).is_integer() else found
    return found
