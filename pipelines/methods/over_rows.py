"""What a method computes of private rows where counts are not enough: sums of integers, or something of each row.

A `Work` is a pure function of batches that can be pickled, and what it makes of a row depends on that row alone. A
table in this process hands it all batches at once; one whose rows are read by workers (`SpreadOut`) hands it those of
one part at a time. Sums are of int64, which add up to the same whatever the parts; what is gathered comes in the
order in which `record_batches` has the rows. So where the work is done changes no bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from understudy.pipelines.methods.base import PrivateTable

Made = TypeVar("Made")
Work = Callable[[Iterable[pa.RecordBatch]], Made]


@runtime_checkable
class SpreadOut(Protocol):
    """What a private table offers beside `PrivateTable` where others than this process may read its rows."""

    def summed(self, work: Work[np.ndarray]) -> np.ndarray:
        """The sum of what the work makes of each part."""
        ...

    def gathered(self, work: Work[Made]) -> list[Made]:
        """What the work makes of each part, in the order of `record_batches`; nothing of a table without rows."""
        ...


def summed(table: PrivateTable, work: Work[np.ndarray]) -> np.ndarray:
    """What the work, a sum of integers over rows, makes of all of them."""
    return table.summed(work) if isinstance(table, SpreadOut) else work(table.record_batches())


def gathered(table: PrivateTable, work: Work[Made]) -> list[Made]:
    return table.gathered(work) if isinstance(table, SpreadOut) else [work(table.record_batches())]
