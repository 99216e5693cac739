"""What a learner makes of rows of several tables: each with what those above it have, how many rows it is one of and
how many lie below, and where rows are in order what the row before has. It sees codes: what is spread in a bin tells it
nothing.

Rows of one root go together: a learner is scored on roots of which it saw no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from understudy.pipelines.comparing.learning import MOST_ROWS, SEED, learnt_from, told_apart
from understudy.pipelines.comparing.model import Detection, Downstream
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.tree import Tree, TreeTable
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

FEWEST_ROWS = 20


@dataclass(frozen=True, eq=False)
class KnownRows:
    """A row a record, NaN where there is no value; `roots` says whose they are."""

    columns: tuple[DomainColumn, ...]
    rows: np.ndarray
    roots: np.ndarray

    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Of some roots, and of the others; of many rows some."""
        chance = np.random.default_rng(SEED)
        first = (chance.random(int(self.roots.max(initial=0)) + 1) < 0.5)[self.roots]
        order = chance.permutation(len(self.rows))
        one, other = (self.rows[order[first[order] == side]][: MOST_ROWS // 2] for side in (True, False))
        return one, other


def known_rows(side: LocalTree, table: TreeTable) -> KnownRows:
    tables, domains, tree = side.bounded.tables, side.domains, side.tree
    own = tables[table.name]
    columns, found = _named(domains[table.name], table.name), [_values(own.codes, domains[table.name])]
    if own.parent is not None:
        place, at = np.arange(len(own)), table
        for above in tree.above(table.name):
            parent = tables[at.name].parent
            assert parent is not None
            place, at = parent[place], above
            columns += _named(domains[above.name], above.name)
            found.append(_values(tables[above.name].codes, domains[above.name])[place])
        columns.append(_number(table))
        found.append(np.bincount(own.parent)[own.parent][:, None].astype(np.float64))
    for child in tree.children(table.name):
        columns.append(_number(child))
        found.append(side.bounded.numbers(child)[:, None].astype(np.float64))
    if own.parent is not None and table.order_by is not None:
        columns += _named(domains[table.name], f"{table.name}.previous")
        before = np.full(found[0].shape, np.nan)
        follows = np.flatnonzero(own.parent[1:] == own.parent[:-1]) + 1
        before[follows] = found[0][follows - 1]
        found.append(before)
    return KnownRows(tuple(columns), np.concatenate(found, axis=1), own.root)


def tree_detection(real: KnownRows, synthetic: KnownRows) -> Detection | None:
    """Halves of both sides are learnt from, the others told apart."""
    halves = list(zip(real.halves(), synthetic.halves(), strict=True))
    rows = [min(len(one), len(other)) for one, other in halves]
    if min(rows) < FEWEST_ROWS:
        return None
    seen, new = ([side[:most] for side in half] for half, most in zip(halves, rows, strict=True))
    return Detection(told_apart(real.columns, seen, new), sum(rows))


def tree_downstream(label: tuple[TreeTable, int], real: LocalTree, synthetic: LocalTree) -> Downstream | None:
    table, place = label
    known, copy = (known_rows(side, table) for side in (real, synthetic))
    learnt, kept = known.halves()
    return learnt_from(place, known.columns, learnt, copy.halves()[0], kept)


def labels_of(labels: Sequence[str], tree: Tree, real: LocalTree) -> list[tuple[TreeTable, int]]:
    """Columns named as `table.column`, or by themselves where one table alone has them."""
    known = {
        f"{table.name}.{name}": (table, place)
        for table in tree.tables
        for place, name in enumerate(real.domains[table.name].names)
    }
    found = []
    for label in labels:
        meant = [each for name, each in known.items() if label in (name, name.partition(".")[2])]
        if len(meant) != 1:
            raise SpecError(
                f"{label!r} is {'no modelled column' if not meant else 'a column of several tables'}",
                f"choose among {', '.join(list(known)[:20])}",
            )
        found += meant
    return found


def _named(domain: TableDomain, of: str) -> list[DomainColumn]:
    return [replace(column, name=f"{of}.{column.name}") for column in domain.columns]


def _values(codes: np.ndarray, domain: TableDomain) -> np.ndarray:
    found = codes.astype(np.float64)
    for place, column in enumerate(domain.columns):
        if column.null_code is not None:
            found[codes[:, place] == column.null_code, place] = np.nan
    return found


def _number(table: TreeTable) -> DomainColumn:
    edges = tuple(range(table.max_rows + 2))
    return DomainColumn(f"{table.name}.number", "integer", (), edges, has_other=False, nullable=False, ordered=True)
