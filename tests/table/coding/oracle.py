"""Encoding as one would write it on paper: one value at a time, in plain Python."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any

from understudy.pipelines.table.columns import DomainColumn

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?")
MOMENT = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:[T ](\d\d?):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
TRUTHS = {"false": 0, "f": 0, "no": 0, "n": 0, "off": 0, "true": 1, "t": 1, "yes": 1, "y": 1, "on": 1}
BLANK = " \t\n\v\f\r"


def code_of(value: Any, column: DomainColumn) -> int:
    if value is None:
        return column.missing_code
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    found = _category(value, column) if column.kind == "category" else _other_kinds(value, column)
    return column.fallback_code if found is None else found


def _other_kinds(value: Any, column: DomainColumn) -> int | None:
    if column.kind == "boolean":
        if isinstance(value, str):
            found = TRUTHS.get(value.strip(BLANK).lower()) if value.isascii() else None
            number = _number(value) if found is None else None
            return int(number) if number in (0, 1) else found
        return int(value) if isinstance(value, bool | int | float | Decimal) and value in (0, 1) else None
    if column.kind in ("integer", "number"):
        number = _number(value)
        return None if number is None else _bin(number, column.edges)
    moment = _moment(value)
    if moment is None:
        return None
    return _bin(moment // 86_400_000_000 if column.kind == "date" else moment, column.edges)


def _category(value: Any, column: DomainColumn) -> int | None:
    texts = [str(listed) for listed in column.values]
    if isinstance(value, bool):
        names = ("true", "True", "1") if value else ("false", "False", "0")
        return next((texts.index(name) for name in names if name in texts), None)
    if isinstance(value, float | Decimal):
        numbers = [float(text) if NUMBER.fullmatch(text.strip(BLANK)) else math.nan for text in texts]
        return numbers.index(float(value)) if math.isfinite(value) and float(value) in numbers else None
    if isinstance(value, dt.datetime):
        value = value.replace(tzinfo=None)
    return texts.index(str(value)) if str(value) in texts else None


def _number(value: Any) -> float | int | None:
    if isinstance(value, str):
        text = value.strip(BLANK)
        value = float(text) if NUMBER.fullmatch(text) else math.nan
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, bool | int):
        return int(value)
    return value if isinstance(value, float) and math.isfinite(value) else None


def _moment(value: Any) -> int | None:
    if isinstance(value, str):
        value = _parsed(value.strip(BLANK))
    if isinstance(value, dt.datetime):
        naive = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return (naive - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days * 86_400_000_000
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _parsed(text: str) -> int | None:
    if re.fullmatch(r"\d{8}|\d{14}", text, re.ASCII):  # the same without marks
        clock = f"T{text[8:10]}:{text[10:12]}:{text[12:]}" if text[8:] else ""
        text = f"{text[:4]}-{text[4:6]}-{text[6:8]}{clock}"
    match = MOMENT.fullmatch(text)
    if not match:
        return None
    year, month, day, hour, minute, second, fraction, sign, east_hours, east_minutes = match.groups()
    east = (int(east_hours or 0) * 60 + int(east_minutes or 0)) * (-1 if sign == "-" else 1)
    if int(east_hours or 0) > 23 or int(east_minutes or 0) > 59:
        return None
    try:
        moment = dt.datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    microseconds = int((fraction or "").ljust(6, "0")[:6] or 0)
    whole = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return whole + microseconds - east * 60_000_000


def _bin(value: float | int, edges: tuple[float, ...] | tuple[int, ...]) -> int:
    return sum(1 for edge in edges[1:-1] if edge <= value)
