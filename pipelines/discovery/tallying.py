"""The exact sums of one state of a table: by the engine that holds it, in threads, or part by part. Nothing is released
here, and which of these it was cannot be told from the sums.

Rows that are units are grouped by the engine where the source has one (`engine`), and streamed otherwise. Of an entity
at most `max_rows` rows count, chosen as in counting by a keyed hash of the rows themselves (sources/bounding.py), which
no engine computes: they are streamed. What is kept of such a row is the number of each of its values in a vocabulary
of this process; where parts are tallied elsewhere, the texts themselves travel (`as_texts`).

Memory is in proportion to the *different* values of columns whose values are looked for, and does not grow with rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.counting import share_out, usable_cores
from understudy.pipelines.discovery.engine import grouped_places, tally_in_engine
from understudy.pipelines.discovery.grid import MISSING, NOWHERE
from understudy.pipelines.discovery.mechanism import Sums
from understudy.pipelines.discovery.observing import Different
from understudy.pipelines.discovery.tally import VALUES, Asked, Tally
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source
from understudy.pipelines.sources.bounding import Candidates, merge, passes
from understudy.pipelines.sources.hashing import hash_texts
from understudy.pipelines.sources.pinning import changed
from understudy.pipelines.sources.rows import Seen
from understudy.pipelines.table.reading.arrow import text_buffers


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
        none = np.zeros((batch.num_rows, 0), np.uint8)
        codes = np.concatenate([none, *(hashed_texts(one, self.key) for one in found)], axis=1)
        kept = np.empty((batch.num_rows, len(by_slot)), np.int32)
        for slot, (place, _) in enumerate(self.tally.slots):
            kept[:, slot] = by_slot[slot][found[place].rows]
        return Seen(codes, None, kept)


def hashed_texts(found: Different, key: bytes) -> np.ndarray:
    """(rows, 17) bytes that tell values apart, whatever they are stored as; missing ones by the last byte."""
    offsets, data = text_buffers(found.spelled)
    hashes = hash_texts(offsets, data, key, "discovered")
    missing = np.asarray(found.spelled.is_null()) | (found.coarse == MISSING)
    words = np.stack([hashes.high, hashes.low], axis=1).view(np.uint8).reshape(len(missing), 16)
    table = np.concatenate([np.where(missing[:, None], 0, words), missing[:, None]], axis=1).astype(np.uint8)
    hashed: np.ndarray = table[found.rows]
    return hashed


def tally_table(source: Source, asked: Sequence[Asked], unit: Unit, key: bytes) -> dict[str, Sums]:
    """The exact sums, by this process and the source's engine, if it has one."""
    tally = Tally(asked, unit)
    with one_state(source):
        if unit.entity is None:
            _tally_rows(source, tally)
        else:
            _tally_entities(source, tally, unit, key)
    return tally.sums()


@contextmanager
def one_state(source: Source) -> Iterator[None]:
    """Whatever is read within is one state of the table, as far as its source can tell."""
    first = source.snapshot_id()
    yield
    if source.snapshot_id() != first:
        raise changed("the table")


def _tally_rows(source: Source, tally: Tally) -> None:
    counter = source.counter()
    grouped = [] if counter is None else grouped_places(counter, source.schema(), tally)
    streamed = [place for place in range(len(tally.asked)) if place not in grouped]
    if counter is not None and grouped:
        rows = tally_in_engine(counter, tally, grouped)
        if not streamed:
            tally.add_units(rows)
            return
    columns = list(dict.fromkeys(tally.columns[place] for place in streamed))

    def add(mine: Iterator[Iterable[pa.RecordBatch]]) -> None:
        for piece in mine:
            for batch in piece:
                tally.add_rows(batch, streamed)

    share_out(_pieces(source, columns), add, usable_cores())


def _pieces(source: Source, columns: Sequence[str]) -> Iterator[Iterable[pa.RecordBatch]]:
    """What one thread takes at a time: a part or, where there is only one, a batch of it."""
    parts = source.parts()
    if parts is not None and len(parts) > 1:
        return (part.read(columns, BATCH_ROWS) for part in parts)
    return ([batch] for batch in source.read(columns, BATCH_ROWS))


def _tally_entities(source: Source, tally: Tally, unit: Unit, key: bytes) -> None:
    parts = source.parts()
    whole: Sequence[Part] = [source] if parts is None else parts
    for found in passes(whole, DiscoveryView(tally, key), unit, key, BATCH_ROWS, usable_cores()):
        for pieces in found:
            if pieces:
                merged = merge(pieces, unit)
                tally.add_entities(merged.kept, numbered_entities(merged))


def numbered_entities(merged: Candidates) -> np.ndarray:
    """0, 1, 2 ... for the entities, by which the rows are sorted."""
    if not len(merged):
        return np.zeros(0, np.int64)
    high, low = merged.entity.high, merged.entity.low
    another = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return np.concatenate([[0], np.cumsum(another)]).astype(np.int64)


def as_texts(kept: np.ndarray, tally: Tally) -> pa.Table:
    """The same cells, values by their texts: to be understood where this vocabulary is not known."""
    columns: dict[str, pa.Array] = {}
    for slot, (place, about) in enumerate(tally.slots):
        cells = pa.array(kept[:, slot], mask=kept[:, slot] == NOWHERE)
        if about == VALUES:
            cells = pa.array(list(tally.vocabularies[place].numbers), pa.large_string()).take(cells)
        columns[str(slot)] = cells
    return pa.table(columns)


def as_numbers(kept: pa.Table, tally: Tally) -> np.ndarray:
    """The cells of rows by this tally's vocabularies, from `as_texts`."""
    cells = np.empty((len(kept), len(tally.slots)), np.int32)
    for slot, (place, about) in enumerate(tally.slots):
        column = kept.column(str(slot)).combine_chunks()
        if about == VALUES:
            coded = column.dictionary_encode()
            numbers = np.append(tally.vocabularies[place].numbered(coded.dictionary), np.int32(NOWHERE))
            cells[:, slot] = numbers[coded.indices.fill_null(len(numbers) - 1).to_numpy()]
        else:
            cells[:, slot] = column.fill_null(NOWHERE).to_numpy()
    return cells
