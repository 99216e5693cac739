"""Parquet files of many kinds, and ways in which bytes of them go wrong.

Every private value is one that the damaged file's message must not show: texts hold SECRET, numbers its digits.
"""

from __future__ import annotations

import datetime as dt
import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SECRET, DIGITS = "Quaxolotl", "71934"
ROWS = 700
SPEC = {
    "name": "damaged",
    "method": {"name": "kernel"},
    "source": {"uri": "t.parquet", "snapshot": "s", "rows_are_public": True},
    "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6, "unit": {"entity": "who", "max_rows": 2}},
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 20, "nullable": True},
        "code": {"type": "category", "values": [1, 2, 3, 4], "other": True},
        "charge": {"type": "number", "min": 0, "max": 1e7, "bins": 16, "nullable": True},
        "exact": {"type": "number", "min": -5, "max": 5, "bins": 9},
        "day": {"type": "date", "min": "2024-01-01", "max": "2026-12-31", "bins": "month"},
        "seen": {"type": "datetime", "min": "2026-01-01", "max": "2026-03-01", "bins": "week", "nullable": True},
        "word": {"type": "category", "values": [f"{SECRET}{i}" for i in range(9)], "other": True, "nullable": True},
        "note": {"type": "category", "values": ["a", "b"], "other": True},
        "truth": {"type": "boolean"},
        "picture": {"type": "tensor", "shape": [2, 2], "min": 0, "max": 9},
        "who": {"type": "identifier", "action": "drop"},
    },
    "publish": {"to": "out"},
}


@dataclass(frozen=True)
class Whole:
    """A sound file and where its parts begin."""

    name: str
    content: bytes
    pages: tuple[int, ...]
    footer: int


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    some, none = rng.integers(0, 9, ROWS), rng.random(ROWS) < 0.1
    return pa.table(
        {
            "nested": pa.array([{"a": [int(i)] * (i % 3), "b": f"{SECRET}{i}"} for i in some]),
            "who": pa.array([f"{SECRET}-{i}" for i in rng.integers(0, 200, ROWS)]),
            "age": pa.array(rng.integers(0, 120, ROWS), mask=none),
            "code": pa.array(some.astype(np.uint8)),
            "charge": pa.array(float(DIGITS) + rng.random(ROWS), mask=none[::-1]),
            "exact": pa.array([Decimal(f"{DIGITS}.{i}") for i in some], pa.decimal128(9, 2)),
            "day": pa.array([dt.date(2025, 1, 1) + dt.timedelta(int(i)) for i in some]),
            "seen": pa.array([None if i == 3 else dt.datetime(2026, 1, 5, int(i)) for i in some], pa.timestamp("us")),
            "word": pa.array([None if i == 7 else f"{SECRET}{i}" for i in some]),
            "note": pa.array([f"{SECRET} {i} {i * 7919}" for i in range(ROWS)]),
            "truth": pa.array(some > 4),
            "picture": pa.array([[float(DIGITS), *map(float, rng.integers(0, 9, 3))] for _ in some]),
        }
    )


def _whole(name: str, **options: object) -> Whole:
    sink = io.BytesIO()
    pq.write_table(table(), sink, row_group_size=300, write_batch_size=100, data_page_size=400, **options)
    content = sink.getvalue()
    metadata = pq.read_metadata(io.BytesIO(content))
    chunks = [
        metadata.row_group(g).column(c) for g in range(metadata.num_row_groups) for c in range(metadata.num_columns)
    ]
    starts = {start for chunk in chunks for start in (chunk.dictionary_page_offset, chunk.data_page_offset) if start}
    return Whole(name, content, tuple(sorted(starts)), len(content) - 8 - metadata.serialized_size)


_DELTA = {
    **{"age": "DELTA_BINARY_PACKED", "code": "DELTA_BINARY_PACKED", "day": "DELTA_BINARY_PACKED"},
    **{"seen": "DELTA_BINARY_PACKED", "charge": "BYTE_STREAM_SPLIT", "who": "DELTA_BYTE_ARRAY"},
    **{"word": "DELTA_BYTE_ARRAY", "note": "DELTA_LENGTH_BYTE_ARRAY", "truth": "RLE"},
}


def whole_files() -> list[Whole]:
    """Dictionary and plain pages of every codec, both versions of pages, newer encodings, checksums, odd types."""
    codecs = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
    found = [_whole(f"dictionary {codec}", compression=codec) for codec in codecs]
    found += [_whole(f"plain {codec}", compression=codec, use_dictionary=False) for codec in codecs]
    found += [_whole(f"version 2 {codec}", compression=codec, data_page_version="2.0") for codec in codecs[:3]]
    found.append(_whole("delta", compression="none", use_dictionary=False, column_encoding=_DELTA))
    found.append(_whole("delta zstd", compression="zstd", use_dictionary=False, column_encoding=_DELTA))
    found.append(_whole("checksums", write_page_checksum=True))
    found.append(_whole("outgrown dictionary", dictionary_pagesize_limit=300))
    found.append(_whole("indexed", write_page_index=True, compression="none"))
    found.append(_whole("no Arrow schema", store_schema=False, compression="none"))
    return found


def damaged(whole: Whole, rng: random.Random) -> tuple[str, bytes]:
    """What was done, and the file after it."""
    place = rng.choice(["start", "page header", "page header", "pages", "pages", "footer", "footer", "footer", "end"])
    at = {
        "start": lambda: rng.randrange(4),
        "page header": lambda: min(rng.choice(whole.pages) + rng.randrange(24), whole.footer - 1),
        "pages": lambda: rng.randrange(4, whole.footer),
        "footer": lambda: rng.randrange(whole.footer, len(whole.content) - 8),
        "end": lambda: rng.randrange(len(whole.content) - 8, len(whole.content)),
    }[place]()
    how = rng.choice(list(_WAYS))
    return f"{whole.name}: {how} at {place} {at}", _WAYS[how](whole.content, at, rng)


def _flipped(content: bytes, at: int, rng: random.Random) -> bytes:
    return _put(content, at, bytes([content[at] ^ 1 << rng.randrange(8)]))


def _replaced(content: bytes, at: int, rng: random.Random) -> bytes:
    return _put(content, at, rng.randbytes(rng.choice([1, 2, 4, 16])))


def _high(content: bytes, at: int, rng: random.Random) -> bytes:
    """Lengths and counts become the largest there are."""
    return _put(content, at, b"\xff" * rng.choice([1, 4, 8]) + b"\x7f")


def _zeroed(content: bytes, at: int, rng: random.Random) -> bytes:
    return _put(content, at, bytes(rng.choice([1, 8, 64, 512])))


def _cut(content: bytes, at: int, rng: random.Random) -> bytes:
    return content[:at]


def _taken_out(content: bytes, at: int, rng: random.Random) -> bytes:
    return content[:at] + content[at + rng.choice([1, 7, 100]) :]


def _doubled(content: bytes, at: int, rng: random.Random) -> bytes:
    return content[:at] + content[max(0, at - rng.choice([1, 7, 100])) :]


def _put(content: bytes, at: int, new: bytes) -> bytes:
    new = new[: len(content) - at]
    return content[:at] + new + content[at + len(new) :]


_WAYS: dict[str, Callable[[bytes, int, random.Random], bytes]] = {
    "flipped": _flipped,
    "replaced": _replaced,
    "high": _high,
    "zeroed": _zeroed,
    "cut": _cut,
    "taken out": _taken_out,
    "doubled": _doubled,
}
