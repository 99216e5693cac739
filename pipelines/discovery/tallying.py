"""Exact sums of weights, question by question, while the table streams by: nothing is released here.

A row of its own gives 1 to each of its cells. Of an entity at most `max_rows` rows count, chosen as in counting by a
keyed hash of the rows themselves (sources/bounding.py), and each of its t different cells gets `weight(t)`.

Theorem, relation, sensitivity, noise unit. What a unit adds to the sums of one question has L2 norm at most G, under
  either relation (docs/proofs/discovery.md, step 1). Reference. Gopi et al. 2020.

Memory is in proportion to the *different* values of columns whose values are looked for, and does not grow with rows.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from understudy.pipelines.discovery.grid import COARSE_CELLS, FINE_CELLS, MISSING, NOWHERE
from understudy.pipelines.discovery.mechanism import Sums
from understudy.pipelines.discovery.observing import Different, Looking, different
from understudy.pipelines.discovery.thresholds import grain, weights
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS, Source
from understudy.pipelines.sources.bounding import Candidates, merge, passes
from understudy.pipelines.sources.hashing import hash_texts
from understudy.pipelines.sources.pinning import changed
from understudy.pipelines.sources.rows import Seen
from understudy.pipelines.table.reading.arrow import text_buffers

UNITS = "units"
VALUES, COARSE, FINE = "values", "coarse", "fine"


@dataclass(frozen=True)
class Asked:
    """What is asked about one column: its `values`, its `coarse` and `fine` cells, or some of these."""

    looking: Looking
    about: tuple[str, ...]


def question_name(place: int, about: str) -> str:
    return f"{place}/{about}"


@dataclass
class Vocabulary:
    """The different texts of a column, numbered as they come: a number is never compared, hashed or shown."""

    numbers: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def numbered(self, found: Different) -> np.ndarray:
        """The number of each different value, NOWHERE for what is no candidate."""
        known = self.numbers
        with self._lock:
            return np.array(
                [NOWHERE if text is None else known.setdefault(text, len(known)) for text in found.texts.to_pylist()],
                np.int32,
            )


class Tally:
    """Sums of all questions about all columns."""

    def __init__(self, asked: Sequence[Asked], unit: Unit) -> None:
        self.asked, self.unit = tuple(asked), unit
        self.slots = [(place, about) for place, one in enumerate(asked) for about in one.about]
        self.vocabularies = [Vocabulary() for _ in asked]
        sizes = {COARSE: COARSE_CELLS, FINE: FINE_CELLS, VALUES: 0}
        self._sums = [np.zeros(sizes[about], np.int64) for _, about in self.slots]
        self._units = 0

    @property
    def columns(self) -> list[str]:
        return [one.looking.name for one in self.asked]

    def cells(self, batch: pa.RecordBatch) -> tuple[list[Different], list[np.ndarray]]:
        """The different values of each column, and of each slot which cell each of these has."""
        found = [different(batch.column(one.looking.name), one.looking) for one in self.asked]
        by_slot = [self._cell_of(place, about, found[place]) for place, about in self.slots]
        return found, by_slot

    def _cell_of(self, place: int, about: str, found: Different) -> np.ndarray:
        if about == VALUES:
            return self.vocabularies[place].numbered(found)
        return found.coarse if about == COARSE else found.fine

    def add_rows(self, batch: pa.RecordBatch) -> None:
        """Rows that are a unit each."""
        found, by_slot = self.cells(batch)
        times = [np.bincount(one.rows, minlength=len(one.texts)) for one in found]
        for slot, (place, _) in enumerate(self.slots):
            self._add(slot, by_slot[slot], times[place])
        self._units += batch.num_rows

    def add_entities(self, kept: np.ndarray, entity: np.ndarray) -> None:
        """Rows of entities, which are numbered; `kept` has the cell of each row for each slot."""
        given = weights(self.unit)
        for slot in range(len(self.slots)):
            cells = kept[:, slot].astype(np.int64)
            there = cells != NOWHERE
            pairs = np.unique((entity[there] << 32) | cells[there])
            whose = pairs >> 32
            several = np.bincount(whose, minlength=1)
            self._add(slot, pairs & 0xFFFFFFFF, given[several[whose]])
        self._units += grain(self.unit) * (len(np.unique(entity)))

    def _add(self, slot: int, cells: np.ndarray, amounts: np.ndarray) -> None:
        there, room = cells != NOWHERE, len(self._sums[slot])
        most = int(cells.max(initial=0)) + 1
        if most > room:  # doubled, so that it is seldom copied
            self._sums[slot] = np.pad(self._sums[slot], (0, max(most, 2 * room) - room))
        np.add.at(self._sums[slot], cells[there], amounts[there].astype(np.int64))

    def sums(self) -> dict[str, Sums]:
        found = {UNITS: Sums(np.array([self._units], np.int64))}
        for (place, about), total in zip(self.slots, self._sums, strict=True):
            values = None
            if about == VALUES:
                known = self.vocabularies[place].numbers
                held = total[: len(known)]
                held = np.pad(held, (0, len(known) - len(held)))
                values = pa.array(list(known), pa.large_string()).filter(pa.array(held > 0))
                total = held[held > 0]
            found[question_name(place, about)] = Sums(total, values)
        return found


@dataclass(frozen=True)
class DiscoveryView:
    """What is kept of a row that is bounded: its cell for each slot. Rows are chosen by hashes of their texts."""

    tally: Tally
    key: bytes

    @property
    def columns(self) -> Sequence[str]:
        return self.tally.columns

    def look(self, batch: pa.RecordBatch) -> Seen:
        found, by_slot = self.tally.cells(batch)
        codes = np.concatenate([_hashed(one, self.key) for one in found], axis=1)
        kept = np.empty((batch.num_rows, len(by_slot)), np.int32)
        for slot, (place, _) in enumerate(self.tally.slots):
            kept[:, slot] = by_slot[slot][found[place].rows]
        return Seen(codes, None, kept)


def _hashed(found: Different, key: bytes) -> np.ndarray:
    """(rows, 17) bytes that tell values apart, whatever they are stored as; missing ones by the last byte."""
    offsets, data = text_buffers(found.spelled)
    hashes = hash_texts(offsets, data, key, "discovered")
    missing = np.asarray(found.spelled.is_null()) | (found.coarse == MISSING)
    words = np.stack([hashes.high, hashes.low], axis=1).view(np.uint8).reshape(len(missing), 16)
    table = np.concatenate([np.where(missing[:, None], 0, words), missing[:, None]], axis=1).astype(np.uint8)
    hashed: np.ndarray = table[found.rows]
    return hashed


def tally_table(source: Source, asked: Sequence[Asked], unit: Unit, key: bytes) -> dict[str, Sums]:
    """The exact sums of one state of the table."""
    first = source.snapshot_id()
    tally = Tally(asked, unit)
    if unit.entity is None:
        for batch in source.read(tally.columns, BATCH_ROWS):
            tally.add_rows(batch)
    else:
        _tally_entities(source, tally, unit, key)
    if source.snapshot_id() != first:
        raise changed("the table")
    return tally.sums()


def _tally_entities(source: Source, tally: Tally, unit: Unit, key: bytes) -> None:
    parts = source.parts()
    threads = len(os.sched_getaffinity(0))
    view = DiscoveryView(tally, key)
    for found in passes([source] if parts is None else parts, view, unit, key, BATCH_ROWS, threads):
        for pieces in found:
            if pieces:
                merged = merge(pieces, unit)
                tally.add_entities(merged.kept, _numbered(merged))


def _numbered(merged: Candidates) -> np.ndarray:
    """0, 1, 2 ... for the entities, by which the rows are sorted."""
    if not len(merged):
        return np.zeros(0, np.int64)
    high, low = merged.entity.high, merged.entity.low
    another = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return np.concatenate([[0], np.cumsum(another)]).astype(np.int64)
