"""Exact sums of weights, question by question, of rows that come in any order and in any number of pieces.

A row of its own gives 1 to each of its cells. Of an entity each of its t different cells gets `weight(t)`; which of its
rows count was decided before (sources/bounding.py).

Theorem, relation, sensitivity, noise unit. What a unit adds to the sums of one question has L2 norm at most G, under
  either relation (docs/proofs/discovery.md, step 1). Reference. Gopi et al. 2020.

Sums are of units, so those of disjoint sets of units add up: `merge_sums` of parts' sums is the sums of the whole, to
the last integer, wherever and in whichever order the parts were tallied.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from understudy.pipelines.discovery.grid import COARSE_CELLS, FINE_CELLS, NOWHERE
from understudy.pipelines.discovery.mechanism import Sums
from understudy.pipelines.discovery.observing import Different, Looking, different
from understudy.pipelines.discovery.thresholds import grain, weights
from understudy.pipelines.privacy.relation import Unit

UNITS = "units"
VALUES, COARSE, FINE = "values", "coarse", "fine"


@dataclass(frozen=True)
class Asked:
    """What is asked about one column: its `values`, its `coarse` and `fine` cells, or some of these. `table` is whose
    column it is, of several."""

    looking: Looking
    about: tuple[str, ...]
    table: str = ""


def question_name(place: int, about: str) -> str:
    return f"{place}/{about}"


@dataclass
class Vocabulary:
    """The different texts of a column, numbered as they come: a number is never compared, hashed or shown."""

    numbers: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def numbered(self, texts: pa.Array) -> np.ndarray:
        """The number of each text, NOWHERE for null, which is no candidate."""
        known = self.numbers
        with self._lock:
            return np.array(
                [NOWHERE if text is None else known.setdefault(text, len(known)) for text in texts.to_pylist()],
                np.int32,
            )


class Tally:
    """Sums of all questions about all columns. Threads may add to one of them side by side."""

    def __init__(self, asked: Sequence[Asked], unit: Unit) -> None:
        self.asked, self.unit = tuple(asked), unit
        self.slots = [(place, about) for place, one in enumerate(asked) for about in one.about]
        self.vocabularies = [Vocabulary() for _ in asked]
        sizes = {COARSE: COARSE_CELLS, FINE: FINE_CELLS, VALUES: 0}
        self._sums = [np.zeros(sizes[about], np.int64) for _, about in self.slots]
        self._units = 0
        self._lock = threading.Lock()

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
            return self.vocabularies[place].numbered(found.texts)
        return found.coarse if about == COARSE else found.fine

    def add_rows(self, batch: pa.RecordBatch, places: Sequence[int]) -> None:
        """Rows that are a unit each; of these places' columns."""
        for place in places:
            found = different(batch.column(self.asked[place].looking.name), self.asked[place].looking)
            self._add_different(place, found, np.bincount(found.rows, minlength=len(found.texts)))
        self.add_units(batch.num_rows)

    def add_counted(self, place: int, values: pa.Array, counts: np.ndarray) -> None:
        """So many rows of each of these values, a unit each, of one column; the units are told by `add_units`."""
        found = different(values, self.asked[place].looking)
        times = np.zeros(len(found.texts), np.int64)
        np.add.at(times, found.rows, counts)
        self._add_different(place, found, times)

    def _add_different(self, place: int, found: Different, times: np.ndarray) -> None:
        for slot, (column, about) in enumerate(self.slots):
            if column == place:
                self._add(slot, self._cell_of(place, about, found), times)

    def add_units(self, units: int) -> None:
        with self._lock:
            self._units += grain(self.unit) * units

    def add_entities(self, kept: np.ndarray, entity: np.ndarray) -> None:
        """All rows that count of some entities, which are numbered; `kept` has the cell of each row for each slot."""
        given = weights(self.unit)
        for slot in range(len(self.slots)):
            cells = kept[:, slot].astype(np.int64)
            there = cells != NOWHERE
            pairs = np.unique((entity[there] << 32) | cells[there])
            whose = pairs >> 32
            several = np.bincount(whose, minlength=1)
            self._add(slot, pairs & 0xFFFFFFFF, given[several[whose]])
        self.add_units(len(np.unique(entity)))

    def _add(self, slot: int, cells: np.ndarray, amounts: np.ndarray) -> None:
        there, most = cells != NOWHERE, int(cells.max(initial=0)) + 1
        with self._lock:
            room = len(self._sums[slot])
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


def merge_sums(several: Sequence[Mapping[str, Sums]]) -> dict[str, Sums]:
    """The sums of all units of tallies that have no unit in common, of the same questions."""
    return {name: _merged([each[name] for each in several]) for name in several[0]}


def _merged(several: Sequence[Sums]) -> Sums:
    if several[0].values is None:
        total: np.ndarray = np.stack([each.weights for each in several]).sum(axis=0, dtype=np.int64)
        return Sums(total)
    texts = pa.chunked_array([each.values for each in several], pa.large_string())
    weighed = pa.chunked_array([pa.array(each.weights, pa.int64()) for each in several], pa.int64())
    added = pa.table({"text": texts, "weight": weighed}).group_by("text").aggregate([("weight", "sum")])
    return Sums(added["weight_sum"].to_numpy(), _in_one(added["text"]))


def _in_one(texts: pa.ChunkedArray) -> pa.LargeStringArray:
    return pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], pa.large_string())
