"""Tables a Python program holds, as Arrow: Arrow itself, whatever speaks its PyCapsule interface, pandas frames.

Reading is total and row by row. Arrow infers one type for a whole pandas column of objects and fails, quoting a value,
where they are mixed. Here such a column becomes text, each value by itself (`reading.objects`). Cells of tensor
columns become lists of numbers; one that is no array of numbers has none, so that it is read as a tensor of another
shape is. Columns the spec does not name are not looked at: of those the table keeps the name alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.columns import is_read
from understudy.pipelines.spec.columns import CategoryColumn, TensorColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.numbers import IntegerColumn, NumberColumn
from understudy.pipelines.table.reading.objects import Spelling, spelling

if TYPE_CHECKING:
    import pandas as pd


def arrow_table(table: Any, spec: ReleaseSpec, keys: Sequence[str] = ()) -> pa.Table:
    """The table as Arrow; fails on what is no table or has a type Arrow lacks, never on a value. `keys` are read too,
    where tables name each other's rows."""
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    pandas = sys.modules.get("pandas")  # who passes a frame has imported it
    if pandas is not None and isinstance(table, pandas.DataFrame):
        return _from_pandas(table, spec, keys)
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    raise SpecError(f"a {type(table).__name__} is not a table", "pass a pandas or Polars DataFrame or a pyarrow Table")


def _from_pandas(frame: pd.DataFrame, spec: ReleaseSpec, keys: Sequence[str]) -> pa.Table:
    wanted = {name for name, column in spec.columns.items() if is_read(column)}
    others = (spec.privacy.unit.entity, spec.rolling.column if spec.rolling else None)
    wanted |= {name for name in (*others, *keys) if name is not None}
    names = [str(name) for name in frame.columns]
    arrays = [
        _column(name, frame.iloc[:, position], spec) if name in wanted else pa.nulls(len(frame))
        for position, name in enumerate(names)
    ]
    return pa.table(arrays, names=names)


def _column(name: str, values: pd.Series, spec: ReleaseSpec) -> pa.Array | pa.ChunkedArray:
    import pandas as pd

    dtype, declared = values.dtype, spec.columns.get(name)
    decimal = declared.decimal if isinstance(declared, IntegerColumn | NumberColumn) else "."
    spell = spelling(declared.values if isinstance(declared, CategoryColumn) else (), decimal)
    if isinstance(dtype, pd.CategoricalDtype):
        codes = values.cat.codes.to_numpy()
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), _texts(dtype.categories, spell))
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        return _tensors(values) if isinstance(declared, TensorColumn) else _texts(values, spell)
    if isinstance(dtype, pd.StringDtype):
        return _texts(values, spell)
    try:
        return pa.array(values, from_pandas=True)  # numbers, moments and Arrow's own: no value can make it fail
    except (pa.ArrowException, TypeError, ValueError):
        kind = type(dtype).__name__
    raise SpecError(f"column {name!r} is a pandas column of {kind}, which cannot be read", "convert it to a plain type")


def _texts(values: pd.Series | pd.Index, spell: Spelling) -> pa.Array:
    found = values.to_numpy(dtype=object)
    try:
        return pa.array(found, pa.large_string(), from_pandas=True)  # text throughout, as nearly always
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([spell(value) for value in found], pa.large_string())


def _tensors(values: pd.Series) -> pa.Array:
    """Lists of numbers, each cell read by itself; a cell that is missing or no array of numbers is null."""
    cells = [_cell(value) for value in values.to_numpy(dtype=object)]
    lengths = np.array([0 if cell is None else cell.size for cell in cells], np.int64)
    offsets = pa.array(np.append(0, np.cumsum(lengths)), mask=np.array([*(cell is None for cell in cells), False]))
    numbers = np.concatenate([np.zeros(0), *(cell for cell in cells if cell is not None)])
    return pa.LargeListArray.from_arrays(offsets, pa.array(numbers))


def _cell(value: Any) -> np.ndarray | None:
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            return np.frombuffer(value, np.uint8).astype(np.float64)
        if isinstance(value, str) or np.isscalar(value):
            return None
        return np.asarray(value, np.float64).ravel()  # None among numbers becomes NaN
    except Exception:
        return None
