"""What was found takes the place of what was left open: a column like any other.

Post-processing of a released measurement, and a function of it and of the declaration alone: the same measurement gives
the same column, hence the same codes, for every later snapshot.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from understudy.pipelines.discovery.axes import month_axis, number_axis, rounded_out
from understudy.pipelines.discovery.found import Found
from understudy.pipelines.discovery.grid import first_day
from understudy.pipelines.discovery.numbers import binned, number_in
from understudy.pipelines.spec.formats import WordForm
from understudy.pipelines.spec.open import OpenColumn, is_mark
from understudy.pipelines.table.columns import Kind

Body = dict[str, Any]
LEFT_OUT: Body = {"type": "text", "action": "drop"}
MOSTLY = 0.9
"""Of its values that are numbers, or dates: such a column is one of numbers, or dates."""

HALF = 0.5
_OTHER = "other"


@dataclass(frozen=True)
class Sizes:
    """How fine columns may be."""

    bins: int
    values: int


def kind_of(column: OpenColumn, found: Found) -> Kind | None:
    """As declared; else dates if nearly all values are dates, numbers if nearly all are numbers; else words, by those
    that are shared; None where nothing stands above the noise.

    Codes such as 250.83 and V27 are mostly numbers, too: where values that many share make up half of the rows and some
    of them look like such codes, they are words. A single word among numbers, such as `?` or `n/a`, is none.
    """
    if column.kind is not None:
        return column.kind
    numbers = float(found.sure.numbers.sum()) + found.zero
    dates = float(found.sure.years.sum())
    whole = numbers + dates + found.words
    if whole <= 0:
        return None
    if dates >= MOSTLY * whole:
        return "datetime" if float(found.sure.years[1].sum()) > 0 else "date"
    listed = sum(found.values.values())
    if numbers >= MOSTLY * whole and not (_has_codes(found) and listed >= HALF * whole):
        return "number" if float(found.sure.numbers[1:].sum()) > 0 else "integer"
    return "category"


def _has_codes(found: Found) -> bool:
    """Whether some listed values are no numbers but have digits, or several are words."""
    words = [text for text in found.values if number_in(text) is None]
    return len(words) > 2 or any(letter.isdigit() for word in words for letter in word)


def closed_column(column: OpenColumn, found: Found, sizes: Sizes) -> Body:
    """`LEFT_OUT` where nothing of the column stands above the noise."""
    match kind_of(column, found):
        case None:
            return LEFT_OUT
        case "category":
            return _category(column, found, column.most if column.kind else min(column.most, sizes.values))
        case "date" | "datetime" as kind:
            return _dated(column, found, kind)
        case kind:
            made = _number(column, found, sizes, kind == "integer")
            if made is LEFT_OUT and column.kind is None:  # all but one number drown; what many share is known still
                return _category(column, found, min(column.most, sizes.values))
            return made


def _nullable(column: OpenColumn, found: Found, also_words: bool) -> Body:
    said = column.declared.get("nullable")
    if said is None and column.kind is None:
        said = found.lacks_some(also_words)
    return {"nullable": True} if said else {}


def _category(column: OpenColumn, found: Found, most: int) -> Body:
    said = {key: value for key, value in column.declared.items() if key != "more" and not is_mark(key, value)}
    form = WordForm(said.get("trim", True), said.get("case") == "ignore")
    listed: dict[str, Any] = {form.spelled(str(value)): value for value in column.known_values}
    for text in found.values:
        if len(listed) < most and text != _OTHER:
            listed.setdefault(form.spelled(text), text)
    if not listed:
        return LEFT_OUT
    nullable = _nullable(column, found, also_words=False) if column.kind is None else {}
    return {"type": "category", "trim": True, **said, **nullable, "values": list(listed.values()), "other": True}


def _number(column: OpenColumn, found: Found, sizes: Sizes, whole: bool) -> Body:
    said = {key: value for key, value in column.declared.items() if not is_mark(key, value)}
    kind = "integer" if whole else "number"
    body: Body = {"type": kind, **said, **_nullable(column, found, also_words=True)}
    if column.kind is None and not whole and float(found.sure.numbers[2].sum()) <= 0:
        body["decimals"] = 2
    axis = number_axis(found, whole)
    if axis is None and ("min" not in said or "max" not in said):
        return LEFT_OUT
    if axis is not None:
        low, high = rounded_out(float(axis.lows[0]), float(axis.highs[-1]) - whole)
        body["min"], body["max"] = said.get("min", low), said.get("max", high)
        if not body["min"] < body["max"]:
            return LEFT_OUT
    return binned(column, body, axis, found, sizes.bins, whole)


def _dated(column: OpenColumn, found: Found, kind: str) -> Body:
    said = {key: value for key, value in column.declared.items() if not is_mark(key, value)}
    axis = month_axis(found)
    if axis is None:
        return LEFT_OUT
    first, following = first_day(int(axis.lows[0])), first_day(int(axis.highs[-1]))
    last = following - dt.timedelta(days=1)
    years = last.year - first.year
    bins = "month" if years < 3 else "quarter" if years < 15 else "year"
    ends: Body = {"min": first.isoformat(), "max": last.isoformat()}
    if kind == "datetime":
        ends = {"min": f"{first.isoformat()}T00:00:00", "max": f"{following.isoformat()}T00:00:00"}
    nullable = _nullable(column, found, also_words=True)
    return {"type": kind, "bins": bins, **ends, **said, **nullable}
