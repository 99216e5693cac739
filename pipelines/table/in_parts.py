"""The seam between making rows and publishing them: a table as parts, of which one at a time need be in memory.

Generating returns a `Synthetic` whose `parts` are these; checking and publishing go over them part by part. How many
parts there are, how many rows each has and which rows those are is fixed before the first is drawn (`sizes_of`, and a
random stream for each part that is derived from the measurement), so that whoever draws part 7 again, after a kill or
on another worker, draws the same rows.

A table that is small is one part, and is made as it was before there were parts. Whoever publishes several tables at
once has one `Parts` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

PART_ROWS = 1_000_000
"""Rows of a part at most; a table of no more, and of no more values than `ONE_PART_VALUES`, is one part."""
PART_VALUES = 16_000_000
ONE_PART_VALUES = 64_000_000


@dataclass(frozen=True, eq=False)
class InMemory:
    tables: tuple[pa.Table, ...]

    def __call__(self, number: int) -> pa.Table:
        return self.tables[number]


@dataclass(frozen=True, eq=False)
class Parts:
    """`read(number)` is a part's rows, the same each time; every part has the columns of `schema`. Can be pickled."""

    schema: pa.Schema
    sizes: tuple[int, ...]
    read: Callable[[int], pa.Table] = field(repr=False)

    @classmethod
    def of(cls, table: pa.Table) -> Parts:
        """A table that is in memory, as its only part."""
        return cls(table.schema, (table.num_rows,), InMemory((table,)))

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[pa.Table]:
        return (self.read(number) for number in range(len(self)))

    def table(self) -> pa.Table:
        """All rows, in memory."""
        return self.read(0) if len(self) == 1 else pa.concat_tables(list(self))

    def arrow(self) -> pa.Table | pa.RecordBatchReader:
        """For libraries that take either: a table that is in memory anyway, or a stream."""
        return self.table() if len(self) == 1 else self.batches()

    def batches(self) -> pa.RecordBatchReader:
        """All rows, of which one part is in memory at a time."""
        return pa.RecordBatchReader.from_batches(
            self.schema, (batch for part in self for batch in part.cast(self.schema).to_batches())
        )


def sizes_of(rows: int, width: int) -> tuple[int, ...]:
    """Rows of each part of a table of so many rows and values a row: as few parts as may be, and nearly equal ones."""
    if rows <= PART_ROWS and rows * width <= ONE_PART_VALUES:
        return (rows,)
    most = max(1, min(PART_ROWS, PART_VALUES // max(width, 1)))
    parts = -(-rows // most)
    return tuple(rows * (part + 1) // parts - rows * part // parts for part in range(parts))
