"""Made trees of tables and their neighbours: one root with everything attributed to it, more, less or another one.

Habits: rows at and over every bound, families in one corner or scattered; ids that two families share, that stand twice
under one parent, that nobody bears, that are none, spelled in several ways and of other types in every table; a root
of several rows, and none; a neighbour whose rows lie in another order, since a table is a set of rows. Who is taken out
is told by `attributing`, not by the code under audit.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pyarrow as pa

from understudy.pipelines.auditing.attributing import roots_of
from understudy.pipelines.auditing.values import (
    OPEN_CORNER,
    SOMEBODY,
    Cell,
    Pair,
    Row,
    Values,
    ids_of_nobody,
    made_ids,
    open_values,
    row_of,
    table_of,
    values_of,
)
from understudy.pipelines.discovery.asking import open_columns
from understudy.pipelines.discovery.tree_tallying import known_domains
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.sources.columns import is_read
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.open import OpenColumn
from understudy.pipelines.spec.tree import Tree, TreeTable
from understudy.pipelines.table.domain import TableDomain

HABITS = ("scattered", "one cell", "shared ids", "at every bound", "odd", "nobody's")
ANOTHER = SOMEBODY + 1
CROWDS = (0, 40, 150)
CROWDED = 1000
"""The first key of a crowd."""
_RATHER_ODD = 0.8
"""How often a neighbour differs in one of the few families that are unlike each other, where there is a crowd."""
MOST_ROWS = 48
"""Of one table: bounds multiply along the way from the root."""

Columns = dict[str, Values]
Rows = dict[str, list[Row]]


def made_families(spec: ReleaseSpec, rng: random.Random) -> Pair:
    """Tables of a few families, and one of their neighbours under the spec's relation."""
    tree, habit = spec.tree, rng.choice(HABITS)
    assert tree is not None
    columns = {name: _columns(spec, name, rng) for name in tree.names}
    maker = _Maker(tree, columns, rng, habit)
    for person in range(1, rng.randrange(1, 5)):
        maker.family(person, upper=rng.random() < 0.5)
    maker.family(SOMEBODY, upper=True)
    maker.family(ANOTHER, upper=False)
    if open_columns(spec):
        maker.crowd(rng.choice(CROWDS))
    maker.strays()
    for rows in maker.rows.values():
        rng.shuffle(rows)
    whole = {name: table_of(columns[name], rows, [], [0.0] * len(rows)) for name, rows in maker.rows.items()}
    owners = _owners(whole, spec)
    if habit == "nobody's":
        strays = {name: [root is not None for root in its] for name, its in owners.items()}
        return Pair(whole, _in_any_order(_taken(whole, strays), rng), habit, nothing_moves=True)
    roots = list(dict.fromkeys(root for root in owners[tree.root.name] if root is not None))
    crowd = {root for root, row in zip(owners[tree.root.name], maker.rows[tree.root.name], strict=True)
             if row[str(tree.root.key)] in maker.crowded}  # fmt: skip
    odd = [root for root in roots if root not in crowd]
    mine = rng.choice(odd if odd and rng.random() < _RATHER_ODD else roots) if roots else None
    theirs = rng.choice([root for root in roots if root != mine] or [None])
    less = [_taken(whole, {name: [root is None or root != out for root in its] for name, its in owners.items()})
            for out in (mine, theirs)]  # fmt: skip
    one, other = less if spec.privacy.relation is Relation.REPLACE_ONE else (whole, less[0])
    one, other = (one, other) if rng.random() < 0.5 else (other, one)
    return Pair(one, _in_any_order(other, rng), habit)


def corner_families(spec: ReleaseSpec) -> list[tuple[Mapping[str, pa.Table], Mapping[str, pa.Table]]]:
    """Candidates for a worst case: nobody and one family of equal rows, of one row a table, of two, of as many as
    there may be; where one is replaced, families in two corners."""
    tree = spec.tree
    assert tree is not None
    found = []
    for most in (1, 2, max(table.max_rows for table in tree.tables)):
        one, other = (_corner_family(spec, most, upper) for upper in (True, False))
        nobody = {name: table.slice(0, 0) for name, table in one.items()}
        found.append((other if spec.privacy.relation is Relation.REPLACE_ONE else nobody, one))
    return found


def _corner_family(spec: ReleaseSpec, most: int, upper: bool) -> Mapping[str, pa.Table]:
    tree = spec.tree
    assert tree is not None
    columns, keys, found = {name: _corner_columns(spec, name) for name in tree.names}, [SOMEBODY], {}
    under = {tree.root.name: [SOMEBODY]}
    for table in tree.tables:
        place = -1 if upper else 0
        cells = {name: values.plain[place] for name, values in columns[table.name].items()}
        rows = []
        for parent in under[str(table.parent)] if table.parent is not None else [SOMEBODY]:
            for _ in range(min(most, table.max_rows) if table.parent is not None else 1):
                keys.append(keys[-1] + 1)
                own = SOMEBODY if table.parent is None else keys[-1]
                named = {table.by: parent} if table.by is not None else {}
                rows.append({**cells, **named, **({table.key: own} if table.key in cells else {})})
                under.setdefault(table.name, []).append(own)
        found[table.name] = table_of(columns[table.name], rows, [], [0.0] * len(rows))
    return found


def _corner_columns(spec: ReleaseSpec, name: str) -> Columns:
    assert spec.tree is not None
    modelled = {
        each: OPEN_CORNER if isinstance(column, OpenColumn) else values_of(column, as_text=False)
        for each, column in spec.table(name).columns.items()
        if is_read(column)
    }
    return modelled | {key: Values(pa.int64(), (SOMEBODY,), ()) for key in spec.tree.keys_read(name)}


