"""Codes of whole numbers and dates by a table of every number that matters to a column.

Which numbers those are follows from the public bounds or the listed values alone. The table holds what the general
encoder makes of each of them, so nothing is coded in two ways; outside it the code is the same for all on a side, since
bins never decrease and no number beyond the listed ones is listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.reading.words import is_whole

TABLE_ENTRIES = 1 << 16
"""Above this a table falls out of the second-level cache, and looking up takes as long as finding the bin."""


class CodeTable(NamedTuple):
    """Codes of the whole numbers from `first` on; lower numbers have the first of them, higher ones the last."""

    first: int
    codes: np.ndarray


@lru_cache(maxsize=256)
def table_of(
    type_: pa.DataType, column: DomainColumn, encode: Callable[[pa.Array, DomainColumn], np.ndarray]
) -> CodeTable | None:
    """For values stored as this Arrow type; None if they are no whole numbers, or the column has too many."""
    if not _holds_whole_numbers(type_, column):
        return None
    if column.kind in ("category", "boolean") and column.form is not None:  # it may name any number
        return None
    low, high = _bounds(column)
    if high - low + 3 > TABLE_ENTRIES:
        return None
    limits = np.iinfo(np.int32 if pa.types.is_date32(type_) else type_.to_pandas_dtype())
    first, last = (int(min(max(number, limits.min), limits.max)) for number in (low - 1, high + 1))
    numbers = np.arange(last - first + 1).astype(limits.dtype) + limits.dtype.type(first)  # modulo the type's width
    return CodeTable(first, encode(pa.array(numbers).view(type_), column))


def _holds_whole_numbers(type_: pa.DataType, column: DomainColumn) -> bool:
    if pa.types.is_date32(type_):
        return column.kind == "date"
    return bool(pa.types.is_integer(type_)) and column.kind not in ("date", "datetime")


def _bounds(column: DomainColumn) -> tuple[int, int]:
    """Two whole numbers beyond which none has a code of its own."""
    if column.kind == "category":
        listed = [int(text) for text in map(str, column.values) if is_whole(text)]
        return min(listed, default=0), max(listed, default=0)
    return (0, 1) if column.kind == "boolean" else (math.floor(column.edges[0]), math.ceil(column.edges[-1]))
