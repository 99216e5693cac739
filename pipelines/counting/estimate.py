"""How long counting will take and how much memory, before a row is read.

Computed from the public domain and workload and a number of rows. That number is private under ADD_REMOVE: give one
only if its owner declares it public (a Parquet footer or a catalogue knows it, see `Source.row_estimate`). The costs
are nanoseconds of one core, measured on the machine of docs/scale.md; expect a factor of two either way elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from understudy.pipelines.counting.cover import cover
from understudy.pipelines.counting.tally import DENSE_CELLS
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS
from understudy.pipelines.sources.bounding import BOUNDING_BYTES, HASH_BYTES, OVERHEAD, slices
from understudy.pipelines.sources.rows import CodeView
from understudy.pipelines.table.coding.encode import code_type
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

CODED_NS, PLAIN_NS = 3.5, 8.0
"""Reading and encoding one value of a column that Parquet keeps as dictionary codes, and of any other (numbers of many
values; truths, which are bits)."""

CODED_VALUES = 1 << 16
"""Parquet writers keep columns of about so many different values as dictionary codes."""

JOINT_NS, SPARSE_NS = 1.75, 120.0
"""Adding one row to one joint table, in cache or as sorted cell numbers."""

HASH_NS, RANK_NS = 90.0, 150.0
"""Bounding: hashing one id or row, and sorting and moving one row."""

PROCESS_BYTES = 350 << 20
"""Python with Arrow, numba and DuckDB loaded."""

ARROW_BYTES = 16
"""A decoded value in flight."""

COLUMN_BYTES = 1 << 20
"""What a thread's reader holds of each column's pages (`files.parquet.BUFFER_BYTES`)."""

THREAD_BYTES = 20 << 20
"""What a thread's allocators keep beside that."""

TOUCH_NS = 0.6
"""A byte of memory that is used for the first time: most of the cost of counting a small table."""


@dataclass(frozen=True)
class CountingEstimate:
    """Seconds of one core by what they go into, and the most memory resident at one time."""

    rows: int
    joint_tables: int
    passes: int
    cores: int
    reading_seconds: float
    joint_seconds: float
    bounding_seconds: float
    memory_seconds: float
    peak_mb: float

    @property
    def core_seconds(self) -> float:
        return self.reading_seconds + self.joint_seconds + self.bounding_seconds + self.memory_seconds

    @property
    def seconds(self) -> float:
        """By the clock, where the cores have nothing else to do."""
        return self.core_seconds / max(self.cores, 1)


def estimate_counting(
    domain: TableDomain, cliques: Sequence[tuple[int, ...]], unit: Unit, rows: int, cores: int
) -> CountingEstimate:
    """What counting these cliques of so many rows will cost on so many cores."""
    named = {column for clique in cliques for column in clique}
    columns = [column for i, column in enumerate(domain.columns) if i in named or unit.entity is not None]
    groups = cover(domain.sizes, tuple(cliques)).groups
    cells = [math.prod(domain.sizes[column] for column in group) for group in groups]
    sparse = sum(1 for each in cells if each > DENSE_CELLS)
    reading = sum(CODED_NS if _stays_coded(column) else PLAIN_NS for column in columns)
    joint, bound, passes = (len(groups) - sparse) * JOINT_NS + sparse * SPARSE_NS, 0.0, 1
    if unit.entity is not None:
        row_bytes = CodeView(domain, sorted(named)).row_bytes
        passes = len(slices(rows, row_bytes))
        bound = (PLAIN_NS + HASH_NS) * passes + HASH_NS + RANK_NS
    batch = min(BATCH_ROWS, rows) * sum(ARROW_BYTES + 2 * code_type(column.size).itemsize for column in columns)
    tables = 4 * sum(each for each in cells if each <= DENSE_CELLS)
    result = 8 * sum(math.prod(domain.sizes[column] for column in clique) for clique in cliques)
    bounding = 0
    if unit.entity is not None:
        bounding = min(int(OVERHEAD * (HASH_BYTES + row_bytes) * rows), BOUNDING_BYTES)
    thread = batch + len(columns) * COLUMN_BYTES + tables + result + THREAD_BYTES
    used = cores * thread + result + bounding
    each = rows * 1e-9
    return CountingEstimate(
        rows=rows,
        joint_tables=len(groups),
        passes=passes,
        cores=cores,
        reading_seconds=each * reading * passes,
        joint_seconds=each * joint,
        bounding_seconds=each * bound,
        memory_seconds=used * TOUCH_NS * 1e-9,
        peak_mb=(PROCESS_BYTES + used) / 2**20,
    )


def _stays_coded(column: DomainColumn) -> bool:
    """Whether the column has few different values as far as its public declaration tells."""
    if column.kind in ("integer", "date"):
        return column.edges[-1] - column.edges[0] <= CODED_VALUES
    return column.kind == "category"
