"""What the cells of made tables hold: of every column its ordinary values, from one end of its domain to the other, and
its odd ones; ids, in several types and spellings, and what is nobody's.

`rng` decides everything: a `random.Random`, or what Hypothesis gives for one, which then finds small examples.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from understudy.pipelines.spec.columns import BooleanColumn, CategoryColumn, TensorColumn
from understudy.pipelines.spec.dates import DateColumn, DatetimeColumn
from understudy.pipelines.spec.derived import LaterColumn
from understudy.pipelines.spec.numbers import IntegerColumn, NumberColumn
from understudy.pipelines.spec.open import OpenColumn

Cell = Any
Row = dict[str, Cell]
Tables: TypeAlias = pa.Table | Mapping[str, pa.Table]
"""What one release reads: a table, or several by name."""
SOMEBODY = 77
OWN_CLASS = "a class of one's own"
_EPOCH = dt.datetime(1970, 1, 1)
_FAR_DAYS = (dt.date(1, 1, 1), dt.date(9999, 12, 31))


@dataclass(frozen=True)
class Values:
    """How a column is stored, its ordinary cells from one end of the domain to the other, and its odd ones."""

    type: pa.DataType
    plain: tuple[Cell, ...]
    odd: tuple[Cell, ...]


OPEN_CORNER = Values(pa.string(), ("1", "12.5"), ())
"""Of a column of which something is left open: at once a word, a number and a value."""


@dataclass(frozen=True)
class Pair:
    """What two releases read that differ in one unit; of trees, tables by name. `habit` says how they were made."""

    table: Tables
    neighbour: Tables
    habit: str
    nothing_moves: bool = False
    """Whether they differ in rows alone that are nobody's, and so in no number."""


def table_of(columns: dict[str, Values], others: list[Row], unit: list[Row], places: list[float]) -> pa.Table:
    """The unit's rows among the others, which stay in their order."""
    ordered = sorted(zip(places, [*others, *unit], strict=False), key=lambda each: each[0])
    return pa.table(
        {
            name: pa.array([row[name] for _, row in ordered], values.type)
            if not pa.types.is_dictionary(values.type)
            else pa.array([row[name] for _, row in ordered], values.type.value_type).dictionary_encode()
            for name, values in columns.items()
        }
    )


def quoted(row: Row, columns: dict[str, Values], rng: random.Random) -> Row:
    """Now and then a text is a single quote, which some readers of files never see closed."""
    texts = [name for name, values in columns.items() if pa.types.is_string(values.type)]
    return {**row, rng.choice(texts): '"'} if texts and rng.random() < 0.2 else row


def row_of(columns: dict[str, Values], rng: random.Random, habit: str, upper: bool = True) -> Row:
    row = {}
    for name, values in columns.items():
        if habit in ("corners", "lone cell"):
            row[name] = values.plain[-1 if upper else 0]
        elif habit in (OWN_CLASS, "own class") and _holds_words(values):
            row[name] = values.plain[0] if habit == OWN_CLASS else rng.choice((values.plain[-1], "a word of its own"))
        elif rng.random() < (0.6 if habit == "odd" else 0.15):
            row[name] = rng.choice(values.odd)
        else:
            row[name] = rng.choice(values.plain)
    return row


def _holds_words(values: Values) -> bool:
    return bool(pa.types.is_dictionary(values.type) or pa.types.is_string(values.type))


def open_values(column: OpenColumn, rng: random.Random) -> Values:
    """Of a column of which nothing is known: words, numbers or dates that many share, among what one alone has."""
    alone = ("only Alice", "", None, "x" * 400, "250.83", "V27", "1e400", "nan", "2026-13-45", " a ", "\x00", "9" * 30)
    kinds = {None: ("words", "numbers", "dates", "doubles"), "category": ("words",), "date": ("dates",)}
    match rng.choice(kinds.get(column.kind, ("numbers", "doubles"))):
        case "words":
            return Values(pa.string(), ("a", "b", "c"), alone)
        case "numbers":
            return Values(pa.string(), ("1", "12", "12.5", "40000"), alone)
        case "dates":
            return Values(pa.date32(), (dt.date(2024, 1, 1), dt.date(2025, 5, 5)), (None, *_FAR_DAYS))
        case _:
            return Values(pa.float64(), (0.0, 1.0, 9.99, -250.0), (None, math.nan, math.inf, 5e-324, 1e308, -1e308))


