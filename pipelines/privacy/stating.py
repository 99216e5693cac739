"""Losses in words: an epsilon or a delta that is told is never smaller than the one that was proven.

`at_most` rounds up and is for what was spent or may be lost; `at_least` rounds down and is for what is left. Digits are
decimal: the shortest text of the float is what is rounded, so that a cap of 0.3 stays 0.3.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

PLACES = 4


def at_most(value: float | Decimal, digits: int = 4) -> str:
    """With so many significant digits, rounded up: 0.12341 is told as 0.1235."""
    return _significant(value, digits, ROUND_CEILING)


def at_least(value: float | Decimal, digits: int = 4) -> str:
    """With so many significant digits, rounded down."""
    return _significant(value, digits, ROUND_FLOOR)


def spent_text(epsilon: float | Decimal) -> str:
    """For columns of numbers: four places, rounded up."""
    return _fixed(epsilon, ROUND_CEILING)


def left_text(epsilon: float | Decimal) -> str:
    """For columns of numbers: four places, rounded down."""
    return _fixed(epsilon, ROUND_FLOOR)


def _significant(value: float | Decimal, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    rounded = Context(prec=digits, rounding=rounding).create_decimal(_decimal(value))
    return f"{float(rounded):.{digits}g}"


def _fixed(value: float | Decimal, rounding: str) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    return str(_decimal(value).quantize(Decimal(1).scaleb(-PLACES), rounding=rounding))


def _decimal(value: float | Decimal) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(repr(float(value)))
