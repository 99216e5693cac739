"""How many families are made, and in which parts: whole families each, so that a part is sound by itself.

Decided from what was released alone, before any family is made, so that whoever makes part 7 again makes the same one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from understudy.pipelines.methods.privpgd.problem import GenerationError
from understudy.pipelines.methods.tree.generating.numbers import numbers_in
from understudy.pipelines.methods.tree.released import ReleasedTree, ReleasedView
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.in_parts import ONE_PART_VALUES, PART_VALUES

MOST_ROOTS = 100_000
"""Of a part."""


def roots_wanted(released: ReleasedTree, roots: int | None) -> int:
    """So many, or as many as were measured."""
    wanted = max(1, round(released.views[0].residuals.total)) if roots is None else roots
    if wanted < 0:
        raise GenerationError(f"cannot generate {wanted} families.", "Ask for zero or more.")
    return wanted


def family_parts(released: ReleasedTree, domains: Mapping[str, TableDomain], roots: int) -> tuple[int, ...]:
    """Roots of each part: as few parts as may be, and nearly equal ones."""
    values = values_a_root(released, domains)
    if roots <= MOST_ROOTS and roots * values <= ONE_PART_VALUES:
        return (roots,)
    most = min(MOST_ROOTS, max(1, int(PART_VALUES / values)))
    parts = -(-roots // most)
    return tuple(roots * (part + 1) // parts - roots * part // parts for part in range(parts))


def values_a_root(released: ReleasedTree, domains: Mapping[str, TableDomain]) -> float:
    """About how many values a root has in all tables together, keys among them."""
    rows, values = {released.views[0].view.table: 1.0}, 0.0
    for each in released.views:
        if each.view.kind != "rows":
            continue
        table = each.view.table
        values += rows[table] * (len(domains[table].columns) + 2)
        for place, column in enumerate(each.view.columns):
            if column.role == "number":
                rows[column.table] = rows[table] * _mean(each, place)
    return values


def _mean(each: ReleasedView, place: int) -> float:
    shares = np.maximum(each.residuals.marginal((place,)), 0.0)
    middles = [(numbers[0] + numbers[-1]) / 2 for numbers in numbers_in(each.view.columns[place].most)]
    return float(shares @ middles / shares.sum()) if shares.sum() > 0 else float(middles[-1])


def parent_tables(released: ReleasedTree) -> dict[str, str]:
    """The parent of every child table: the one whose view has the number of its rows."""
    return {
        column.table: each.view.table
        for each in released.views
        if each.view.kind == "rows"
        for column in each.view.columns
        if column.role == "number"
    }