def values_of(column: Any, as_text: bool) -> Values:
    match column:
        case NumberColumn():
            low, high = float(column.min), float(column.max)
            plain = (low, low + (high - low) / 3, (low + high) / 2, high)
            odd = (math.nan, math.inf, -math.inf, 1e308, -1e308, low - 1, high + 1, None, -0.0, 5e-324)
            return _texts(plain, odd) if as_text else Values(pa.float64(), plain, odd)
        case IntegerColumn():
            bounds = int(column.min), int(column.max)
            wholes = (bounds[0], (bounds[0] + bounds[1]) // 2, bounds[1])
            strange = (2**63 - 1, -(2**63), None, bounds[0] - 1, min(bounds[1] + 1, 2**63 - 1))
            return _texts(wholes, strange) if as_text else Values(pa.int64(), wholes, strange)
        case CategoryColumn():
            words = tuple(str(value) for value in column.values)
            type_ = pa.dictionary(pa.int32(), pa.string()) if as_text else pa.string()
            return Values(
                type_, words, (None, "", "nobody listed this", f" {words[0]} ", words[-1].upper(), "\x00", "é" * 50)
            )
        case BooleanColumn():
            if as_text:
                return Values(pa.string(), ("false", "true"), (None, "", "perhaps", "1", "NO", "2"))
            return Values(pa.bool_(), (False, True), (None,))
        case DateColumn():
            days = column.min, column.max
            odd_days = (None, *_FAR_DAYS)
            return _texts(days, odd_days) if as_text else Values(pa.date32(), days, odd_days)
        case TensorColumn():
            return _tensors(column)
        case DatetimeColumn() | LaterColumn():
            moments = _moments(column)
            odd_moments = (None, dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59), _EPOCH)
            return _texts(moments, odd_moments) if as_text else Values(pa.timestamp("us"), moments, odd_moments)
    raise NotImplementedError(f"no made values are known for {type(column).__name__}")


def _moments(column: DatetimeColumn | LaterColumn) -> tuple[dt.datetime, dt.datetime]:
    first, last = getattr(column, "min", None), getattr(column, "max", None)
    low = first if isinstance(first, dt.datetime) else dt.datetime(2026, 1, 1)
    high = last if isinstance(last, dt.datetime) else dt.datetime(2026, 12, 31)
    return low.replace(tzinfo=None), high.replace(tzinfo=None)


def _texts(plain: Sequence[Cell], odd: Sequence[Cell]) -> Values:
    """The same as text, with what is no number and no date among the odd ones."""
    written = [None if value is None else str(value) for value in odd]
    return Values(pa.string(), tuple(map(str, plain)), (*written, "", "x", "1e400", "2026-13-45", "٣", '"', "1,5"))


def _tensors(column: TensorColumn) -> Values:
    size = math.prod(column.shape)
    low, high = [float(column.min)] * size, [float(column.max)] * size
    odd: tuple[Cell, ...] = (None, [math.nan] * size, [math.inf] * size, low[:-1], [*high, 0.0], [1e308] * size)
    return Values(pa.list_(pa.float64()), (low, [(column.min + column.max) / 2] * size, high), odd)


def made_ids(rng: random.Random, as_text: bool) -> Values:
    """Few people, so that some are at their cap; and what is nobody."""
    people = tuple(range(1, 5))
    kinds: dict[str, Callable[[], Values]] = {
        "whole": lambda: Values(pa.int64(), people, (None, 2**63 - 1, -1, 0)),
        "double": lambda: Values(pa.float64(), tuple(map(float, people)), (None, math.nan, math.inf, -math.inf, -0.0)),
        "text": lambda: Values(pa.string(), tuple(map(str, people)), (None, "", "nan", "NaN", " ", "inf", "x", "1e1")),
        "coded": lambda: Values(
            pa.dictionary(pa.int32(), pa.float64()), tuple(map(float, people)), (None, math.nan, math.inf)
        ),
    }
    return kinds[rng.choice(("text",) if as_text else tuple(kinds))]()


def spellings(values: Values, rng: random.Random) -> list[Cell]:
    """Ids of one person in this column; or of nobody at all, of whom no row counts."""
    type_ = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if rng.random() < 0.15:
        return ids_of_nobody(values)
    if pa.types.is_string(type_):
        return rng.choice(
            ([str(SOMEBODY)], [f"{SOMEBODY}", f" {SOMEBODY}", f"{SOMEBODY}.0", f"0{SOMEBODY}", f"+{SOMEBODY}\t"])
        )
    return [float(SOMEBODY)] if pa.types.is_floating(type_) else [SOMEBODY]


def ids_of_nobody(values: Values) -> list[Cell]:
    type_ = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_floating(type_):
        return [None, math.nan, math.nan]
    return [None, "", "nan", "NaN", " "] if pa.types.is_string(type_) else [None]
