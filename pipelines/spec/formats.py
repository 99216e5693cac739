"""How values of a column are written, as a spec declares it. Public and decided before a row is read: no form is ever
guessed from the rows, since then one row would decide how another is read.

What is understood without a word is listed in docs/formats.md; these values say what is understood besides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

EPOCHS = {"epoch": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1, "epoch_ns": 0}
"""Whole numbers since 1970, and how many microseconds one of them is (0: a thousandth)."""

DIRECTIVES = {
    **{"Y": "year", "y": "year", "m": "month", "b": "month", "B": "month", "d": "day", "e": "day", "j": "day of year"},
    **{"H": "hour", "I": "hour", "M": "minute", "S": "second", "f": "fraction", "p": "half", "z": "zone", "Z": "zone"},
    **{"a": "weekday", "A": "weekday"},
}
_SHORT = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y"}
_PIECE = re.compile(r"%(.?)|(\s+)|([^%\s])", re.DOTALL)


@dataclass(frozen=True)
class NumberForm:
    """Numbers in text: what stands before the decimals, between thousands, and around the number."""

    decimal: str = "."
    thousands: str | None = None
    percent: Literal["number", "fraction"] | None = None
    units: tuple[str, ...] = ()


@dataclass(frozen=True)
class DateForm:
    """Dates and moments: strptime formats or an epoch, which of two numbers is the day, and on which clock they are."""

    formats: tuple[str, ...] = ()
    day_first: bool | None = None
    zone: str | None = None


@dataclass(frozen=True)
class TruthForm:
    """Words that are true and words that are false, in lower case and without blanks around them."""

    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()


@dataclass(frozen=True)
class WordForm:
    """Categories: whether blanks around a word and its case count, and other names of listed values."""

    trim: bool = False
    fold_case: bool = False
    aliases: tuple[tuple[str, str | int], ...] = ()

    @property
    def is_spelled(self) -> bool:
        return self.trim or self.fold_case

    def spelled(self, word: str) -> str:
        """What words are compared by."""
        word = word.strip() if self.trim else word
        return word.casefold() if self.fold_case else word


Form: TypeAlias = NumberForm | DateForm | TruthForm | WordForm


@lru_cache(maxsize=256)
def format_pieces(format_: str) -> tuple[tuple[str, str], ...]:
    """A strptime format as ("directive", letter), ("blank", "") and ("literal", character); or a ValueError."""
    expanded = re.sub(r"%([FTRD])", lambda found: _SHORT[found[1]], format_.strip())
    pieces: list[tuple[str, str]] = []
    for directive, blank, literal in _PIECE.findall(expanded):
        if directive == "%":
            pieces.append(("literal", "%"))
        elif directive:
            if directive not in DIRECTIVES:
                known = ", ".join(f"%{letter}" for letter in (*DIRECTIVES, *_SHORT))
                raise ValueError(f"%{directive} is not understood in a format; understood are {known}")
            pieces.append(("directive", directive))
        elif blank:
            pieces.append(("blank", ""))
        elif literal:
            pieces.append(("literal", literal))
        else:
            raise ValueError("a format ends in %")
    _check(format_, [letter for kind, letter in pieces if kind == "directive"])
    return tuple(pieces)


def _check(format_: str, letters: list[str]) -> None:
    said = [DIRECTIVES[letter] for letter in letters]
    if repeated := sorted({part for part in said if said.count(part) > 1}):
        raise ValueError(f"the format {format_!r} gives the {repeated[0]} twice")
    if "year" not in said or not ({"month", "day"} <= set(said) or "day of year" in said):
        raise ValueError(f"the format {format_!r} needs a year, a month and a day (%Y, %m, %d), or %Y and %j")
    if "day of year" in said and {"month", "day"} & set(said):
        raise ValueError(f"the format {format_!r} gives the day twice: %j beside a month or a day")
    if ("I" in letters) != ("p" in letters):
        raise ValueError(f"the format {format_!r}: %I (1 to 12) needs %p (AM or PM), and %p needs %I")
    needed = {"minute": "hour", "second": "minute", "fraction": "second", "zone": "hour"}
    for part, before in needed.items():
        if part in said and before not in said:
            raise ValueError(f"the format {format_!r} has a {part} but no {before}")
