"""Made tables of a spec's domain and their neighbours, with the habits that broke contribution bounding, readers and
noise before: lone cells, farthest corners, people at and over their cap, ids that are no ids, spelled in several ways,
numbers that are none, words nobody listed.

`rng` decides everything: a `random.Random`, or what Hypothesis gives for one, which then finds small examples.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.sources.columns import is_read
from understudy.pipelines.spec.columns import BooleanColumn, CategoryColumn, TensorColumn
from understudy.pipelines.spec.dates import DateColumn, DatetimeColumn
from understudy.pipelines.spec.derived import LaterColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.numbers import IntegerColumn, NumberColumn
from understudy.pipelines.spec.open import OpenColumn

Cell = Any
Row = dict[str, Cell]
MOST_ROWS = 14
_SOMEBODY = 77
_CROWDS = (1, 1, 40, 150)
_OWN_CLASS = "a class of one's own"
_EPOCH = dt.datetime(1970, 1, 1)
_FAR_DAYS = (dt.date(1, 1, 1), dt.date(9999, 12, 31))


@dataclass(frozen=True)
class Values:
    """How a column is stored, its ordinary cells from one end of the domain to the other, and its odd ones."""

    type: pa.DataType
    plain: tuple[Cell, ...]
    odd: tuple[Cell, ...]


_OPEN_CORNER = Values(pa.string(), ("1", "12.5"), ())
"""Of a column of which something is left open: at once a word, a number and a value."""


@dataclass(frozen=True)
class Pair:
    """Two tables of one schema that differ in one unit. `habit` says how they were made."""

    table: pa.Table
    neighbour: pa.Table
    habit: str


def made_pair(spec: ReleaseSpec, rng: random.Random) -> Pair:
    """A table of a few rows and one of its neighbours under the spec's relation and unit."""
    columns = {
        name: _open_values(column, rng)
        if isinstance(column, OpenColumn)
        else _values_of(column, as_text=rng.random() < 0.3)
        for name, column in spec.columns.items()
        if is_read(column)
    }
    entity = spec.privacy.protected_unit.entity
    if entity is not None and entity not in columns:
        columns[entity] = _ids(rng, spec.privacy.protected_unit.ids_are_text)
    habits = (
        *("scattered", "lone cell", "corners", "odd", "nobody else", _OWN_CLASS),
        *(("nobody's",) if entity else ()),
    )
    habit = rng.choice(habits)
    if entity is not None and habit == "nobody's":
        return _of_nobody(columns, entity, spec.privacy.protected_unit.max_rows, rng)
    others = [] if habit == "nobody else" else [_row(columns, rng, habit) for _ in range(rng.randrange(MOST_ROWS))]
    if any(isinstance(column, OpenColumn) for column in spec.columns.values()):
        others = _crowd(others, columns, entity, rng.choice(_CROWDS))
    one, two = _units(spec, columns, rng, habit)
    if rng.random() < 0.5:
        one, two = two, one
    places = [rng.random() for _ in range(len(others) + len(one) + len(two))]
    table, neighbour = (_table(columns, others, unit, places) for unit in (one, two))
    return Pair(table, neighbour, habit)


def _crowd(rows: list[Row], columns: dict[str, Values], entity: str | None, times: int) -> list[Row]:
    """As many who hold the same: what nobody shares is never found. They are other people each time."""
    if entity is None:
        return rows * times
    type_ = columns[entity].type
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    named: Callable[[int], Cell] = str if pa.types.is_string(plain) else float if pa.types.is_floating(plain) else int
    return [
        *rows,
        *({**row, entity: named(1000 + 20 * turn + i)} for turn in range(times) for i, row in enumerate(rows)),
    ]


def corner_pairs(spec: ReleaseSpec) -> list[tuple[pa.Table, pa.Table]]:
    """Candidates for a worst case: nobody and a unit in a corner; of replaced units two that differ in all, in half or
    in one of their columns."""
    columns = {
        name: _OPEN_CORNER if isinstance(column, OpenColumn) else _values_of(column, as_text=False)
        for name, column in spec.columns.items()
        if is_read(column)
    }
    unit = spec.privacy.protected_unit
    if unit.entity is not None and unit.entity not in columns:
        columns[unit.entity] = Values(pa.int64(), (_SOMEBODY,), ())
    upper = {name: values.plain[-1] for name, values in columns.items()}
    lower = {name: values.plain[0] for name, values in columns.items()}

    def unit_of(row: Row) -> pa.Table:
        return _table(columns, [row] * unit.max_rows, [], [0.0] * unit.max_rows)

    if spec.privacy.relation is not Relation.REPLACE_ONE:
        nobody = _table(columns, [], [], [])
        return [(nobody, unit_of(upper)), (nobody, unit_of(lower))]
    names = list(columns)
    parts = [names, names[::2], names[1::2], *([name] for name in names)]
    others = [{**upper, **{name: lower[name] for name in part}} for part in parts if part]
    return [(unit_of(other), unit_of(upper)) for other in others]


@dataclass(frozen=True)
class Canaries:
    """Made units of one row each, any of which can be put into a table."""

    columns: dict[str, Values]
    rows: tuple[Row, ...]

    def table(self, chosen: Sequence[int], beside: Sequence[Row] = ()) -> pa.Table:
        rows = [*beside, *(self.rows[place] for place in chosen)]
        return _table(self.columns, rows, [], [0.0] * len(rows))


