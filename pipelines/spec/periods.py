"""Periods in a spec: `{{ month }}` and its kin, filled in from the time a run was scheduled for.

A period names the accounting snapshot, so a run that is late, retried or repeated must fill in the same period as the
run it repeats. Hence the time is the scheduled one, never the clock, and nothing else but the zone enters.

For each of day, week, month, quarter and year: `{{ month }}` is the period the time falls in (2026-10), and
`{{ month_start }}` and `{{ month_end }}` are its first and last day; `last_month` and its kin are the one before it.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from understudy.pipelines.errors import SpecError

KINDS = ("day", "week", "month", "quarter", "year")
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
MOST_DEPTH = 50
MOST_NODES = 200_000


def zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SpecError(f"there is no time zone {name[:60]!r}", "use a name such as UTC or Europe/Berlin") from None


def has_placeholders(tree: Any) -> bool:
    check_size(tree)
    return any(_PLACEHOLDER.search(text) for text in _texts(tree))


def fill(tree: Any, at: dt.datetime, time_zone: str = "UTC") -> Any:
    """A copy of a YAML tree whose texts have their placeholders replaced; keys are left alone."""
    if at.tzinfo is None:
        raise ValueError("a scheduled time has a zone")
    check_size(tree)
    return _filled(tree, values_at(at.astimezone(zone(time_zone)).date()))


def check_size(tree: Any) -> None:
    """Refuse a tree whose aliases unfold to far more than anybody has written, before anything walks through it."""
    level, nodes = [tree], 0
    for _ in range(MOST_DEPTH):
        if not level:
            return
        nodes += len(level)
        if nodes > MOST_NODES:
            raise SpecError("the spec unfolds to too many values", "write it without nested YAML aliases")
        below = []
        for node in level:
            below += list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
            if len(below) > MOST_NODES:
                break
        level = below
    if level:
        raise SpecError("the spec is nested too deeply", "is this really a spec?")


def values_at(day: dt.date) -> dict[str, str]:
    """Every placeholder and its text on that day."""
    values = {}
    for kind in KINDS:
        first, last = bounds(kind, day)
        before = bounds(kind, first - dt.timedelta(days=1))
        for prefix, (start, end) in (("", (first, last)), ("last_", before)):
            values[f"{prefix}{kind}"] = label(kind, start)
            values[f"{prefix}{kind}_start"] = start.isoformat()
            values[f"{prefix}{kind}_end"] = end.isoformat()
    return values


def bounds(kind: str, day: dt.date) -> tuple[dt.date, dt.date]:
    """First and last day of the period that holds `day`."""
    match kind:
        case "day":
            return day, day
        case "week":
            monday = day - dt.timedelta(days=day.weekday())
            return monday, monday + dt.timedelta(days=6)
        case "month":
            first = day.replace(day=1)
        case "quarter":
            first = day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1)
        case "year":
            first = day.replace(month=1, day=1)
        case _:
            raise ValueError(f"not a kind of period: {kind}")
    months = {"month": 1, "quarter": 3, "year": 12}[kind]
    following = (first + dt.timedelta(days=31 * months + 1)).replace(day=1)
    while (following.year - first.year) * 12 + following.month - first.month > months:
        following = (following - dt.timedelta(days=1)).replace(day=1)
    return first, following - dt.timedelta(days=1)


def label(kind: str, day: dt.date) -> str:
    match kind:
        case "day":
            return day.isoformat()
        case "week":
            year, week, _ = day.isocalendar()
            return f"{year}-W{week:02d}"
        case "month":
            return f"{day.year:04d}-{day.month:02d}"
        case "quarter":
            return f"{day.year:04d}-Q{(day.month - 1) // 3 + 1}"
    return f"{day.year:04d}"


def _filled(node: Any, values: dict[str, str]) -> Any:
    if isinstance(node, str):
        return _PLACEHOLDER.sub(lambda found: _value(found.group(1), values), node)
    if isinstance(node, dict):
        return {key: _filled(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, values) for value in node]
    return node


def _value(name: str, values: dict[str, str]) -> str:
    if name not in values:
        known = ", ".join(name for kind in KINDS for name in (kind, f"last_{kind}"))
        raise SpecError(
            f"{{{{ {name[:40]} }}}} is not a period", f"use one of {known}, each also with _start or _end for its days"
        )
    return values[name]


def _texts(node: Any) -> list[str]:
    if isinstance(node, str):
        return [node]
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [text for child in children for text in _texts(child)]
