"""Trees of codes for tests of generation, and what is released of them, with or without noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.trees import clinic, domains_of
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.counting.tree.views import View, gap_codes, views_of
from understudy.pipelines.methods.tree.generating.tree_codes import TreeCodes
from understudy.pipelines.methods.tree.released import ReleasedTree, ReleasedView
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.tree import Tree
from understudy.pipelines.table.domain import TableDomain

Parents = Mapping[str, str]


def made_tree(spec: ReleaseSpec, roots: int, rng: np.random.Generator) -> TreeCodes:
    """Every column follows the first one of its parent, every number of children too; siblings are alike."""
    tree, domains = spec.tree, domains_of(spec)
    assert tree is not None
    codes: dict[str, Any] = {}
    parent: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for table in tree.tables:
        domain = domains[table.name]
        if table.parent is None:
            rows, lead = roots, rng.integers(0, 1_000, roots)
        else:
            above = codes[table.parent]
            above = above[:, 0] if above.shape[1] else np.zeros(len(above), int)
            least = 1 if tree.is_implied else 0
            numbers = np.clip(rng.integers(least, table.max_rows + 1, len(above)) + above % 2, least, table.max_rows)
            parent[table.name] = np.repeat(np.arange(len(above)), numbers)
            rows, lead = len(parent[table.name]), above[parent[table.name]]
        columns = [np.where(rng.random(rows) < 0.7, lead % size, rng.integers(0, size, rows)) for size in domain.sizes]
        found = np.stack(columns, axis=1) if columns else np.zeros((rows, 0), int)
        if table.order_by is not None:
            order = domain.index(table.order_by)
            low, high = domain.columns[order].intervals()
            found[:, order] = np.minimum(found[:, order], domain.columns[order].value_codes - 1)
            drawn = low[found[:, order]] + np.floor(rng.random(rows) * (high - low)[found[:, order]])
            by = np.lexsort((drawn, parent[table.name]))
            found, values[table.name] = found[by], drawn[by].astype(float)
        codes[table.name] = found.astype(np.int32)
    return TreeCodes(codes, parent, values)


def released_from(
    made: TreeCodes, spec: ReleaseSpec, std: float = 0.0, rng: np.random.Generator | None = None
) -> ReleasedTree:
    """Residuals of all views and numbers of children, with normal noise of the std, in roots, before centring."""
    tree, domains = spec.tree, domains_of(spec)
    assert tree is not None
    rng = rng or np.random.default_rng(0)
    views, numbers = [], {}
    for view in views_of(tree, domains):
        codes, weights = seen_as(view, made, tree)
        found: dict[tuple[int, ...], Residual] = {}
        for clique in dict.fromkeys(s for asked in (*view.asked, *_alone(view)) for s in subsets(asked)):
            counts = weighed(codes, weights, clique, view.sizes)
            counts = counts + std * rng.normal(size=counts.shape)
            for axis in range(counts.ndim):
                counts = counts - counts.mean(axis=axis, keepdims=True)
            found[clique] = Residual(counts, max(std, 1e-9))
        views.append(ReleasedView(view, Residuals((*_alone(view), *view.asked), view.sizes, found)))
        for column in view.columns:
            if column.role == "number" and view.kind == "rows":
                each = np.bincount(made.parent[column.table], minlength=made.rows(view.table))
                noise = std * rng.normal(size=column.most[-1] + 1)
                numbers[column.table] = np.bincount(each, weights, minlength=column.most[-1] + 1) + noise
    return ReleasedTree(tuple(views), numbers, dict.fromkeys(numbers, max(std, 1e-9)))


def weighed(codes: np.ndarray, weights: np.ndarray, clique: tuple[int, ...], sizes: tuple[int, ...]) -> np.ndarray:
    shape = tuple(sizes[c] for c in clique)
    cells = np.ravel_multi_index(tuple(codes[:, c] for c in clique), shape) if clique else np.zeros(len(codes), int)
    return np.asarray(np.bincount(cells, weights, minlength=int(np.prod(shape))).reshape(shape), dtype=np.float64)


def seen_as(view: View, made: TreeCodes, tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a view, and what each weighs: one root together."""
    name = view.table
    parent = made.parent.get(name)
    follows = np.zeros(made.rows(name), bool)
    if parent is not None:
        follows[1:] = parent[1:] == parent[:-1]
    rows = np.arange(made.rows(name)) if view.kind == "rows" else np.flatnonzero(follows)
    root = rows_above(made, tree, name, tree.root.name)[rows]
    columns = []
    for column in view.columns:
        match column.role:
            case "own":
                columns.append(made.codes[name][rows, column.column])
            case "before":
                columns.append(made.codes[name][rows - 1, column.column])
            case "above":
                columns.append(
                    made.codes[column.table][rows_above(made, tree, name, column.table)[rows], column.column]
                )
            case "number":
                each = np.bincount(made.parent[column.table], minlength=made.rows(name))[rows]
                columns.append(np.searchsorted(column.most, each))
            case "siblings":
                assert parent is not None
                columns.append(np.searchsorted(column.most, np.bincount(parent)[parent[rows]]))
            case "place":
                columns.append(follows[rows].astype(int))
            case "gap":
                columns.append(gap_codes(made.values[name][rows] - made.values[name][rows - 1], column.edges))
    return np.stack(columns, axis=1).astype(np.int64), 1.0 / np.bincount(root, minlength=1)[root]


def rows_above(made: TreeCodes, tree: Tree, name: str, above: str) -> np.ndarray:
    """For every row of a table, its row in a table above."""
    found, at = np.arange(made.rows(name)), name
    while at != above:
        found, at = made.parent[at][found], str(tree.table(at).parent)
    return found


def small_clinic(
    roots: int, rng: np.random.Generator, **changes: Any
) -> tuple[ReleaseSpec, dict[str, TableDomain], TreeCodes]:
    spec = clinic(**changes)
    return spec, domains_of(spec), made_tree(spec, roots, rng)


def _alone(view: View) -> tuple[tuple[int, ...], ...]:
    return tuple((c,) for c in range(len(view.columns)))
