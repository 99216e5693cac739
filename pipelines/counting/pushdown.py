"""Counting in the database: the engine groups rows and counts them, this process encodes the groups.

Guarantee: the same numbers as streaming the rows. The engine counts rows of equal values, or of equal codes; encoding
is a function of each row's values alone, so encoding one row of each group and adding its count is encoding them all.
Where an entity is declared nothing is counted here: an engine would choose other rows than bounding.py does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.cover import Cover, cover
from understudy.pipelines.sources.base import GroupCounter
from understudy.pipelines.table.domain import TableDomain

GROUP_CELLS = 1 << 10
"""Most cells of joint groups; measured, a hash table beyond that costs the engine more than a second group."""


def is_cheaper(counter: GroupCounter, domain: TableDomain, cliques: Sequence[tuple[int, ...]]) -> bool:
    """Whether the engine can count these, and faster than by streaming; judged from public domain and catalogue alone.

    Measured (docs/scale.md): sending, reading and encoding a column costs a row about as much as one small GROUP BY,
    and a third of one where rows come as fast as PostgreSQL's.
    """
    used = {column for clique in cliques for column in clique}
    if not used or len(used) > counter.most_columns or max(used) >= len(domain.columns):
        return False  # an engine that bins values itself does not tell how they were understood
    grouped = len(joint_groups(domain, cliques).groups) <= max(1, len(used) // counter.columns_a_group)
    return grouped and all(counter.can_group(domain.columns[column]) for column in used)


def count_in_engine(counter: GroupCounter, domain: TableDomain, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Exact int64 counts of each clique, by one question with a grouping set for each joint group."""
    plan = joint_groups(domain, cliques)
    used = sorted({column for group in plan.groups for column in group})
    joints = [np.zeros([domain.sizes[column] for column in group], np.int64) for group in plan.groups]
    columns = [domain.columns[column] for column in used]
    for batch in counter.grouped(columns, [[used.index(column) for column in group] for group in plan.groups]):
        _add_groups(batch, used, plan, joints, counter, domain)
    return marginals_of(joints, plan, cliques)


def joint_groups(domain: TableDomain, cliques: Sequence[tuple[int, ...]]) -> Cover:
    return cover(domain.sizes, tuple(cliques), GROUP_CELLS)


def _add_groups(
    batch: pa.RecordBatch,
    used: Sequence[int],
    plan: Cover,
    joints: Sequence[np.ndarray],
    counter: GroupCounter,
    domain: TableDomain,
) -> None:
    """Add the counts of one batch of grouped rows."""
    absent = batch.column(len(used)).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = batch.column(len(used) + 1).to_numpy(zero_copy_only=False).astype(np.int64)
    for group, joint in zip(plan.groups, joints, strict=True):
        mask = sum(1 << (len(used) - 1 - i) for i, column in enumerate(used) if column not in group)
        members = np.flatnonzero(absent == mask)
        if not len(members):
            continue
        columns = [batch.column(used.index(column)).take(pa.array(members)) for column in group]
        codes = [
            counter.coded(domain.columns[column], values).astype(np.int64)
            for column, values in zip(group, columns, strict=True)
        ]
        cells = np.ravel_multi_index(codes, joint.shape) if group else np.zeros(len(members), np.int64)
        np.add.at(joint.reshape(math.prod(joint.shape)), cells, counts[members])


def marginals_of(joints: Sequence[np.ndarray], plan: Cover, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Each clique summed out of the joint table of its group."""
    return [_summed(joints[home], plan.groups[home], clique) for clique, home in zip(cliques, plan.home, strict=True)]


def _summed(joint: np.ndarray, group: tuple[int, ...], clique: tuple[int, ...]) -> np.ndarray:
    kept = [column for column in group if column in clique]
    summed = joint.sum(axis=tuple(i for i, column in enumerate(group) if column not in clique))
    turned = summed.transpose([kept.index(column) for column in clique])
    return np.ascontiguousarray(turned).reshape(turned.shape)  # a total has no axis
