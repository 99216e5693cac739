"""What every source offers: its schema without a row, and its projected rows in batches.

A source knows nothing of units: at most k rows of an entity is the work of bounding.py, the same for all of them.
What it owes is that a pass over it sees one state of the table, or fails: files are pinned (pinning.py), databases
read under one snapshot. Whoever opens a source closes it once the passes are done: a snapshot and its lock end there.
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.ids import is_key
from understudy.pipelines.spec.columns import IdentifierColumn, ModelledColumn, TensorColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.reading.arrow import readable
from understudy.pipelines.table.tensors import type_problem

BATCH_ROWS = 262_144


class Part(Protocol):
    """A slice of a table that another process can read by itself."""

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Every row of the slice once, in any order."""
        ...


class Source(Part, Protocol):
    """A private table. Nothing here changes it."""

    def schema(self) -> pa.Schema:
        """Names and types of the columns; reads no row. Finds unreadable and disagreeing files."""
        ...

    def parts(self) -> Sequence[Part] | None:
        """The table as independent slices, or None if it can only be read as one stream."""
        ...

    def row_estimate(self) -> int | None:
        """Rows by the source's metadata, before bounding. Private unless declared public."""
        ...

    def close(self) -> None:
        """Let go of what is held for reading (connections, snapshots, locks). Closing twice is closing once.

        What was held is not taken again: a later read of a source that held something is an error, for it would see
        another state than the reads before it.
        """
        ...


class OneStream(ABC):
    """A source that one process reads from start to end."""

    @abstractmethod
    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]: ...

    def parts(self) -> None:
        return None

    def close(self) -> None:  # noqa: B027  nothing is held between two reads
        """Nothing is held between two reads."""


class InParts(ABC):
    """A source that is read part by part."""

    @abstractmethod
    def parts(self) -> Sequence[Part]: ...

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        for part in self.parts():
            yield from part.read(columns, batch_rows)

    def close(self) -> None:  # noqa: B027  nothing is held between two reads
        """Nothing is held between two reads."""


@dataclass(frozen=True)
class _Complaint:
    column: str
    text: str


def check_columns(schema: pa.Schema, spec: ReleaseSpec) -> None:
    """Raise one SpecError that names every column the table lacks, has twice, or has in a wrong type."""
    unit = spec.privacy.protected_unit
    modelled = {name: column for name, column in spec.columns.items() if not isinstance(column, IdentifierColumn)}
    complaints: list[_Complaint] = []
    for name in dict.fromkeys([*modelled, *([unit.entity] if unit.entity else [])]):
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
            elif name not in modelled and not is_key(type_):
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
