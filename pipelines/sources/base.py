"""What every source offers: its schema without a row, and its bounded, projected rows in batches."""

from __future__ import annotations

import difflib
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.bounding import (
    Allowance,
    Candidates,
    Gathering,
    Slice,
    allowance,
    candidates,
    join,
    merge,
    needed_columns,
    slices,
    within,
)
from understudy.pipelines.spec.columns import IdentifierColumn, ModelledColumn, TensorColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.encode import readable
from understudy.pipelines.table.tensors import type_problem

BATCH_ROWS = 262_144


class Part(Protocol):
    """A slice of a table that another process can read by itself, always in the same order."""

    def read(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]: ...


class Source(Protocol):
    """A private table. Nothing here changes it."""

    def schema(self) -> pa.Schema:
        """Names and types of the columns; reads no row. Finds unreadable and disagreeing files."""
        ...

    def parts(self) -> Sequence[Part] | None:
        """The table as independent slices, or None if it can only be read as one stream."""
        ...

    def batches(
        self, columns: Sequence[str], unit: Unit, key: bytes, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The requested columns of at most `unit.max_rows` rows an entity, picked by a hash under `key`.

        The entity column is left out unless requested. Rows without an entity are dropped.
        """
        ...

    def row_estimate(self) -> int | None:
        """Rows by the source's metadata, before bounding. Private unless declared public."""
        ...


def bound_parts(
    parts: Sequence[Part],
    columns: Sequence[str],
    unit: Unit,
    key: bytes,
    batch_rows: int,
    rows: int | None,
    threads: int = 1,
) -> Allowance:
    """Who may keep which rows, by a first pass over every part; `rows`, if known, bounds the memory it takes."""
    needed = needed_columns(columns, unit)

    def bound(entities: Slice) -> Allowance:
        queue, lock = iter(enumerate(parts)), threading.Lock()

        def work(_: int) -> Candidates:
            gathered = Gathering(unit)
            while True:
                with lock:
                    number, part = next(queue, (-1, None))
                if part is None:
                    return gathered.result()
                gathered.add(candidates(part.read(needed, batch_rows), number, columns, unit, key, entities))

        with ThreadPoolExecutor(threads) as pool:
            return allowance(merge(list(pool.map(work, range(threads))), unit), unit)

    return join([bound(entities) for entities in slices(rows)])


def read_part(
    part: Part,
    number: int,
    columns: Sequence[str],
    unit: Unit,
    key: bytes,
    allowed: Allowance | None,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """The bounded rows of one part. `allowed` comes from a first pass over all, if there is an entity."""
    offset = 0
    for batch in part.read(needed_columns(columns, unit), batch_rows):
        if allowed is None:
            yield batch.select(list(columns))
        else:
            yield within(batch, number, offset, columns, unit, key, allowed)
        offset += batch.num_rows


def read_parts(
    parts: Sequence[Part], columns: Sequence[str], unit: Unit, key: bytes, batch_rows: int, rows: int | None
) -> Iterator[pa.RecordBatch]:
    """Every part, bounded, one after the other."""
    allowed = bound_parts(parts, columns, unit, key, batch_rows, rows) if unit.entity else None
    for number, part in enumerate(parts):
        yield from read_part(part, number, columns, unit, key, allowed, batch_rows)


class OneStream(ABC):
    """A source that one process reads from start to end: it is its own and only part."""

    @abstractmethod
    def read(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]: ...

    @abstractmethod
    def row_estimate(self) -> int | None: ...

    def parts(self) -> None:
        return None

    def batches(
        self, columns: Sequence[str], unit: Unit, key: bytes, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        return read_parts([self], columns, unit, key, batch_rows, self.row_estimate())


@dataclass(frozen=True)
class _Complaint:
    column: str
    text: str


def check_columns(schema: pa.Schema, spec: ReleaseSpec) -> None:
    """Raise one SpecError that names every column the table lacks, has twice, or has in a wrong type."""
    unit = spec.privacy.protected_unit
    modelled = {name: column for name, column in spec.columns.items() if not isinstance(column, IdentifierColumn)}
    complaints: list[_Complaint] = []
    for name in needed_columns(list(modelled), unit):
        role = "entity column" if name == unit.entity else "column"
        found = schema.get_all_field_indices(name)
        if not found:
            complaints.append(_Complaint(name, f"the table has no {role} {name!r}{_nearest(name, schema.names)}"))
        elif len(found) > 1:
            complaints.append(_Complaint(name, f"the table has {len(found)} columns named {name!r}"))
        else:
            type_ = schema.field(found[0]).type
            if name in modelled and (problem := _misfit(type_, modelled[name])) is not None:
                complaints.append(_Complaint(name, f"column {name!r} is declared {problem}"))
            elif name not in modelled and pa.types.is_nested(type_):
                complaints.append(_Complaint(name, f"the {role} {name!r} holds {_type_name(type_)}, which is no key"))
    if complaints:
        names = ", ".join(complaint.column for complaint in complaints)
        raise SpecError(
            "; ".join(complaint.text for complaint in complaints),
            f"correct {names} in the spec, or give the source a view with the columns the spec declares",
        )


def _misfit(type_: pa.DataType, column: ModelledColumn | TensorColumn) -> str | None:
    if isinstance(column, TensorColumn):
        size = math.prod(column.shape)
        held = type_problem(type_, size)
        return held and f"a tensor of {size:,} numbers but the table holds {held}"
    return None if readable(type_, column.type) else f"{column.type} but the table holds {_type_name(type_)}"


def _nearest(name: str, existing: Sequence[str]) -> str:
    by_lower = {other.lower(): other for other in existing}
    close = [by_lower[match] for match in difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.5)]
    return f" (nearest: {', '.join(close)})" if close else ""


def _type_name(type_: pa.DataType) -> str:
    """The kind of type without its details: a dictionary or a struct's fields could be long."""
    if pa.types.is_struct(type_):
        return "structs"
    if pa.types.is_map(type_):
        return "maps"
    if pa.types.is_union(type_):
        return "unions"
    return "lists" if pa.types.is_nested(type_) else str(type_)
