"""Codes of a tree to typed tables whose keys fit. Post-processing: it sees codes and public domains only.

Keys are fresh: 1, 2, ... of each table in its own order, and whoever names a parent names it by that. Of families that
are made in parts, each part's keys lie above all that the roots before it could have used up. A flat table that keeps
its entities is put together again from its two parts: what is constant for an entity is decoded once for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from understudy.pipelines.methods.tree.generating.ordering import keep_order
from understudy.pipelines.methods.tree.generating.tree_codes import TreeCodes
from understudy.pipelines.spec.tree import ENTITIES, ROWS, Tree, TreeTable
from understudy.pipelines.table.coding.decode import decode_column
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.finishing import finished
from understudy.pipelines.table.keeping import Types
from understudy.pipelines.table.synthetic import Synthetic
from understudy.pipelines.table.synthetic_tree import SyntheticTree
from understudy.pipelines.table.tree_rules import Place

FloatArray = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
Orders = Sequence[tuple[Place, Place]]


def decode_tree(
    made: TreeCodes,
    tree: Tree,
    domains: Mapping[str, TableDomain],
    rng: np.random.Generator,
    types: Mapping[str, Types] | None = None,
    orders: Orders = (),
    roots_before: int = 0,
) -> SyntheticTree:
    """The published tables of a tree; `types` are those of the source's columns, by table, `orders` what rules ask."""
    keys = first_keys(tree, roots_before)
    generated, tables = _in_order(made, tree, domains, orders, rng, keys), {}
    for name, rows in generated.items():
        domain = domains[name]
        tables[name] = Synthetic(finished(rows, domain, (types or {}).get(name), rng), domain)
    return SyntheticTree(tables)


def decode_flat(
    made: TreeCodes,
    tree: Tree,
    domains: Mapping[str, TableDomain],
    whole: TableDomain,
    rng: np.random.Generator,
    types: Types | None = None,
    orders: Orders = (),
    roots_before: int = 0,
) -> Synthetic:
    """The flat table of an implied tree, its rows by entity and in order; `whole` is its domain."""
    entity, parent, keys = tree.root.key, pa.array(made.parent[ROWS]), first_keys(tree, roots_before)
    generated = _in_order(made, tree, domains, orders, rng, keys)
    above, below = generated[ENTITIES], generated[ROWS]
    columns = {name: below[name].combine_chunks() for name in below.column_names}
    columns |= {name: above[name].combine_chunks().take(parent) for name in above.column_names if name != entity}
    own = pa.array(np.arange(below.num_rows) + keys[ROWS])
    columns |= {name: own for name in whole.surrogates if name not in columns}
    columns |= {name: pa.array(made.parent[ROWS] + keys[ENTITIES]) for name in whole.surrogates if name == entity}
    generated = pa.table([columns[name] for name in whole.generated_names], names=list(whole.generated_names))
    return Synthetic(finished(generated, whole, types, rng), whole)


def _in_order(
    made: TreeCodes,
    tree: Tree,
    domains: Mapping[str, TableDomain],
    orders: Orders,
    rng: np.random.Generator,
    keys: Mapping[str, int],
) -> dict[str, pa.Table]:
    """All tables with typed columns, the values of some of which were put in order."""
    tables = {table.name: _generated(made, table, domains[table.name], rng, keys) for table in tree.tables}
    columns = {place: domains[place[0]].columns[place[1]] for pair in orders for place in pair}
    values = {(table, i): _numbers(tables[table].column(each.name)) for (table, i), each in columns.items()}
    if orders:
        keep_order(values, orders, made, tree, domains, rng)
    for (table, i), each in columns.items():
        number = tables[table].column_names.index(each.name)
        tables[table] = tables[table].set_column(number, each.name, _typed(values[table, i], each))
    return tables


def first_keys(tree: Tree, roots_before: int) -> dict[str, int]:
    """The first key of each table in a part of the families that has so many roots before it."""
    return {table.name: 1 + roots_before * tree.most_rows(table.name) for table in tree.tables}


def _generated(
    made: TreeCodes, table: TreeTable, domain: TableDomain, rng: np.random.Generator, first: Mapping[str, int]
) -> pa.Table:
    """Typed columns of one table, before parts are put together, with its keys."""
    codes, named = made.codes[table.name], {}
    rows = np.arange(len(codes), dtype=np.int64) + first[table.name]
    if table.by is not None and table.parent is not None and table.name in made.parent:
        named[table.by] = made.parent[table.name] + first[table.parent]
    arrays = [pa.array(named.get(name, rows)) for name in domain.surrogates]
    for index, column in enumerate(domain.columns):
        if table.name in made.values and column.name == table.order_by:
            arrays.append(_typed(made.values[table.name], column))
        else:
            arrays.append(decode_column(codes[:, index], column, rng))
    return pa.table(arrays, names=list(domain.generated_names))


def _numbers(values: pa.ChunkedArray) -> FloatArray:
    """In the units of a column, nan for null."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return np.array(values.to_numpy(), dtype=np.float64)


def _typed(values: FloatArray, column: DomainColumn) -> pa.Array:
    """Values that are in order, in the column's type and steps: snapping to steps never turns two round."""
    missing = np.isnan(values)
    known = np.where(missing, 0.0, values)
    if column.step is not None:
        low, high = (float(end) for end in column.ends)
        step = float(column.step)
        known = np.clip(np.floor(known / step + 1e-9) * step, np.ceil(low / step) * step, np.floor(high / step) * step)
    if column.kind == "number":
        return pa.array(known, mask=missing)
    whole = pa.array(known.astype(np.int64), mask=missing)
    if column.kind == "date":
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole.cast(pa.timestamp("us")) if column.kind == "datetime" else whole
