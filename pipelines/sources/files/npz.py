"""A NumPy .npz archive: its arrays are the columns, their first axis the rows. Read in pieces; nothing is unpickled.

An array (rows,) is a plain column, one of more axes a column of lists. Only arrays the spec asks for have to agree on
the number of rows, so one archive may hold, say, a training and a test set.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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

_DAY_BOUND = 2**31 - 1
_REPLACEMENT = 0xFFFD


@dataclass(frozen=True)
class _Array:
    """What an array's header says. `type` is None where it is no column, and `problem` then says why."""

    name: str
    member: str
    dtype: np.dtype
    shape: tuple[int, ...]
    by_columns: bool
    type: pa.DataType | None
    problem: str = ""

    @property
    def width(self) -> int:
        return math.prod(self.shape[1:])


@dataclass(frozen=True)
class NpzSource(SourceBase):
    """`wanted` are the names the spec speaks of; without it every array has to be a column."""

    path: Path
    wanted: frozenset[str] | None = None

    def schema(self) -> pa.Schema:
        needed = [array for array in self._arrays if self.wanted is None or array.name in self.wanted]
        for array in needed:
            if array.type is None:
                raise SourceError(f"the array {array.name!r} of {self.path} {array.problem}", _NUMBERS)
        self._check_lengths(needed)
        return pa.schema([(array.name, array.type) for array in self._arrays if array.type is not None])

    def row_estimate(self) -> int | None:
        lengths = {a.shape[0] for a in self._arrays if a.type is not None and a.name in (self.wanted or {a.name})}
        return lengths.pop() if len(lengths) == 1 else None

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        by_name = {array.name: array for array in self._arrays if array.type is not None}
        absent = [name for name in columns if name not in by_name]
        if absent:
            raise SpecError(f"{self.path} has no column(s) {', '.join(absent)}", "correct the names in the spec")
        arrays = [by_name[name] for name in columns]
        self._check_lengths(arrays)
        a_row = max((array.width * array.dtype.itemsize for array in arrays), default=1)
        rows = max(1, min(batch_rows, BATCH_BYTES // a_row))
        with _reading(self.path), self._pin.unchanged(), zipfile.ZipFile(self.path) as archive:
            for pieces in zip(*(_pieces(archive, array, rows) for array in arrays), strict=True):
                found = [_column(piece, array) for piece, array in zip(pieces, arrays, strict=True)]
                yield pa.RecordBatch.from_arrays(found, names=list(columns))

    def snapshot_id(self) -> str:
        return state_of([self._pin])

    def _check_lengths(self, arrays: Sequence[_Array]) -> None:
        if len({array.shape[0] for array in arrays}) > 1:
            names = ", ".join(array.name for array in arrays)
            raise SourceError(
                f"the arrays {names} of {self.path} do not have the same number of rows",
                "save arrays whose first axes are equally long, or declare only those that are",
            )

    @cached_property
    def _pin(self) -> FilePin:
        return FilePin.of(self.path)

    @cached_property
    def _arrays(self) -> tuple[_Array, ...]:
        if not self.path.is_file():
            raise SourceError(f"there is no file {self.path}", "check source.uri; relative paths start at the spec")
        found = []
        with _reading(self.path), self._pin.unchanged(), zipfile.ZipFile(self.path) as archive:
            for info in archive.infolist():
                if info.filename.endswith(".npy"):
                    with archive.open(info) as stream:
                        array = _described(info.filename, *_header(stream, self.path))
                        complete = info.file_size - stream.tell() == math.prod(array.shape) * array.dtype.itemsize
                    if array.type is not None and not complete:
                        raise SourceError(f"the array {array.name!r} of {self.path} is not complete", "restore it")
                    found.append(array)
        return tuple(found)


_NUMBERS = "save numbers, or text in an array of one axis, with numpy.savez or numpy.savez_compressed"


def _header(stream: IO[bytes], path: Path) -> tuple[tuple[int, ...], bool, np.dtype]:
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(stream)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(stream)
    except ValueError:
        pass
    raise SourceError(f"an array of {path} has a header that cannot be read", _NUMBERS)


def _described(member: str, shape: tuple[int, ...], by_columns: bool, dtype: np.dtype) -> _Array:
    name = member.removesuffix(".npy")
    type_, problem = None, ""
    if dtype.hasobject:
        problem = "holds Python objects, which are never loaded"
    elif not shape:
        problem = "is a single value, not rows"
    elif 0 in shape[1:] or dtype.itemsize == 0:
        problem = "has rows without a number"
    else:
        type_ = _arrow_type(dtype, math.prod(shape[1:]) if len(shape) > 1 else None)
        problem = "" if type_ is not None else "is of a type that is no column"
    return _Array(name, member, dtype, tuple(shape), by_columns and len(shape) > 1, type_, problem)


def _arrow_type(dtype: np.dtype, width: int | None) -> pa.DataType | None:
    number = dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize <= 8)
    if width is not None:
        value = pa.uint8() if dtype.kind == "b" else pa.from_numpy_dtype(dtype.newbyteorder("=")) if number else None
        return None if value is None else pa.list_(value, width)
    if number or dtype.kind == "b":
        return pa.from_numpy_dtype(dtype.newbyteorder("="))
    if dtype.kind in "US":
        return pa.string() if dtype.kind == "U" else pa.binary()
    if dtype.kind == "M":
        unit, count = np.datetime_data(dtype)
        if count == 1 and unit in ("D", "s", "ms", "us", "ns"):
            return pa.date32() if unit == "D" else pa.timestamp(unit)
    return None


def _pieces(archive: zipfile.ZipFile, array: _Array, rows: int) -> Iterator[np.ndarray]:
    """The array in runs of rows, each (rows, width). One stored column by column has to be read whole."""
    total, a_row = array.shape[0], array.width * array.dtype.itemsize
    with archive.open(array.member) as stream:
        _header(stream, Path(array.member))
        whole = None
        if array.by_columns:
            flat = _values(stream.read(total * a_row), array.dtype, total * array.width)
            whole = flat.reshape(array.shape[::-1]).T.reshape(total, array.width)
        for start in range(0, total, rows):
            count = min(rows, total - start)
            if whole is not None:
                yield whole[start : start + count]
            else:
                flat = _values(stream.read(count * a_row), array.dtype, count * array.width)
                yield flat.reshape(count, array.width)


def _values(raw: bytes, dtype: np.dtype, count: int) -> np.ndarray:
    if len(raw) != count * dtype.itemsize:
        raise EOFError
    return np.frombuffer(raw, dtype)


def _column(piece: np.ndarray, array: _Array) -> pa.Array:
    """Arrow's form of some rows. Total: no value can make it fail."""
    kind = array.dtype.kind
    flat = np.ascontiguousarray(piece).reshape(-1)
    if kind == "U":
        letters = flat.view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder)).astype(np.uint32)
        letters[(letters > 0x10FFFF) | ((letters >= 0xD800) & (letters <= 0xDFFF))] = _REPLACEMENT
        return pa.array(letters.view(f"=U{array.dtype.itemsize // 4}"), pa.string())
    if kind == "M":
        moments = flat.view(np.dtype(np.int64).newbyteorder(array.dtype.byteorder)).astype(np.int64)
        missing = moments == np.iinfo(np.int64).min
        if pa.types.is_date32(array.type):
            days = np.clip(moments, -_DAY_BOUND, _DAY_BOUND).astype(np.int32)
            return pa.array(days, mask=missing).cast(pa.date32())
        return pa.array(moments, mask=missing).cast(array.type)
    if kind == "S":
        return pa.array(flat, pa.binary())
    if kind == "b":
        flat = flat.view(np.uint8) != 0
    native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    if len(array.shape) == 1:
        return pa.array(native, array.type)
    return pa.FixedSizeListArray.from_arrays(pa.array(native.astype(np.uint8) if kind == "b" else native), array.width)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Any failure to read the file is a SourceError that names it and nothing in it."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or "it is not a complete, plain .npz archive"
        raise SourceError(f"cannot read {path}: {reason}", "restore or rewrite the file") from None
