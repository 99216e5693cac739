"""At most k rows an entity, chosen by keyed hash, over any number of parts in any process.

Guarantee. Over all parts together at most `unit.max_rows` rows of one entity are kept: those with the
smallest (hash of the row's requested values, position). Rows that tie on the hash hold equal values, so what
is kept does not depend on how the table is split into parts and batches, nor, up to equal rows, on the order
of rows. Two entities whose 64-bit hashes collide share one allowance, which errs on the safe side. Rows
without an entity (null, or NaN in a float column) are dropped: they belong to nobody identifiable, and
pooling them would break the bound.

Two steps. `candidates` of each part, merged by `merge`, hold the k+1 first rows of each entity; `allowance`
turns them into the last row allowed to each entity that has more than k; `within` filters a batch by it.
Memory of the first step: 24 bytes a candidate, of which there are at most k+1 an entity, and three times that
while merging. So that a large table stays within BOUNDING_BYTES it is done for one slice of the entities after
the other, each a further pass over the table; `slices` says how many. What stays is 24 bytes for each entity
with more than k rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.hashing import row_hashes, value_hashes
from understudy.pipelines.sources.ranking import find, first_of_each

PART_BITS = 40
MERGE_ROWS = 2_000_000
BOUNDING_BYTES = 1 << 30


@dataclass(frozen=True)
class Slice:
    """The entities whose hash lies in the `index`-th of `count` equal ranges."""

    index: int = 0
    count: int = 1

    def holds(self, entity: np.ndarray) -> np.ndarray:
        return ((entity >> np.uint64(32)) * np.uint64(self.count)) >> np.uint64(32) == np.uint64(self.index)


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


def slices(rows: int | None) -> list[Slice]:
    """Ranges of entities few enough for the first step, for a table of so many rows (one if nobody knows)."""
    count = max(1, math.ceil((rows or 0) * 72 / BOUNDING_BYTES))
    return [Slice(index, count) for index in range(count)]


def candidates(
    batches: Iterable[pa.RecordBatch], part: int, columns: Sequence[str], unit: Unit, key: bytes, entities: Slice
) -> Candidates:
    """The first step for one part, and the entities of one slice."""
    gathered = Gathering(unit)
    offset = 0
    for batch in batches:
        located = _locate(batch, part, offset, columns, unit, key)
        offset += batch.num_rows
        if entities.count > 1:
            here = entities.holds(located.entity)
            found = Candidates(located.entity[here], located.row[here], located.position[here])
        else:
            found = Candidates(located.entity, located.row, located.position)
        gathered.add(found)
    return gathered.result()


class Gathering:
    """Candidates of a stream of batches or parts, merged whenever as many wait as were kept before."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._kept = merge([], unit)
        self._waiting: list[Candidates] = []

    def add(self, found: Candidates) -> None:
        self._waiting.append(found)
        if sum(len(each.entity) for each in self._waiting) > max(MERGE_ROWS, len(self._kept.entity)):
            self.result()

    def result(self) -> Candidates:
        if self._waiting:
            self._kept, self._waiting = merge([self._kept, *self._waiting], self._unit), []
        return self._kept


def merge(found: Sequence[Candidates], unit: Unit) -> Candidates:
    """The candidates of several parts as one, sorted and cut; associative and indifferent to order."""
    none = np.empty(0, np.uint64)
    entity = np.concatenate([none, *(each.entity for each in found)])
    row = np.concatenate([none, *(each.row for each in found)])
    position = np.concatenate([none, *(each.position for each in found)])
    first = first_of_each(entity, row, position, unit.max_rows + 1)
    return Candidates(entity[first], row[first], position[first])


def allowance(found: Candidates, unit: Unit) -> Allowance:
    """What the merged candidates of one slice of entities leave to each that has too many rows."""
    starts = np.flatnonzero(np.diff(found.entity, prepend=~found.entity[:1]))
    lengths = np.diff(starts, append=len(found.entity))
    last = starts[lengths > unit.max_rows] + unit.max_rows - 1
    return Allowance(found.entity[last], found.row[last], found.position[last])


def join(slices_: Sequence[Allowance]) -> Allowance:
    """The allowances of all slices, given in order, as one."""
    return Allowance(
        np.concatenate([each.entity for each in slices_]),
        np.concatenate([each.row for each in slices_]),
        np.concatenate([each.position for each in slices_]),
    )


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
        at = find(allowed.entity, located.entity)
        capped = at >= 0
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