def canaries_of(spec: ReleaseSpec, count: int, rng: random.Random) -> Canaries:
    """As different from each other as the domain allows: every value of a column in turn, in another order each."""
    columns = {name: _values_of(column, as_text=False) for name, column in spec.columns.items() if is_read(column)}
    entity = spec.privacy.protected_unit.entity
    orders = {name: rng.sample(values.plain, len(values.plain)) for name, values in columns.items()}
    rows: list[Row] = [
        {
            name: order[place % len(order)] if len(order) >= count else rng.choice(order)
            for name, order in orders.items()
        }
        for place in range(count)
    ]
    if entity is not None and entity not in columns:
        columns = {**columns, entity: Values(pa.int64(), (_SOMEBODY,), ())}
        rows = [{**row, entity: place} for place, row in enumerate(rows)]
    return Canaries(columns, tuple(rows))


def farthest(spec: ReleaseSpec) -> Row:
    """The last value of every column."""
    columns = {name: _values_of(column, as_text=False) for name, column in spec.columns.items() if is_read(column)}
    return {name: values.plain[-1] for name, values in columns.items()}


def _of_nobody(columns: dict[str, Values], entity: str, most: int, rng: random.Random) -> Pair:
    """Rows without an id at both ends of the domain: taken for one person, those of one end would push out others."""
    nobody = _nobody(columns[entity])
    one, two = (
        [{**_row(columns, rng, "corners", upper=upper), entity: rng.choice(nobody)} for _ in range(most + 2)]
        for upper in (False, True)
    )
    places = [0.0] * (len(one) + len(two))
    return Pair(_table(columns, one, [], places), _table(columns, one, two, places), "nobody's")


def _units(
    spec: ReleaseSpec, columns: dict[str, Values], rng: random.Random, habit: str
) -> tuple[list[Row], list[Row]]:
    """The rows of the unit that is there, and those of the one in its place: none, where it is added or removed."""
    unit, replaced = spec.privacy.protected_unit, spec.privacy.relation is Relation.REPLACE_ONE
    far = "corners" if habit in ("corners", "lone cell") else "own class" if habit == _OWN_CLASS else habit
    if unit.entity is None:
        first, second = (_quoted(_row(columns, rng, far, upper), columns, rng) for upper in (True, False))
        return [first], [second] if replaced else []
    sizes = (0, 1, max(1, unit.max_rows - 1), unit.max_rows, unit.max_rows + 1, unit.max_rows + 5)
    found: list[list[Row]] = []
    for upper in (True, False):
        ids = _spellings(columns[unit.entity], rng)
        lone = _row(columns, rng, far, upper=upper)
        rows = [
            lone if habit == "lone cell" else _row(columns, rng, far, upper=upper) for _ in range(rng.choice(sizes))
        ]
        found.append([{**_quoted(row, columns, rng), unit.entity: rng.choice(ids)} for row in rows])
    return found[0], found[1] if replaced else []


def _quoted(row: Row, columns: dict[str, Values], rng: random.Random) -> Row:
    """Now and then a text is a single quote, which some readers of files never see closed."""
    texts = [name for name, values in columns.items() if pa.types.is_string(values.type)]
    return {**row, rng.choice(texts): '"'} if texts and rng.random() < 0.2 else row


def _table(columns: dict[str, Values], others: list[Row], unit: list[Row], places: list[float]) -> pa.Table:
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


def _row(columns: dict[str, Values], rng: random.Random, habit: str, upper: bool = True) -> Row:
    row = {}
    for name, values in columns.items():
        if habit in ("corners", "lone cell"):
            row[name] = values.plain[-1 if upper else 0]
        elif habit in (_OWN_CLASS, "own class") and _holds_words(values):
            row[name] = values.plain[0] if habit == _OWN_CLASS else rng.choice((values.plain[-1], "a word of its own"))
        elif rng.random() < (0.6 if habit == "odd" else 0.15):
            row[name] = rng.choice(values.odd)
        else:
            row[name] = rng.choice(values.plain)
    return row


def _holds_words(values: Values) -> bool:
    return bool(pa.types.is_dictionary(values.type) or pa.types.is_string(values.type))


def _open_values(column: OpenColumn, rng: random.Random) -> Values:
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


def _values_of(column: Any, as_text: bool) -> Values:
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


def _ids(rng: random.Random, as_text: bool) -> Values:
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


def _spellings(values: Values, rng: random.Random) -> list[Cell]:
    """Ids of one person in this column; or of nobody at all, of whom no row counts."""
    type_ = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if rng.random() < 0.15:
        return _nobody(values)
    if pa.types.is_string(type_):
        return rng.choice(
            ([str(_SOMEBODY)], [f"{_SOMEBODY}", f" {_SOMEBODY}", f"{_SOMEBODY}.0", f"0{_SOMEBODY}", f"+{_SOMEBODY}\t"])
        )
    return [float(_SOMEBODY)] if pa.types.is_floating(type_) else [_SOMEBODY]


def _nobody(values: Values) -> list[Cell]:
    type_ = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_floating(type_):
        return [None, math.nan, math.nan]
    return [None, "", "nan", "NaN", " "] if pa.types.is_string(type_) else [None]
