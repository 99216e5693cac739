"""Tallying in the database: the engine groups the rows of each column by its value and sends each value once.

Theorem. The same sums as streaming the rows. What a row gives is a function of its own value (`observing`), so that
  looking at each different value once, with the number of rows that hold it, is looking at all rows. That needs an
  engine which takes two values for one only if they are read alike: true of whole numbers, decimals, texts by their
  bytes, truths, dates and moments. Not of floats (0 and -0 are one group and two texts) nor of intervals: streamed.
Relation, sensitivity, noise unit, reference. Those of `tally`; nothing is drawn here. Proof. docs/proofs/discovery.md.

Only for rows that are units. Of an entity the rows that count are chosen by a keyed hash, and its t different cells are
told apart after blanks were taken off: an engine would choose and count otherwise, so entities' rows are streamed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from understudy.pipelines.discovery.tally import Tally
from understudy.pipelines.sources.base import GroupCounter
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.reading.arrow import is_text


def grouped_places(counter: GroupCounter, schema: pa.Schema, tally: Tally) -> list[int]:
    """The columns that the engine groups, judged by their types alone."""
    return [
        place
        for place, name in enumerate(tally.columns)
        if len(schema.get_all_field_indices(name)) == 1
        and _is_told_apart(schema.field(name).type)
        and counter.can_group(_by_value(name))
    ]


def tally_in_engine(counter: GroupCounter, tally: Tally, places: Sequence[int]) -> int:
    """Add what the rows give of these columns; the number of rows, which were not added as units."""
    rows = 0
    for first in range(0, len(places), counter.most_columns):
        asked = places[first : first + counter.most_columns]
        columns = [_by_value(tally.columns[place]) for place in asked]
        everywhere = (1 << len(asked)) - 1
        rows = 0
        for batch in counter.grouped(columns, [[i] for i in range(len(asked))]):
            absent, counts = (batch.column(len(asked) + i).to_numpy(zero_copy_only=False) for i in (0, 1))
            for i, place in enumerate(asked):
                members = np.flatnonzero(absent == everywhere ^ (1 << (len(asked) - 1 - i)))
                if len(members):
                    held = counts[members].astype(np.int64)
                    tally.add_counted(place, batch.column(i).take(pa.array(members)), held)
                    rows += int(held.sum()) if i == 0 else 0
    return rows


def _by_value(name: str) -> DomainColumn:
    """A column of which nothing is listed: grouped by the values that streaming would send."""
    return DomainColumn(name, "category", (), (), True, True, False)


def _is_told_apart(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _is_told_apart(type_.value_type)
    exact = (
        pa.types.is_boolean, pa.types.is_integer, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp, is_text,
    )  # fmt: skip
    return any(of_kind(type_) for of_kind in exact)
