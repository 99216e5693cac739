"""Rules of `generate.rules` where a release has several tables, or keeps the entities of a flat one.

A rule speaks of the columns of one table and of those above it, as `visits.ward` and `patients.sex`; of a flat table,
as everywhere, by their names alone. It is a rule of the rows of the lowest table that it names, each beside the rows
above it: there it is read as any rule is (`rules`), over a table of these columns together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.rules import Rule
from understudy.pipelines.spec.tree import Tree
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.rules import allowed_cells, broken_rows

Place = tuple[str, int]
"""A column: its table, and its number in that table's domain."""

Domains = Mapping[str, TableDomain]


@dataclass(frozen=True, eq=False)
class TreeRule:
    """Rows of `table`, beside the rows above them, have codes of `places` that are `allowed`. `order` are two places
    whose values must not fall; where it follows from other orders, `rule` is None."""

    rule: Rule | None
    table: str
    places: tuple[Place, ...]
    allowed: npt.NDArray[np.bool_]
    order: tuple[Place, Place] | None = None


def tree_rules(rules: Sequence[Rule], tree: Tree, domains: Domains) -> tuple[TreeRule, ...]:
    """All that the rules ask, orders that follow from two others included. SpecError where one cannot be kept."""
    found = [_tree_rule(rule, tree, domains) for rule in rules]
    orders = {(rule.order[0], rule.order[1]) for rule in found if rule.order is not None}
    if orders:
        found += [_tree_rule(_order_rule(pair, tree, domains), tree, domains, implied=True)
                  for pair in sorted(_followed(orders, tree, domains) - orders)]  # fmt: skip
    return tuple(found)


def in_order(orders: Sequence[tuple[Place, Place]]) -> list[Place]:
    """The columns, each after all that come before it."""
    left, found = dict.fromkeys(place for pair in orders for place in pair), []
    while left:
        free = [place for place in left if not any(b == place and a in left for a, b in orders)]
        if not free:
            raise ValueError("orders that lead in a circle")
        found += free
        left = {place: None for place in left if place not in free}
    return found


def rows_breaking(rule: TreeRule, tables: Mapping[str, pa.Table], tree: Tree, domains: Domains) -> int:
    """How many rows of the rule's table break it, by their values. `tables` hold the modelled columns, and keys."""
    assert rule.rule is not None
    above, columns = _rows_above(rule.table, tables, tree), {}
    for table, number in rule.places:
        name = domains[table].names[number]
        values = tables[table].column(name)
        columns[_label((table, number), tree, domains)] = values if table == rule.table else values.take(above[table])
    return int(broken_rows(rule.rule, pa.table(columns), _together(rule.places, tree, domains)).sum())


def _tree_rule(rule: Rule, tree: Tree, domains: Domains, implied: bool = False) -> TreeRule:
    places = {name: _place(name, tree, domains) for name in rule.columns}
    table = _lowest({place[0] for place in places.values()}, tree, rule)
    domain = _together(tuple(places.values()), tree, domains)
    axes, allowed = allowed_cells(rule, domain)
    listed = list(places.values())
    order = (places[rule.order[0]], places[rule.order[1]]) if rule.order else None
    return TreeRule(None if implied else rule, table, tuple(listed[axis] for axis in axes), allowed, order)


def _together(places: Sequence[Place], tree: Tree, domains: Domains) -> TableDomain:
    """The columns as those of one table, by the names that rules have for them."""
    return TableDomain(
        tuple(
            replace(domains[table].columns[number], name=_label((table, number), tree, domains))
            for table, number in places
        )
    )


def _label(place: Place, tree: Tree, domains: Domains) -> str:
    table, number = place
    name = domains[table].names[number]
    return name if tree.is_implied else f"{table}.{name}"


def _place(name: str, tree: Tree, domains: Domains) -> Place:
    labels = {_label(place, tree, domains): place for place in _places(domains)}
    if name not in labels:
        what = "modelled column" if tree.is_implied else "modelled column of a table; say it as `table.column`"
        raise SpecError(f"generate.rules names {name!r}, which is no {what}", f"modelled: {', '.join(labels)}")
    return labels[name]


def _places(domains: Domains) -> Iterator[Place]:
    return ((table, number) for table, domain in domains.items() for number in range(len(domain.columns)))


def _lowest(tables: set[str], tree: Tree, rule: Rule) -> str:
    """The table below all others; the rule is one of its rows."""
    for table in tables:
        if tables <= {table, *(each.name for each in tree.above(table))}:
            return table
    raise SpecError(
        f"generate.rules: {rule}: no table of {', '.join(sorted(tables))} lies below all the others",
        "a rule is kept in every row beside the rows above it; name columns of one table and of those above it",
    )


def _order_rule(pair: tuple[Place, Place], tree: Tree, domains: Domains) -> Rule:
    return Rule(order=(_label(pair[0], tree, domains), _label(pair[1], tree, domains)))


def _followed(orders: set[tuple[Place, Place]], tree: Tree, domains: Domains) -> set[tuple[Place, Place]]:
    """All orders that follow from these. Refused where a value above would have to lie between those of different rows
    below, which no bin of its own can promise, and where a column would come after itself."""
    found, more = set(orders), set(orders)
    while more:
        more = {(a, d) for (a, b), (c, d) in product(found, found) if b == c} - found
        found |= more
    if any(a == b for a, b in found):
        raise SpecError("generate.rules order columns in a circle", "drop the rule that leads back")
    for (a, b), (c, d) in product(found, found):
        if b == c and _is_above(b[0], a[0], tree) and _is_above(b[0], d[0], tree):
            named = [_label(place, tree, domains) for place in (a, b, d)]
            raise SpecError(
                f"generate.rules: {named[0]} <= {named[1]} <= {named[2]}: all rows below would have to leave room for "
                "one value above them",
                "drop one of the two rules, or order the columns of the lower table themselves",
            )
    return found


def _is_above(table: str, below: str, tree: Tree) -> bool:
    return table in {each.name for each in tree.above(below)}


def _rows_above(name: str, tables: Mapping[str, pa.Table], tree: Tree) -> dict[str, pa.Array]:
    """Of every row of a table, the number of the row above it in each table above, by the published keys."""
    found: dict[str, pa.Array] = {}
    table, rows = tree.table(name), pa.array(np.arange(tables[name].num_rows))
    while table.parent is not None:
        parent = tree.table(table.parent)
        named = tables[table.name].column(table.by).combine_chunks()
        rows = pc.index_in(named, value_set=tables[parent.name].column(parent.key).combine_chunks()).take(rows)
        found[parent.name] = rows
        table = parent
    return found
