"""Pictures in the idx format (as MNIST is distributed), plain or gzipped, with the labels in the file beside them.

Columns: `image`, and `label` if there is a file of the same name with `images-idx3` replaced by `labels-idx1`.
Format: two zero bytes, a type byte, the number of axes, each axis as a 32-bit big-endian number, then the values.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import BATCH_ROWS, SourceBase
from understudy.pipelines.sources.pinning import FilePin, state_of
from understudy.pipelines.table.tensors import BATCH_BYTES

_NAME = re.compile(r"[-.]idx[1-4]-(ubyte|byte|short|int|float|double)(\.gz)?$", re.IGNORECASE)
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def is_idx(path: Path) -> bool:
    return _NAME.search(path.name) is not None


@dataclass(frozen=True)
class _File:
    """What the header of an idx file says."""

    path: Path
    pin: FilePin
    dtype: np.dtype
    shape: tuple[int, ...]
    data_at: int

    @property
    def width(self) -> int:
        return math.prod(self.shape[1:])

    @property
    def type(self) -> pa.DataType:
        value = pa.from_numpy_dtype(self.dtype.newbyteorder("="))
        return value if len(self.shape) == 1 else pa.list_(value, self.width)

    def next_rows(self, stream: IO[bytes], rows: int) -> pa.Array:
        raw = stream.read(rows * self.width * self.dtype.itemsize)
        if len(raw) != rows * self.width * self.dtype.itemsize:
            raise EOFError
        values = np.frombuffer(raw, self.dtype)
        flat = pa.array(values.astype(values.dtype.newbyteorder("="), copy=False))
        return flat if len(self.shape) == 1 else pa.FixedSizeListArray.from_arrays(flat, self.width)


@dataclass(frozen=True)
class IdxSource(SourceBase):
    path: Path

    def schema(self) -> pa.Schema:
        return pa.schema([(name, file.type) for name, file in self._files.items()])

    def row_estimate(self) -> int | None:
        return self._files["image"].shape[0]

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        absent = [name for name in columns if name not in self._files]
        if absent:
            raise SpecError(f"the table has no column(s) {', '.join(absent)}", "an idx source has image and label")
        files = [self._files[name] for name in columns]
        total = self._files["image"].shape[0]
        rows = max(1, min(batch_rows, BATCH_BYTES // max((f.width * f.dtype.itemsize for f in files), default=1)))
        with _reading(self.path), ExitStack() as stack:
            for file in files:
                stack.enter_context(file.pin.unchanged())
            streams = [stack.enter_context(_open(file.path)) for file in files]
            for file, stream in zip(files, streams, strict=True):
                stream.read(file.data_at)
            for start in range(0, total, rows):
                count = min(rows, total - start)
                found = [file.next_rows(stream, count) for file, stream in zip(files, streams, strict=True)]
                yield pa.RecordBatch.from_arrays(found, names=list(columns))

    def snapshot_id(self) -> str:
        return state_of(file.pin for file in self._files.values())

    @cached_property
    def _files(self) -> dict[str, _File]:
        images = _header(self.path)
        if len(images.shape) < 2 or 0 in images.shape[1:]:
            raise SpecError(
                f"{self.path} holds no pictures", "name the file of images, such as train-images-idx3-ubyte"
            )
        labels_at = _labels_of(self.path)
        if labels_at is None:
            return {"image": images}
        labels = _header(labels_at)
        if labels.shape != images.shape[:1]:
            raise SourceError(f"{labels_at} does not have one label for each picture", "restore both files")
        return {"image": images, "label": labels}


def _labels_of(path: Path) -> Path | None:
    name = re.sub(r"images([-.])idx3", r"labels\1idx1", path.name)
    if name == path.name:
        return None
    plain = name.removesuffix(".gz")
    for candidate in (name, plain, f"{plain}.gz"):
        if path.with_name(candidate).is_file():
            return path.with_name(candidate)
    return None


def _header(path: Path) -> _File:
    pin = FilePin.of(path)
    with _reading(path), pin.unchanged(), _open(path) as stream:
        start = stream.read(4)
        axes = start[3] if len(start) == 4 else 0
        sizes = stream.read(4 * axes)
        if start[:2] != b"\0\0" or start[2] not in _TYPES or not 1 <= axes <= 4 or len(sizes) != 4 * axes:
            raise SourceError(f"{path} is not an idx file", "check source.uri and restore the file")
        shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
        file = _File(path, pin, np.dtype(_TYPES[start[2]]), shape, 4 + 4 * axes)
        if path.suffix.lower() != ".gz":
            complete = file.data_at + math.prod(shape) * file.dtype.itemsize
            if path.stat().st_size != complete:
                raise EOFError
        return file


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Any failure to read the file is a SourceError that names it and nothing in it."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is not a complete idx file"
        raise SourceError(f"cannot read {path}: {reason}", "check source.uri and restore the file") from None
