"""The tables that contracts are tried with: every kind of column, nulls, odd values, several rows an entity."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tensors import read_tensor

ENTITY = "who"
COLUMNS: dict[str, dict[str, Any]] = {
    "ward": {"type": "category", "values": ["A", "B", "C"], "other": True, "nullable": True},
    "age": {"type": "integer", "min": 0, "max": 110, "bins": 11, "nullable": True},
    "score": {"type": "number", "min": -10, "max": 10, "bins": 8, "nullable": True},
    "seen": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": "month", "nullable": True},
    "flag": {"type": "boolean", "nullable": True},
}
ODD_TEXTS = (
    "", " ", "A ", "null", "NULL", "NaN", "None", "a,b", 'a "quoted" b', "it's", "\\", "\\N", "tab\there", "%s {} $1",
    "--", "; DROP TABLE t", "Ünïcödé", "漢字", "🙂", "\u202eright to left", "\ufeffA", "0", "-0", "1e999", "x" * 70_000,
)  # fmt: skip
CANARY = "canary-7f3a"
"""A value that no message may quote."""


def spec_of_columns(columns: Mapping[str, Mapping[str, Any]], entity: str | None = ENTITY) -> ReleaseSpec:
    """A spec that declares these columns, and the entity if there is one."""
    declared: dict[str, Any] = {name: dict(column) for name, column in columns.items()}
    unit = {}
    if entity is not None:
        declared[entity] = {"type": "identifier", "action": "drop"}
        unit = {"entity": entity, "max_rows": 2}
    tensors = any(column["type"] == "tensor" for column in columns.values())
    return spec_of(
        {
            "name": "contract",
            "source": {"uri": "contract", "snapshot": "2026-10"},
            "method": {"name": "kernel", "label": next(iter(columns))} if tensors else {"name": "privpgd"},
            "privacy": {"account": "contract", "epsilon": 1, "delta": 1e-6, "unit": unit},
            "columns": declared,
            "publish": {"to": "releases"},
        }
    )


def example(rows: int, seed: int = 0, nulls: bool = True) -> pa.Table:
    """Rows of COLUMNS and of their entity, who has up to several of them."""
    rng = np.random.default_rng(seed)
    day = dt.date(2026, 1, 1)
    values: dict[str, list[Any]] = {
        ENTITY: [int(who) for who in rng.integers(0, max(1, rows // 3), rows)],
        "ward": [str(ward) for ward in rng.choice(["A", "B", "C", "elsewhere"], rows)],
        "age": [int(age) for age in rng.integers(-5, 130, rows)],
        "score": [float(score) for score in np.round(rng.normal(0, 6, rows), 3)],
        "seen": [day + dt.timedelta(days=int(days)) for days in rng.integers(-40, 400, rows)],
        "flag": [bool(flag) for flag in rng.integers(0, 2, rows)],
    }
    if nulls:
        for column in values.values():
            for row in np.flatnonzero(rng.random(rows) < 0.1):
                column[row] = None
    types = (pa.int64(), pa.string(), pa.int64(), pa.float64(), pa.date32(), pa.bool_())
    return pa.table(
        {name: pa.array(column, type_) for (name, column), type_ in zip(values.items(), types, strict=True)}
    )


def with_odd_texts(table: pa.Table, texts: Iterable[str] = ODD_TEXTS) -> pa.Table:
    """The table with a row more for each text, as its ward."""
    some = table.slice(0, 1)
    return pa.concat_tables([table, *(_replaced(some, "ward", [text], pa.string()) for text in texts)])


def _replaced(table: pa.Table, name: str, values: list[Any], type_: pa.DataType) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values, type_))


def as_read(batches: Iterable[pa.RecordBatch], domain: TableDomain) -> list[tuple[bytes, ...]]:
    """What the pipeline sees of each row, whatever types a source keeps its values in: codes, and tensors' numbers.

    In order of value, so that equal lists are equal multisets of rows.
    """
    rows: list[tuple[bytes, ...]] = []
    for batch in batches:
        columns = [encode_column(batch.column(column.name), column).astype("<i8") for column in domain.columns]
        columns += [read_tensor(batch.column(tensor.name), tensor) for tensor in domain.tensors]
        rows += [tuple(column[row].tobytes() for column in columns) for row in range(batch.num_rows)]
    return sorted(rows)
