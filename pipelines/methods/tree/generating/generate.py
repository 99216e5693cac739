"""Rows of all tables of a tree: roots first, then children under fixed parents.

Method: the root table, with the numbers of its children as columns, is generated as any single table is. Every child
row then has what its ancestors have, frozen; its own columns, and the numbers of its own children, start as a draw from
the best tree that grows out of the frozen ones and are redrawn and polished until the tables of roots fit (`fitting`).
Siblings lie in order from the start. A child is always its parent's, and a parent has as many children as its number
says: keys fit by construction, and no bound can be passed.

Families are generated in parts (`family_parts`), each afresh and each fitted to the same tables: parts have nothing to
do with each other, and no family is a copy of another. Everything here is post-processing of released numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.tree.views import ViewColumn
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.constraints import Allowed, Rule
from understudy.pipelines.methods.privpgd.engine import synthesize
from understudy.pipelines.methods.privpgd.problem import GridColumn, grid_of
from understudy.pipelines.methods.privpgd.start import draw_the_rest
from understudy.pipelines.methods.tree.generating.child_targets import child_targets, number_grid
from understudy.pipelines.methods.tree.generating.family_parts import parent_tables, roots_wanted
from understudy.pipelines.methods.tree.generating.fitting import Effort, families_of, fit_families
from understudy.pipelines.methods.tree.generating.gap_codes import follow
from understudy.pipelines.methods.tree.generating.mending import mend
from understudy.pipelines.methods.tree.generating.moments import draw_values
from understudy.pipelines.methods.tree.generating.numbers import codes_of_numbers, draw_numbers, shares_within
from understudy.pipelines.methods.tree.generating.tree_codes import TreeCodes
from understudy.pipelines.methods.tree.released import ReleasedTree, ReleasedView
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tree_rules import TreeRule

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def generate_tree(
    released: ReleasedTree,
    domains: Mapping[str, TableDomain],
    roots: int | None = None,
    stream: np.random.SeedSequence | None = None,
    config: PrivPGDConfig = PrivPGDConfig(),
    rules: Sequence[TreeRule] = (),
) -> TreeCodes:
    """So many families, by default as many as were measured, all in memory: a part, or all of a small release.

    `stream` makes a run repeatable; it protects nothing and need not be secret.
    """
    wanted = roots_wanted(released, roots)
    plan = _Plan(released, domains, config, rules)
    [own] = (stream or np.random.SeedSequence()).spawn(1)
    return _part(plan, wanted, own)


@dataclass(frozen=True)
class _Plan:
    released: ReleasedTree
    domains: Mapping[str, TableDomain]
    config: PrivPGDConfig
    rules: Sequence[TreeRule]

    def grid(self, view: ReleasedView) -> list[GridColumn]:
        grids = {table: grid_of(domain) for table, domain in self.domains.items()}
        return [grids[c.table][c.column] if c.role in ("own", "above") else number_grid(c) for c in view.view.columns]

    def rules_of(self, view: ReleasedView) -> list[Rule]:
        """Those of the table's rows, over the columns of its view."""
        places = {(c.table, c.column): place for place, c in enumerate(view.view.columns) if c.role in ("own", "above")}
        found = [each for each in self.rules if each.table == view.view.table]
        return [
            Allowed(tuple(places[each] for each in rule.places), rule.allowed).rule(view.view.sizes) for rule in found
        ]

    def numbers(self, column: ViewColumn, codes: Int32Array, rng: np.random.Generator) -> Int64Array:
        released, table = self.released, column.table
        shares = shares_within(column.most, released.numbers.get(table), released.numbers_std.get(table, 0.0))
        return draw_numbers(codes, column.most, shares, rng)


@dataclass
class _Made:
    """What is there of a part so far, by table."""

    codes: dict[str, Int32Array] = field(default_factory=dict)
    parent: dict[str, Int64Array] = field(default_factory=dict)
    root: dict[str, Int64Array] = field(default_factory=dict)
    numbers: dict[str, Int64Array] = field(default_factory=dict)
    values: dict[str, FloatArray] = field(default_factory=dict)

    def ancestors(self, table: str, parents: Mapping[str, str], above: str) -> Int64Array:
        """Of every row of a table, the number of the row above it in one of the tables above."""
        found, at = self.parent[table], parents[table]
        while at != above:
            found, at = self.parent[at][found], parents[at]
        return found


def _part(plan: _Plan, roots: int, stream: np.random.SeedSequence) -> TreeCodes:
    views = [view for view in plan.released.views if view.view.kind == "rows"]
    order = {view.view.table: view for view in plan.released.views if view.view.kind == "order"}
    parents, made = parent_tables(plan.released), _Made()
    for view, own in zip(views, stream.spawn(len(views)), strict=True):
        rng = np.random.default_rng(own)
        table = view.view.table
        if table in parents:
            _add_children(plan, view, order.get(table), parents, made, rng)
        else:
            _add_roots(plan, view, roots, made, rng)
    return TreeCodes(made.codes, made.parent, made.values)


