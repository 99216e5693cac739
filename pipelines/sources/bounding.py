"""At most k rows an entity, chosen by keyed hash, over any number of parts in any process.

Guarantee. Over all parts together at most `unit.max_rows` rows of one entity are kept: those with the
smallest (hash of the row's requested values, position). Rows that tie on the hash hold equal values, so what
is kept does not depend on how the table is split into parts and batches, nor, up to equal rows, on the order
of rows. Two entities whose 64-bit hashes collide share one allowance, which errs on the safe side. Rows
without an entity (null, or NaN in a float column) are dropped: they belong to nobody identifiable, and
pooling them would break the bound.

Two passes. `candidates` of each part, merged by `merge`, hold the k+1 first rows of each entity; `allowance`
turns them into the last row allowed to each entity that has more than k; `within` filters a batch by it.
Memory: 24 bytes a candidate, of which there are at most k+1 an entity, and three times that while merging.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.hashing import row_hashes, value_hashes

PART_BITS = 40
MERGE_ROWS = 4_000_000


@dataclass(frozen=True)
class Candidates:
    """Rows that may be kept, sorted by entity, row hash and position; no more than k+1 an entity."""

    entity: np.ndarray
    row: np.ndarray
    position: np.ndarray


@dataclass(frozen=True)
class Allowance:
    """For each entity with more than k rows, in ascending order of its hash: the last row it may keep."""

    entity: np.ndarray
    row: np.ndarray
    position: np.ndarray


@dataclass(frozen=True)
class _Located:
    """A batch's rows that have an entity: where they are in the batch, and their three hashes."""

    index: np.ndarray
    entity: np.ndarray
    row: np.ndarray
    position: np.ndarray


def needed_columns(columns: Sequence[str], unit: Unit) -> list[str]:
    """What has to be read: the requested columns, and the entity's."""
    return list(dict.fromkeys([*columns, *([unit.entity] if unit.entity else [])]))


def candidates(
    batches: Iterable[pa.RecordBatch], part: int, columns: Sequence[str], unit: Unit, key: bytes
) -> Candidates:
    """The first pass over one part."""
    gathered = Gathering(unit)
    offset = 0
    for batch in batches:
        located = _locate(batch, part, offset, columns, unit, key)
        offset += batch.num_rows
        gathered.add(_first_rows(located.entity, located.row, located.position, unit.max_rows + 1))
    return gathered.result()


class Gathering:
    """Candidates of a stream of batches or parts, merged whenever as many wait as were kept before."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._kept: list[Candidates] = []
        self._waiting = 0

    def add(self, found: Candidates) -> None:
        self._kept.append(found)
        self._waiting += len(found.entity)
        if self._waiting > max(MERGE_ROWS, len(self._kept[0].entity)):
            self._kept, self._waiting = [merge(self._kept, self._unit)], 0

    def result(self) -> Candidates:
        return merge(self._kept, self._unit)


def merge(found: Sequence[Candidates], unit: Unit) -> Candidates:
    """The candidates of several parts as one; associative and indifferent to order."""
    if not found:
        return Candidates(*(np.empty(0, np.uint64) for _ in range(3)))
    if len(found) == 1:
        return found[0]
    return _first_rows(
        np.concatenate([each.entity for each in found]),
        np.concatenate([each.row for each in found]),
        np.concatenate([each.position for each in found]),
        unit.max_rows + 1,
    )


def allowance(found: Candidates, unit: Unit) -> Allowance:
    starts = (
        np.flatnonzero(np.r_[True, found.entity[1:] != found.entity[:-1]]) if len(found.entity) else np.empty(0, int)
    )
    lengths = np.diff(np.r_[starts, len(found.entity)])
    last = starts[lengths > unit.max_rows] + unit.max_rows - 1
    return Allowance(found.entity[last], found.row[last], found.position[last])


def within(
    batch: pa.RecordBatch,
    part: int,
    offset: int,
    columns: Sequence[str],
    unit: Unit,
    key: bytes,
    allowed: Allowance,
) -> pa.RecordBatch:
    """The requested columns of the rows that stay. `offset` counts the part's rows before the batch."""
    located = _locate(batch, part, offset, columns, unit, key)
    wanted = batch.select(list(columns))
    stays = np.ones(len(located.entity), np.bool_)
    if len(allowed.entity):
        at = np.minimum(np.searchsorted(allowed.entity, located.entity), len(allowed.entity) - 1)
        capped = allowed.entity[at] == located.entity
        later = located.row > allowed.row[at]
        tied = (located.row == allowed.row[at]) & (located.position > allowed.position[at])
        stays = ~(capped & (later | tied))
    if stays.all() and len(stays) == batch.num_rows:
        return wanted
    return wanted.take(pa.array(located.index[stays]))


def _locate(batch: pa.RecordBatch, part: int, offset: int, columns: Sequence[str], unit: Unit, key: bytes) -> _Located:
    assert unit.entity is not None
    entity = batch.column(unit.entity)
    known = entity.is_valid()
    if pa.types.is_floating(entity.type):
        known = pc.and_(known, pc.fill_null(pc.invert(pc.is_nan(entity)), False))
    index = np.flatnonzero(np.asarray(known))
    hashes = row_hashes([batch.column(name) for name in columns], batch.num_rows, key)
    positions = (np.uint64(part) << np.uint64(PART_BITS)) + (index + offset).astype(np.uint64)
    return _Located(index, value_hashes(entity, key, "entity")[index], hashes[index], positions)


def _first_rows(entity: np.ndarray, row: np.ndarray, position: np.ndarray, count: int) -> Candidates:
    """Sorted, and cut to the first `count` of each entity."""
    order = np.lexsort((position, row, entity))
    entity = entity[order]
    starts = np.flatnonzero(np.r_[True, entity[1:] != entity[:-1]]) if len(entity) else np.empty(0, int)
    rank = np.arange(len(entity)) - np.repeat(starts, np.diff(np.r_[starts, len(entity)]))
    first = rank < count
    order = order[first]
    return Candidates(entity[first], row[order], position[order])
