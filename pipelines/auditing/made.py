"""Made tables of a spec's domain and their neighbours, with the habits that broke contribution bounding, readers and
noise before: lone cells, farthest corners, people at and over their cap, ids that are no ids, spelled in several ways,
numbers that are none, words nobody listed.

`rng` decides everything: a `random.Random`, or what Hypothesis gives for one, which then finds small examples.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from understudy.pipelines.auditing.families import corner_families, made_families
from understudy.pipelines.auditing.values import (
    OPEN_CORNER,
    OWN_CLASS,
    SOMEBODY,
    Cell,
    Pair,
    Row,
    Tables,
    Values,
    ids_of_nobody,
    made_ids,
    open_values,
    quoted,
    row_of,
    spellings,
    table_of,
    values_of,
)
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.sources.columns import is_read
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.open import OpenColumn

MOST_ROWS = 14
_CROWDS = (1, 1, 40, 150)


def made_pair(spec: ReleaseSpec, rng: random.Random) -> Pair:
    """A table of a few rows and one of its neighbours under the spec's relation and unit; of a tree, its tables."""
    if spec.tables is not None:
        return made_families(spec, rng)
    columns = {
        name: open_values(column, rng)
        if isinstance(column, OpenColumn)
        else values_of(column, as_text=rng.random() < 0.3)
        for name, column in spec.columns.items()
        if is_read(column)
    }
    entity = spec.privacy.protected_unit.entity
    if entity is not None and entity not in columns:
        columns[entity] = made_ids(rng, spec.privacy.protected_unit.ids_are_text)
    habits = (
        *("scattered", "lone cell", "corners", "odd", "nobody else", OWN_CLASS),
        *(("nobody's",) if entity else ()),
    )
    habit = rng.choice(habits)
    if entity is not None and habit == "nobody's":
        return _of_nobody(columns, entity, spec.privacy.protected_unit.max_rows, rng)
    others = [] if habit == "nobody else" else [row_of(columns, rng, habit) for _ in range(rng.randrange(MOST_ROWS))]
    if any(isinstance(column, OpenColumn) for column in spec.columns.values()):
        others = _crowd(others, columns, entity, rng.choice(_CROWDS))
    one, two = _units(spec, columns, rng, habit)
    if rng.random() < 0.5:
        one, two = two, one
    places = [rng.random() for _ in range(len(others) + len(one) + len(two))]
    table, neighbour = (table_of(columns, others, unit, places) for unit in (one, two))
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


def corner_pairs(spec: ReleaseSpec) -> Sequence[tuple[Tables, Tables]]:
    """Candidates for a worst case: nobody and a unit in a corner; of replaced units two that differ in all, in half or
    in one of their columns."""
    if spec.tables is not None:
        return corner_families(spec)
    columns = {
        name: OPEN_CORNER if isinstance(column, OpenColumn) else values_of(column, as_text=False)
        for name, column in spec.columns.items()
        if is_read(column)
    }
    unit = spec.privacy.protected_unit
    if unit.entity is not None and unit.entity not in columns:
        columns[unit.entity] = Values(pa.int64(), (SOMEBODY,), ())
    upper = {name: values.plain[-1] for name, values in columns.items()}
    lower = {name: values.plain[0] for name, values in columns.items()}

    def unit_of(row: Row) -> pa.Table:
        return table_of(columns, [row] * unit.max_rows, [], [0.0] * unit.max_rows)

    if spec.privacy.relation is not Relation.REPLACE_ONE:
        nobody = table_of(columns, [], [], [])
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
        return table_of(self.columns, rows, [], [0.0] * len(rows))


def canaries_of(spec: ReleaseSpec, count: int, rng: random.Random) -> Canaries:
    """As different from each other as the domain allows: every value of a column in turn, in another order each."""
    columns = {name: values_of(column, as_text=False) for name, column in spec.columns.items() if is_read(column)}
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
        columns = {**columns, entity: Values(pa.int64(), (SOMEBODY,), ())}
        rows = [{**row, entity: place} for place, row in enumerate(rows)]
    return Canaries(columns, tuple(rows))


def farthest(spec: ReleaseSpec) -> Row:
    """The last value of every column."""
    columns = {name: values_of(column, as_text=False) for name, column in spec.columns.items() if is_read(column)}
    return {name: values.plain[-1] for name, values in columns.items()}


def _of_nobody(columns: dict[str, Values], entity: str, most: int, rng: random.Random) -> Pair:
    """Rows without an id at both ends of the domain: taken for one person, those of one end would push out others."""
    nobody = ids_of_nobody(columns[entity])
    one, two = (
        [{**row_of(columns, rng, "corners", upper=upper), entity: rng.choice(nobody)} for _ in range(most + 2)]
        for upper in (False, True)
    )
    places = [0.0] * (len(one) + len(two))
    return Pair(table_of(columns, one, [], places), table_of(columns, one, two, places), "nobody's", nothing_moves=True)


def _units(
    spec: ReleaseSpec, columns: dict[str, Values], rng: random.Random, habit: str
) -> tuple[list[Row], list[Row]]:
    """The rows of the unit that is there, and those of the one in its place: none, where it is added or removed."""
    unit, replaced = spec.privacy.protected_unit, spec.privacy.relation is Relation.REPLACE_ONE
    far = "corners" if habit in ("corners", "lone cell") else "own class" if habit == OWN_CLASS else habit
    if unit.entity is None:
        first, second = (quoted(row_of(columns, rng, far, upper), columns, rng) for upper in (True, False))
        return [first], [second] if replaced else []
    sizes = (0, 1, max(1, unit.max_rows - 1), unit.max_rows, unit.max_rows + 1, unit.max_rows + 5)
    found: list[list[Row]] = []
    for upper in (True, False):
        ids = spellings(columns[unit.entity], rng)
        lone = row_of(columns, rng, far, upper=upper)
        rows = [
            lone if habit == "lone cell" else row_of(columns, rng, far, upper=upper) for _ in range(rng.choice(sizes))
        ]
        found.append([{**quoted(row, columns, rng), unit.entity: rng.choice(ids)} for row in rows])
    return found[0], found[1] if replaced else []
