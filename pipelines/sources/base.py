"""What every source offers: its schema without a row, its projected rows in batches, and what else it can.

A source knows nothing of units: at most k rows of an entity is the work of bounding.py, the same for all of them.
What it owes is that a pass over it sees one state of the table, or fails: files are pinned (pinning.py), databases
read under one snapshot. Whoever opens a source closes it once the passes are done: a snapshot and its lock end there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.columns import DomainColumn

BATCH_ROWS = 262_144

IN_UTC = {b"understudy.moments": b"UTC"}
"""Metadata of a field of text whose moments had a zone and are written in UTC without one."""


class Part(Protocol):
    """A slice of a table that another process can read by itself."""

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Every row of the slice once, in any order."""
        ...


class GroupCounter(Protocol):
    """Counts rows where they lie: the engine groups them by some columns, and sends the groups and how many they are.

    Owed: rows of one group have one code (`coded`), and it is the code that encoding each of them would give.
    """

    @property
    def most_columns(self) -> int:
        """That one question may be about."""
        ...

    @property
    def columns_a_group(self) -> int:
        """So many columns are streamed in the time of one GROUP BY (docs/scale.md)."""
        ...

    def can_group(self, column: DomainColumn) -> bool:
        """Whether the engine tells this column's codes apart, and in few groups. Judged without a row."""
        ...

    def grouped(self, columns: Sequence[DomainColumn], sets: Sequence[Sequence[int]]) -> Iterator[pa.RecordBatch]:
        """The groups of each set of positions in `columns`: a value for each column, GROUPING of them all (a bit for
        each column, the first the highest, set where it is not in the set), and the number of rows."""
        ...

    def coded(self, column: DomainColumn, values: pa.Array) -> np.ndarray:
        """The codes of what `grouped` sent for this column."""
        ...


class Source(Part, Protocol):
    """A private table. Nothing here changes it.

    What a source cannot do it answers with None: the pipeline asks, and never looks at what class it was given.
    """

    def schema(self) -> pa.Schema:
        """Names and types of the columns; reads no row. Finds unreadable and disagreeing files."""
        ...

    def parts(self) -> Sequence[Part] | None:
        """The table as independent slices, or None if it can only be read as one stream."""
        ...

    def counter(self) -> GroupCounter | None:
        """What counts in the engine, or None if the rows have to be read."""
        ...

    def row_estimate(self) -> int | None:
        """Rows by the source's metadata, before bounding. Private unless declared public."""
        ...

    def snapshot_id(self) -> str | None:
        """Names the state of the table that reads see, another one for another state; None if nobody can tell.

        Asked around every pass, which fails if the answer changed. Private: it is compared and never kept or shown.
        """
        ...

    def close(self) -> None:
        """Let go of what is held for reading (connections, snapshots, locks). Closing twice is closing once.

        What was held is not taken again: a later read of a source that held something is an error, for it would see
        another state than the reads before it.
        """
        ...


class SourceKind(Protocol):
    """What an entry point of `understudy.sources` names: usually the source's own class."""

    @property
    def terms(self) -> Terms: ...

    def opened(self, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> Source:
        """The source, not connected yet. `spec` says what is declared, for formats that do not say it themselves."""
        ...

    def identity(self, address: Address, base: Path) -> str:
        """Which data the address names here, in public words; empty where nobody can tell (`identity.py`)."""
        ...

    def version(self, source: SourceSpec, base: Path) -> str:
        """Where `terms.versions`: the name of the table's version now, another for another one, under which `opened`
        finds it again (`source.version`). Reads no row. Public: it is what `snapshot: table` stands for."""
        ...


class SourceBase(ABC):
    """The answers of a source that can do nothing but stream, and of its kind. A new one overrides what it can."""

    terms: ClassVar[Terms] = Terms()

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> Source:
        raise NotImplementedError(f"{cls.__name__} is not opened by an address")

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        path = address.path(base) if cls.terms.local else None
        return address.identity if path is None else f"file {path.resolve()}"

    @classmethod
    def version(cls, source: SourceSpec, base: Path) -> str:
        raise NotImplementedError(f"{cls.__name__} has no versions")

    @abstractmethod
    def schema(self) -> pa.Schema: ...

    @abstractmethod
    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]: ...

    def parts(self) -> Sequence[Part] | None:
        return None

    def counter(self) -> GroupCounter | None:
        return None

    def row_estimate(self) -> int | None:
        return None

    def snapshot_id(self) -> str | None:
        return None

    def close(self) -> None:  # noqa: B027  most hold nothing between two reads
        """Nothing is held between two reads."""


class InParts(SourceBase):
    """A source that is read part by part."""

    @abstractmethod
    def parts(self) -> Sequence[Part]: ...

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        known = self.schema().names
        absent = [name for name in columns if name not in known]
        if absent:
            raise SpecError(f"the table has no column(s) {', '.join(absent)}", "correct the names in the spec")
        for part in self.parts():
            yield from part.read(columns, batch_rows)
