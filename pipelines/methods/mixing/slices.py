"""Long releases: slices that are fetched when they are needed, and tables that live on disk.

Every slice is a purchase of its own and is stored by it, so a release need not be held in memory: a slice is known by
the place it is stored in and read again with its hash checked. Nothing here can buy or draw. What is made from slices
goes to an unnamed file that is mapped into memory, so the system may drop pages of it at will. Released and synthetic
numbers only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from understudy.pipelines.privacy.measurement import Stored

TABLE_BYTES = 1 << 28
"""Tables larger than this are written to disk as they are made."""


class SlicedArrays(Mapping[str, np.ndarray]):
    """`held` arrays, and those of slice n under `<name>_<n>`; at most one slice is in memory at a time."""

    def __init__(self, held: Mapping[str, np.ndarray], slices: Sequence[Stored], names: Sequence[str]) -> None:
        self._held = dict(held)
        self._slices = tuple(slices)
        self._places = {slice_key(name, n): (n, name) for n in range(len(slices)) for name in names}
        self._last: tuple[int, Mapping[str, np.ndarray]] | None = None

    def __getitem__(self, key: str) -> np.ndarray:
        if key in self._held:
            return self._held[key]
        number, name = self._places[key]
        last = self._last
        if last is None or last[0] != number:
            self._last = last = None  # before the next one is read, so that two are never held
            self._last = last = number, self._slices[number].read().arrays
        return last[1][name]

    def __iter__(self) -> Iterator[str]:
        yield from self._held
        yield from self._places

    def __len__(self) -> int:
        return len(self._held) + len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._held or key in self._places


def slice_key(name: str, number: int) -> str:
    return f"{name}_{number:05d}"


def table_of(batches: Iterator[pa.RecordBatch], expected_bytes: int) -> pa.Table:
    """The batches as one table: in memory, or mapped from a file without a name that ends with the table."""
    if expected_bytes <= TABLE_BYTES:
        return pa.Table.from_batches(list(batches))
    with tempfile.NamedTemporaryFile(prefix="understudy-", suffix=".arrow") as file:
        first = next(batches)
        with pa.ipc.new_file(file.name, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all()
