"""Counting in the database: the engine groups raw values and counts them, this process encodes the groups.

Guarantee: the same numbers as streaming the rows. The engine counts rows with equal values; encoding is a
function of each row's values alone, so encoding one row of each group and adding its count is encoding them all.
Where an entity is declared nothing is counted here: an engine would choose other rows than bounding.py does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import duckdb
import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.cover import Cover, cover
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource, quoted
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.domain import TableDomain

MOST_COLUMNS = 62
"""GROUPING() tells the groups apart in one 64-bit number."""

FEW_CODES = 64
"""Columns of more codes are taken to hold too many distinct raw values to group by."""

GROUP_CELLS = 1 << 10
"""Most cells of joint groups; measured, a hash table beyond that costs the engine more than a second group."""


def is_cheaper(domain: TableDomain, cliques: Sequence[tuple[int, ...]]) -> bool:
    """Whether grouping in the engine beats streaming, judged from the public domain alone.

    Measured on DuckDB 2.0 (docs/scale.md): streaming and encoding a column costs a row about as much as one
    small GROUP BY. Columns of numbers have too many raw values to group by.
    """
    used = {column for clique in cliques for column in clique}
    if not used or len(used) > MOST_COLUMNS:
        return False
    listed = all(
        domain.columns[column].kind in ("category", "boolean") and domain.columns[column].size <= FEW_CODES
        for column in used
    )
    return listed and len(joint_groups(domain, cliques).groups) <= len(used)


def count_in_engine(source: DuckDBSource, domain: TableDomain, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Exact int64 counts of each clique, by one query with a grouping set for each joint group."""
    plan = joint_groups(domain, cliques)
    used = sorted({column for group in plan.groups for column in group})
    joints = [np.zeros([domain.sizes[column] for column in group], np.int64) for group in plan.groups]
    with source.connect() as connection:
        rows = source.query(connection, [domain.names[column] for column in used])
        reader = connection.sql(_query(_exactly(connection, rows), domain, used, plan)).to_arrow_reader(1 << 16)
        for batch in reader:
            add_groups(batch, used, plan, joints, lambda column, values: encode_column(values, domain.columns[column]))
    return marginals_of(joints, plan, cliques)


def joint_groups(domain: TableDomain, cliques: Sequence[tuple[int, ...]]) -> Cover:
    return cover(domain.sizes, tuple(cliques), GROUP_CELLS)


def _exactly(connection: duckdb.DuckDBPyConnection, rows: str) -> str:
    """The same rows, with text that groups by its bytes even where the column's collation ignores case."""
    relation = connection.sql(rows)
    named = [(quoted(name), str(type_)) for name, type_ in zip(relation.columns, relation.types, strict=True)]
    exact = ", ".join(f"{name} COLLATE C AS {name}" if type_ == "VARCHAR" else name for name, type_ in named)
    return f"SELECT {exact} FROM ({rows})"  # noqa: S608  quoted, catalogued names


def _query(rows: str, domain: TableDomain, used: Sequence[int], plan: Cover) -> str:
    names = {column: quoted(domain.names[column]) for column in used}
    listed = ", ".join(names.values())
    sets = ", ".join(f"({', '.join(names[column] for column in group)})" for group in plan.groups)
    return (
        f"SELECT {listed}, GROUPING({listed}), count(*)"  # noqa: S608  quoted, catalogued names
        f" FROM ({rows}) GROUP BY GROUPING SETS ({sets})"
    )


def add_groups(
    batch: pa.RecordBatch,
    used: Sequence[int],
    plan: Cover,
    joints: Sequence[np.ndarray],
    codes_of: Callable[[int, pa.Array], np.ndarray],
) -> None:
    """Add the counts of one batch of grouped rows: the columns of `used`, then GROUPING of them all, then the count."""
    absent = batch.column(len(used)).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = batch.column(len(used) + 1).to_numpy(zero_copy_only=False).astype(np.int64)
    for group, joint in zip(plan.groups, joints, strict=True):
        mask = sum(1 << (len(used) - 1 - i) for i, column in enumerate(used) if column not in group)
        members = np.flatnonzero(absent == mask)
        if not len(members):
            continue
        columns = [batch.column(used.index(column)).take(pa.array(members)) for column in group]
        codes = [codes_of(column, values).astype(np.int64) for column, values in zip(group, columns, strict=True)]
        cells = np.ravel_multi_index(codes, joint.shape) if group else np.zeros(len(members), np.int64)
        np.add.at(joint.reshape(math.prod(joint.shape)), cells, counts[members])


def marginals_of(joints: Sequence[np.ndarray], plan: Cover, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Each clique summed out of the joint table of its group."""
    return [_summed(joints[home], plan.groups[home], clique) for clique, home in zip(cliques, plan.home, strict=True)]


def _summed(joint: np.ndarray, group: tuple[int, ...], clique: tuple[int, ...]) -> np.ndarray:
    kept = [column for column in group if column in clique]
    summed = joint.sum(axis=tuple(i for i, column in enumerate(group) if column not in clique))
    return np.ascontiguousarray(summed.transpose([kept.index(column) for column in clique]))
