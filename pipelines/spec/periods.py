"""Periods in a spec: `{{ month }}` and its kin, filled in from the time a run was scheduled for.

A period names the accounting snapshot, so a run that is late, retried or repeated must fill in the same period as the
run it repeats. Hence the time is the scheduled one, never the clock, and nothing else but the zone enters.

For each of day, week, month, quarter and year: `{{ month }}` is the period the time falls in (2026-10), and
`{{ month_start }}` and `{{ month_end }}` are its first and last day; `last_month` and its kin are the one before it.

A rolling release is accounted for by period, so there only a period's own label names a snapshot: `period_named` reads
2026-10-05, 2026-W41, 2026-10, 2026-Q4 or 2026 back, as the kind says, and refuses every other text.

Theorem, relation, sensitivity, noise unit, reference. One name a period is a premise of docs/proofs/periods.md.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from understudy.pipelines.errors import SpecError

KINDS = ("day", "week", "month", "quarter", "year")
_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")
_EXAMPLES = {"day": "2026-10-05", "week": "2026-W41", "month": "2026-10", "quarter": "2026-Q4", "year": "2026"}
_LABEL = re.compile(r"([0-9]{4})(?:-(?:(W|Q)?([0-9]{1,2})(?:-([0-9]{2}))?))?")
MOST_DEPTH = 50
MOST_NODES = 200_000


@dataclass(frozen=True)
class Period:
    """One day, week, month, quarter or year: its first and its last day, both in it."""

    kind: str
    first: dt.date
    last: dt.date

    @property
    def label(self) -> str:
        return label(self.kind, self.first)


def period_named(kind: str, text: str) -> Period:
    """The period whose label this is, letter by letter."""
    day = _day_in(kind, text)
    if day is not None and label(kind, day) == text:
        return Period(kind, *bounds(kind, day))
    raise SpecError(
        f"source.snapshot {text[:40]!r} names no {kind}; a rolling release names each {kind} by its own label",
        f'write snapshot: "{_EXAMPLES[kind]}", or "{{{{ {kind} }}}}" to have it filled in; corrected data is no new '
        f"{kind}: release it without `rolling`, under a snapshot of its own, and the account pays for it",
    )


def is_label(kind: str, text: str) -> bool:
    try:
        period_named(kind, text)
    except SpecError:
        return False
    return True


def _day_in(kind: str, text: str) -> dt.date | None:
    """A day of the period that the text might name; `label` says whether it does."""
    found = _LABEL.fullmatch(text)
    if found is None:
        return None
    year, number, day = int(found[1]), int(found[3] or 1), int(found[4] or 1)
    try:
        match kind:
            case "week":
                monday = dt.date.fromisocalendar(year, number, 1)
                return monday if monday <= dt.date.max - dt.timedelta(days=6) else None
            case "quarter":
                return dt.date(year, 3 * number - 2, 1)
            case _:
                return dt.date(year, number, day)
    except ValueError:
        return None


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
    try:
        values = values_at(at.astimezone(zone(time_zone)).date())
    except (OverflowError, ValueError):
        raise SpecError(
            "that time is at the end of the calendar", "give a time whose last and next year exist"
        ) from None
    return _filled(tree, values)


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
            first, months = day.replace(day=1), 1
        case "quarter":
            first, months = day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1), 3
        case "year":
            first, months = day.replace(month=1, day=1), 12
        case _:
            raise ValueError(f"not a kind of period: {kind}")
    final = first.month + months - 1
    return first, first.replace(month=final, day=calendar.monthrange(first.year, final)[1])


def label(kind: str, day: dt.date) -> str:
    match kind:
        case "day":
            return day.isoformat()
        case "week":
            year, week, _ = day.isocalendar()
            return f"{year:04d}-W{week:02d}"
        case "month":
            return f"{day.year:04d}-{day.month:02d}"
        case "quarter":
            return f"{day.year:04d}-Q{(day.month - 1) // 3 + 1}"
    return f"{day.year:04d}"


def _filled(node: Any, values: dict[str, str]) -> Any:
    if isinstance(node, str):
        return _PLACEHOLDER.sub(lambda found: _value(found.group(1).strip(), values), node)
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
