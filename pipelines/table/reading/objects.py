"""Values of Python programs and database drivers, one by one, as what Arrow holds and `values.read` reads.

Total: no object can raise, and each is taken by itself. Two ways in, since what is promised differs:
- `spelling`, for columns of objects that a program holds: a text that is read as the same value of a typed column is:
  7, 7.0 and "7" alike, true as 1, dates in ISO form, None and NaN as null, and anything that is no value (a list, an
  object) as a text that nobody lists;
- `truth`, `whole`, `double` and `written`, for what a driver sends of a column whose type the catalogue knows.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

UNREADABLE = "\0"
Spelling = Callable[[Any], str | None]


def spelling(listed: Sequence[Any], decimal: str = ".") -> Spelling:
    """Each value as text that is read as the value is; `listed` are a category's, matched by number, and `decimal` is
    what stands before the decimals of the column's texts."""
    texts = [str(value) for value in listed]
    numbers = {number: text for text in reversed(texts) if (number := _number(text)) is not None}
    truths = [[text for text in spelled if text in texts] or [spelled[0]] for spelled in _TRUTHS]

    def spell(value: Any) -> str | None:
        try:
            return _spelled(value)
        except Exception:
            return UNREADABLE

    def _spelled(value: Any) -> str | None:
        if is_missing(value):
            return None
        if isinstance(value, str):
            return mended(value)
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        if isinstance(value, bool | np.bool_):
            return truths[int(value)][-1]
        if isinstance(value, int | np.integer):
            return str(int(value))
        if isinstance(value, float | np.floating | Decimal):
            number = float(value)
            whole = number.is_integer() and abs(number) < 2**53
            return numbers.get(number) or (str(int(number)) if whole else repr(number).replace(".", decimal))
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[us]").item()
        if isinstance(value, dt.datetime):
            moment = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
            return dt.datetime(*moment.timetuple()[:6], moment.microsecond).isoformat(" ", "microseconds")
        return value.isoformat() if isinstance(value, dt.date) else UNREADABLE

    return spell


_TRUTHS = (("0", "False", "false"), ("1", "True", "true"))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) and "_" not in text else None


def is_missing(value: Any) -> bool:
    """None, NaN of any kind, NaT and pandas' NA: what pandas itself takes for missing in a column of objects."""
    import pandas as pd

    if value is None or value is pd.NA or value is pd.NaT:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()  # a signalling one refuses to be compared
    return bool(np.isscalar(value) and value != value)


def truth(value: Any) -> bool | None:
    return bool(value) if isinstance(value, bool | int) else None


def whole(value: Any) -> int | None:
    if isinstance(value, Decimal) and value.is_finite() and abs(value) < 2**63 and value == int(value):
        value = int(value)
    return int(value) if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def double(value: Any) -> float | None:
    if isinstance(value, int):
        value = min(max(value, -(2**1000)), 2**1000)  # which a double holds
    return float(value) if isinstance(value, int | float | Decimal) else None


def written(value: Any, encoding: str) -> str | None:
    """How a value is written; null where nobody can say. Fixed notation, so that one number has one spelling."""
    if value is None:
        return None
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).decode(encoding, "replace")
        if isinstance(value, float) and math.isfinite(value):
            value = Decimal(repr(value))
        if isinstance(value, Decimal) and value.is_finite():
            return f"{value:f}"
        return mended(str(value))
    except Exception:  # what a driver's own type does when it is written is not known
        return None


def mended(text: str) -> str:
    """Text that UTF-8 can hold: half of a pair of surrogates is replaced."""
    return text.encode(errors="replace").decode()


def without_trailing_zeros(text: str) -> str:
    """1.0 and 1.00 are one number, and may be one entity's key."""
    whole, point, fraction = text.partition(".")
    if not (point and fraction.isdecimal() and whole.removeprefix("-").isdecimal()):
        return text
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else "0" if whole == "-0" else whole