def _add_roots(plan: _Plan, view: ReleasedView, roots: int, made: _Made, rng: np.random.Generator) -> None:
    table = view.view.table
    seed = int(rng.integers(2**63))
    rules = [Allowed(rule.columns, rule.allowed) for rule in plan.rules_of(view)]
    codes = synthesize(view.residuals, plan.grid(view), roots, plan.config, constraints=rules, seed=seed)
    made.root[table] = np.arange(roots)
    _keep(plan, view, codes, made, rng)


def _add_children(
    plan: _Plan,
    view: ReleasedView,
    order: ReleasedView | None,
    parents: Mapping[str, str],
    made: _Made,
    rng: np.random.Generator,
) -> None:
    table, columns = view.view.table, view.view.columns
    numbers = made.numbers[table]
    parent = np.repeat(np.arange(len(numbers)), numbers)
    root = made.root[parents[table]][parent]
    made.parent[table], made.root[table] = parent, root
    grid, frozen = plan.grid(view), {}
    for place, column in enumerate(columns):
        if column.role == "above":
            frozen[place] = made.codes[column.table][made.ancestors(table, parents, column.table), column.column]
        elif column.role == "siblings":
            frozen[place] = codes_of_numbers(numbers[parent], column.most)
        elif column.role == "place":
            frozen[place] = np.concatenate([[0], parent[1:] == parent[:-1]]).astype(np.int32)[: len(parent)]
    ordered = None
    if order is not None and order.view.order is not None:
        ordered = next(p for p, c in enumerate(columns) if c.role == "own" and c.column == order.view.order)
    families = families_of(parent, root, ordered)
    rules = plan.rules_of(view)
    whole = frozenset(column for rule in rules for column in rule.columns)
    ordering = None if ordered is None else plan.domains[table].columns[columns[ordered].column]
    targets = child_targets(view, order, grid, frozen, families.weight.astype(np.float64), whole, ordering)
    merged = targets.rows.merged
    sizes = [merged[c].size if c in merged else column.size for c, column in enumerate(grid)]
    codes = np.zeros((len(parent), len(columns)), dtype=np.int32)
    for place, given in frozen.items():
        codes[:, place] = merged[place].of[given] if place in merged else given
    still = frozenset(frozen)
    draw_the_rest(codes, [t.probabilities for t in targets.rows.single], targets.rows.pairs, rng, still)
    moving = [c for c in range(len(columns)) if c not in still]
    if ordered is not None and ordered not in merged:
        first = next((p for p, column in enumerate(columns) if column.role == "place"), None)
        pair = None if first is None else targets.rows.pairs.get((ordered, first))
        follow(codes, ordered, None if pair is None else pair[:, 0], families, targets.lags, rng)
    _sort(codes, parent, ordered, moving)
    fit = [*targets.rows.joint, *targets.rows.single]
    effort = Effort(sweeps=plan.config.polish_sweeps)
    fit_families(codes, fit, targets.lags, sizes, families, still, rng, rules, effort)
    if rules and (kept := mend(codes, rules, sizes, moving, rng)) is not None:
        codes, parent, root = codes[kept], parent[kept], root[kept]
        made.parent[table], made.root[table] = parent, root
        families = families_of(parent, root, ordered)
        _sort(codes, parent, ordered, moving)
    for place, each in merged.items():
        if place not in still:
            codes[:, place] = each.single_codes(codes[:, place], rng)
    if ordered is not None:
        if ordered in merged:
            by_code = np.lexsort((codes[:, ordered], parent))
            codes[:, ordered] = codes[by_code, ordered]
        if ordering is not None and ordering.edges:
            made.values[table] = draw_values(codes, ordered, ordering, families, targets.gaps, rng)
    _keep(plan, view, codes, made, rng)


def _sort(codes: Int32Array, parent: Int64Array, ordered: int | None, moving: Sequence[int]) -> None:
    """Siblings by the codes of the column that orders them; what is frozen stays in its place."""
    if ordered is not None:
        codes[:, moving] = codes[np.lexsort((codes[:, ordered], parent))][:, moving]


def _keep(plan: _Plan, view: ReleasedView, codes: Int32Array, made: _Made, rng: np.random.Generator) -> None:
    """What the table itself has, and the numbers of its rows' children."""
    table = view.view.table
    own = {column.column: place for place, column in enumerate(view.view.columns) if column.role == "own"}
    made.codes[table] = codes[:, [own[column] for column in range(len(own))]]
    for place, column in enumerate(view.view.columns):
        if column.role == "number":
            made.numbers[column.table] = plan.numbers(column, codes[:, place], rng)