class _Maker:
    """Puts families together, table by table."""

    def __init__(self, tree: Tree, columns: Mapping[str, Columns], rng: random.Random, habit: str) -> None:
        self.tree, self.columns, self.rng, self.habit = tree, columns, rng, habit
        self.rows: Rows = {name: [] for name in tree.names}
        self.crowded: set[Cell] = set()
        self._next = 100
        equal = {"one cell": 1.0, "at every bound": 1.0, "shared ids": 0.7}.get(habit, 0.0)
        self._how = "odd" if habit == "odd" else "corners" if rng.random() < equal else "scattered"

    def family(self, person: int, upper: bool) -> None:
        """A root, seldom of two rows or of none, and what lies below it."""
        often = self.rng.choice((1, 1, 1, 1, 2, 0))
        for _ in range(often):
            self._add(self.tree.root, {str(self.tree.root.key): person}, upper)
        self._below(self.tree.root, [person], upper)

    def crowd(self, families: int) -> None:
        """As many who hold the same, one row a table: what nobody shares is never found."""
        rows = {
            name: {column: self.rng.choice(values.plain) for column, values in its.items()}
            for name, its in self.columns.items()
        }
        for number in range(families):
            for table in self.tree.tables:
                ids = {str(table.key): CROWDED + number, str(table.by): CROWDED + number}
                columns = self.columns[table.name]
                named = {name: _plainly(key, columns[name]) for name, key in ids.items() if name in columns}
                self.crowded.add(named.get(str(self.tree.root.key)))
                self.rows[table.name].append({**rows[table.name], **named})

    def strays(self) -> None:
        """Rows that name nobody: a key that no row bears, or none."""
        for table in self.tree.tables:
            for _ in range(self.rng.choice((0, 0, 2, 5)) + 3 * (self.habit == "nobody's")):
                lost = {name: self.rng.choice((None, 999_999)) for name in (table.by,) if name is not None}
                self._add(table, {**lost, **({str(table.key): None} if table.parent is None else {})}, upper=True)

    def _below(self, parent: TreeTable, keys: Sequence[int], upper: bool) -> None:
        for table in self.tree.children(parent.name):
            below: list[int] = []
            for key in keys:
                for _ in range(self._number(table.max_rows)):
                    if len(self.rows[table.name]) < MOST_ROWS:
                        below.append(self._key())
                        self._add(table, {str(table.by): key, str(table.key): below[-1]}, upper)
            self._below(table, list(dict.fromkeys(below)), upper)

    def _number(self, bound: int) -> int:
        if self.habit == "at every bound":
            return self.rng.choice((bound, bound, bound + 1, bound + 4))
        return self.rng.choice((0, 1, 1, max(1, bound - 1), bound, bound + 1))

    def _key(self) -> int:
        """Of its own, or one that others bear as well: of another family, or of a sibling."""
        self._next += 1
        shared = self.rng.random() < (0.5 if self.habit == "shared ids" else 0.1)
        return self.rng.randrange(100, 104) if shared else self._next

    def _add(self, table: TreeTable, keys: Mapping[str, int | None], upper: bool) -> None:
        columns = self.columns[table.name]
        ids = {name: _spelled(key, columns[name], self.rng) for name, key in keys.items() if name in columns}
        self.rows[table.name].append({**row_of(columns, self.rng, self._how, upper), **ids})


def _columns(spec: ReleaseSpec, name: str, rng: random.Random) -> Columns:
    """Keys are of another type in every table: 7 in one and "7" in another are one key."""
    assert spec.tree is not None
    modelled = {
        each: open_values(column, rng) if isinstance(column, OpenColumn) else values_of(column, rng.random() < 0.3)
        for each, column in spec.table(name).columns.items()
        if is_read(column)
    }
    as_text = spec.privacy.protected_unit.ids_are_text
    return modelled | {key: made_ids(rng, as_text) for key in spec.tree.keys_read(name)}


def _spelled(key: int | None, values: Values, rng: random.Random) -> Cell:
    if key is None:
        return rng.choice(ids_of_nobody(values))
    plain = _plainly(key, values)
    return rng.choice((plain, plain, f" {key}", f"{key}.0", f"0{key}", f"+{key}\t")) if plain == str(key) else plain


def _plainly(key: int, values: Values) -> Cell:
    type_ = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_string(type_):
        return str(key)
    return float(key) if pa.types.is_floating(type_) else key


def _owners(tables: Mapping[str, pa.Table], spec: ReleaseSpec) -> dict[str, list[object]]:
    assert spec.tree is not None
    if open_columns(spec):
        domains = known_domains(spec)
    else:
        domains = {name: TableDomain.of(spec.table(name)) for name in spec.tree.names}
    return {name: list(roots) for name, roots in roots_of(tables, spec, domains).items()}


def _taken(tables: Mapping[str, pa.Table], stays: Mapping[str, Sequence[bool]]) -> dict[str, pa.Table]:
    return {name: table.filter(pa.array(stays[name], pa.bool_())) for name, table in tables.items()}


def _in_any_order(tables: Mapping[str, pa.Table], rng: random.Random) -> Mapping[str, pa.Table]:
    if rng.random() < 0.5:
        return tables
    orders = {name: pa.array(rng.sample(range(len(table)), len(table)), pa.int64()) for name, table in tables.items()}
    return {name: table.take(orders[name]) for name, table in tables.items()}
