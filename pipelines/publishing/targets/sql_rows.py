"""What SQLite and MariaDB share as targets: rows on their way in, and the bytes by which a row is known when it is read
back."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

BATCH_ROWS = 10_000


def blocks_of(rows: Iterable[pa.Table], stored: Callable[[Any], Any]) -> Iterator[list[tuple[Any, ...]]]:
    """The rows in blocks, part after part, each value as `stored` makes it."""
    for part in rows:
        for batch in part.to_batches(max_chunksize=BATCH_ROWS):
            columns = [[stored(value) for value in column.to_pylist()] for column in batch.columns]
            yield list(zip(*columns, strict=True))


def bytes_of(row: Sequence[Any]) -> bytes:
    """The same for the same values, on any machine."""
    return json.dumps(list(row), default=_written, ensure_ascii=False).encode(errors="surrogatepass")


def rows_as_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})


def _written(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
