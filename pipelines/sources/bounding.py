"""At most k rows an entity, chosen by keyed hash, over any number of parts in any process.

Theorem. Let an entity be the rows whose id reads alike (see ids.py). Of every entity at most k = `unit.max_rows` rows
are kept, whatever the source gives, also if it gives other rows each time it is read. If it gives the same rows,
those of an entity with the k smallest hashes are kept, a function of that entity's rows and the public key alone:
adding or removing an entity adds or removes at most k rows and changes no other. Proof: docs/proofs/bounding.md.

What it rests on. Rows are not chosen in one pass and fetched in another: a pass carries what is kept of a row (its
codes, or the row itself) beside its hashes. The range of entity hashes is divided among passes, and within a pass
among threads' results or tasks; each entity belongs to exactly one range, and `merge`, which sees all rows of that
range, cuts it to k. So nothing has to agree between two reads, and order, parts, ties and files that change cannot
matter: a tie is between rows that are kept alike (rows.py), and `merge` counts them.

Relation, sensitivity, noise unit. Both relations; k rows for a unit added or removed; rows, and nothing is drawn here.
Reference. docs/proofs/bounding.md.

Memory: 32 bytes and what is kept of a row, for at most k rows of each entity of a pass, and three quarters of that
again for rows that wait to be merged. A pass that would need more than BOUNDING_BYTES gives up the upper part of its
range of entities; later passes take it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import Part
from understudy.pipelines.sources.hashing import Hashes, hash_rows
from understudy.pipelines.sources.ids import read_ids
from understudy.pipelines.sources.ranking import first_of_each, first_of_two
from understudy.pipelines.sources.rows import Kept, View, joined, taken

WHOLE = 1 << 32
"""Ranges of entities are told by the first 32 bits of their hashes."""

BOUNDING_BYTES = 1 << 30
MERGE_BYTES = 64 << 20
HASH_BYTES, TIE_BYTES = 32, 16
OVERHEAD = 1.75
"""Memory while bounding over that of the rows kept: up to a quarter waits, once more while it is sorted, and slack."""

LEAST_WIDTH = WHOLE // 1024
"""No range is shorter: a table is read so often at the most, even if that takes more memory."""

PIECES = 64
"""Ranges that a pass is merged in, one after the other, so that merging needs little memory of its own."""


@dataclass
class Span:
    """The entities whose hash starts with a number from `first` up to `end`; a pass may give up the upper ones."""

    first: int = 0
    end: int = WHOLE
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def holds(self, entity: Hashes) -> np.ndarray:
        starts = entity.high >> np.uint64(32)
        return (starts >= np.uint64(self.first)) & (starts < np.uint64(self.end))

    def narrow(self, end: int) -> bool:
        """Give up the entities from `end`, unless too few would be left; whether it was done."""
        with self._lock:
            if end - self.first >= LEAST_WIDTH:
                self.end = min(self.end, end)
            return end >= self.end


@dataclass(frozen=True)
class Candidates:
    """Rows that may be kept, sorted by entity, row and tie after `merge`; then no more than k an entity.

    `row` is the hash of a row's codes, so that codes and whole rows are chosen alike; `tie` tells rows of equal codes
    apart where more than codes is kept. Rows that tie on both are kept alike.
    """

    entity: Hashes
    row: Hashes
    tie: Hashes | None
    kept: Kept

    def __len__(self) -> int:
        return len(self.entity)

    @property
    def bytes(self) -> int:
        return len(self) * (HASH_BYTES + (0 if self.tie is None else TIE_BYTES)) + int(self.kept.nbytes)

    def between(self, first: int, end: int) -> Candidates:
        """Those of a range of entities, of sorted ones."""
        starts = self.entity.high >> np.uint64(32)
        its = slice(*np.searchsorted(starts, np.array([first, end], np.uint64)).tolist())
        tie = None if self.tie is None else self.tie[its]
        return Candidates(self.entity[its], self.row[its], tie, taken(self.kept, its))


def slices(rows: int | None, row_bytes: int) -> list[tuple[int, int]]:
    """Equal ranges of entities, few enough to be bounded at one time if each row is kept (one if nobody knows)."""
    count = max(1, math.ceil((rows or 0) * (HASH_BYTES + row_bytes) * OVERHEAD / BOUNDING_BYTES))
    return cut(0, WHOLE, count)


def cut(first: int, end: int, count: int) -> list[tuple[int, int]]:
    """The range in so many pieces of about one size; fewer if it is too short."""
    edges = sorted({first + (end - first) * i // count for i in range(count + 1)})
    return list(pairwise(edges))


def needed_columns(view: View, unit: Unit) -> list[str]:
    assert unit.entity is not None
    return list(dict.fromkeys([*view.columns, unit.entity]))


def candidates(batch: pa.RecordBatch, view: View, unit: Unit, key: bytes, span: Span) -> Candidates:
    """The rows of a batch that belong to an entity of the span."""
    assert unit.entity is not None
    known, entity = read_ids(batch.column(unit.entity), unit.ids_are_text, key)
    if span.first > 0 or span.end < WHOLE:
        known = known & span.holds(entity)
    if not known.all():
        here = np.flatnonzero(known)
        batch, entity = batch.take(pa.array(here)), entity[here]
    seen = view.look(batch)
    tie = None if seen.values is None else hash_rows(seen.values, key, "tie")
    return Candidates(entity, hash_rows(seen.codes, key, "row"), tie, seen.kept)


def merge(found: Sequence[Candidates], unit: Unit) -> Candidates:
    """Several as one, sorted, and cut to k rows an entity; associative and indifferent to order."""
    whole = _joined(found)
    return _taken(whole, first_of_each(whole.entity, whole.row, whole.tie or whole.row, unit.max_rows))


def merge_sorted(one: Candidates, other: Candidates, unit: Unit) -> Candidates:
    """The same for two that are sorted already."""
    if not len(one) or not len(other):
        return one if len(one) else other
    whole = _joined([one, other])
    return _taken(whole, first_of_two(whole.entity, whole.row, whole.tie or whole.row, len(one), unit.max_rows))


def _joined(found: Sequence[Candidates]) -> Candidates:
    ties = [each.tie for each in found if each.tie is not None]
    return Candidates(
        Hashes.joined([each.entity for each in found]),
        Hashes.joined([each.row for each in found]),
        Hashes.joined(ties) if ties else None,
        joined([each.kept for each in found]),
    )


def _taken(found: Candidates, rows: np.ndarray) -> Candidates:
    tie = None if found.tie is None else found.tie[rows]
    return Candidates(found.entity[rows], found.row[rows], tie, taken(found.kept, rows))


class Gathering:
    """One thread's candidates, range by range of a pass; merged whenever a quarter as many wait as were kept."""

    def __init__(self, unit: Unit, span: Span, most_bytes: float) -> None:
        self._unit, self._span, self._most_bytes = unit, span, most_bytes
        self._ranges = cut(span.first, span.end, PIECES)
        self._merged: list[Candidates | None] = [None] * len(self._ranges)
        self._waiting: list[Candidates] = []
        self._merged_bytes = self._waiting_bytes = 0

    def add(self, found: Candidates) -> None:
        self._waiting.append(found)
        self._waiting_bytes += found.bytes
        if self._waiting_bytes > max(MERGE_BYTES, self._merged_bytes // 4):
            self._settle()

    def result(self) -> list[Candidates | None]:
        """What is kept of each of the ranges that PIECES cuts the pass into; None also where it was given up."""
        self._settle()
        self._drop(0)
        return self._merged

    def _settle(self) -> None:
        if self._waiting:
            more, self._waiting, self._waiting_bytes = merge(self._waiting, self._unit), [], 0
            for i, (first, end) in enumerate(self._ranges):
                here, before = more.between(first, end), self._merged[i]
                self._merged[i] = merge_sorted(before or here.between(0, 0), here, self._unit)
        self._merged_bytes = sum(each.bytes for each in self._merged if each is not None)
        if self._merged_bytes > self._most_bytes:
            self._drop(self._merged_bytes - 0.75 * self._most_bytes)

    def _drop(self, surplus: float) -> None:
        """Give up ranges from the upper end, at least what another thread gave up."""
        for i in range(len(self._ranges) - 1, 0, -1):
            its, first = self._merged[i], self._ranges[i][0]
            if first < self._span.end and (surplus <= 0 or not self._span.narrow(first)):
                return
            self._merged[i] = None
            self._merged_bytes -= its.bytes if its else 0
            surplus -= its.bytes if its else 0


def found_in(part: Part, view: View, unit: Unit, key: bytes, batch_rows: int, span: Span) -> Candidates | None:
    """What one part has of a range of entities, merged: for a task that sees no other part."""
    gathered = Gathering(unit, span, math.inf)
    for batch in part.read(needed_columns(view, unit), batch_rows):
        gathered.add(candidates(batch, view, unit, key, span))
    found = [each for each in gathered.result() if each is not None]
    return merge(found, unit) if found else None


def passes(
    parts: Sequence[Part], view: View, unit: Unit, key: bytes, batch_rows: int, threads: int
) -> Iterator[list[list[Candidates]]]:
    """Pass after pass over the table, each with the entities of a further range, until all have had theirs.

    A pass comes as lists of what the threads found of one range of entities: `merge` each list to have the rows kept.
    """
    first, width = 0, WHOLE
    while first < WHOLE:
        span = Span(first, min(first + width, WHOLE))
        found = _gather(parts, view, unit, key, batch_rows, threads, span)
        used = sum(each.bytes for pieces in found for each in pieces)
        yield found
        width, first = _next_width(span, used), span.end


def _next_width(span: Span, used: int) -> int:
    """What should fit next time, going by what the last range took."""
    room = BOUNDING_BYTES / OVERHEAD
    return max(LEAST_WIDTH, int((span.end - span.first) * min(8.0, 0.9 * room / max(used, 1))))


def _gather(
    parts: Sequence[Part], view: View, unit: Unit, key: bytes, batch_rows: int, threads: int, span: Span
) -> list[list[Candidates]]:
    queue, lock, failed = _work(parts, needed_columns(view, unit), batch_rows), threading.Lock(), threading.Event()
    gathered = [Gathering(unit, span, BOUNDING_BYTES / OVERHEAD / threads) for _ in range(threads)]

    def work(own: Gathering) -> None:
        while True:
            with lock:
                batches = None if failed.is_set() else next(queue, None)
            if batches is None:
                return
            try:
                for batch in batches:
                    own.add(candidates(batch, view, unit, key, span))
            except BaseException:
                failed.set()  # so that the other threads do not read the rest of the table in vain
                raise

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, gathered))
        list(pool.map(Gathering.result, gathered))
    # Only now is the range final: one thread may have given up what another still holds.
    by_piece = zip(*(each.result() for each in gathered), strict=True)
    return [[each for each in pieces if each is not None and len(each)] for pieces in by_piece]


def _work(parts: Sequence[Part], columns: Sequence[str], batch_rows: int) -> Iterator[Iterator[pa.RecordBatch]]:
    """What one thread takes at a time: a part or, where there is only one, a batch of it."""
    if len(parts) > 1:
        return (part.read(columns, batch_rows) for part in parts)
    return (iter([batch]) for part in parts for batch in part.read(columns, batch_rows))
