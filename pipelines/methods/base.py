"""What the flow asks of a method. Every method satisfies `Method`; the flow never knows which one it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import PlannedCharge, Purchase
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic import Synthetic

Progress = Callable[[int, int, str], None]
"""Called with (steps done, steps in all, a public note such as the loss on released quantities)."""

Design = TypeVar("Design")


@dataclass(frozen=True)
class NoiseLine:
    """What one released query will suffer: `std` is the noise of each of its `numbers`, in the query's own units."""

    query: str
    numbers: int
    std: float
    note: str = ""


@dataclass(frozen=True)
class MethodPlan(Generic[Design]):
    """Everything a release will do to the private table, decided once, from the spec alone.

    `design` is the method's own: every noise that `measure` will use. `details` are for printing, JSON-able, and no
    decision is ever read from them.
    """

    method: str
    charges: tuple[PlannedCharge, ...]
    noise: tuple[NoiseLine, ...]
    steps: tuple[str, ...]
    design: Design
    details: dict[str, Any] = field(default_factory=dict)
    counted: tuple[tuple[int, ...], ...] = ()
    """Marginals that are counted exactly, as column indices: what an estimate of time and memory goes by."""
    rows_a_count: float = 1.0
    """Rows that a count of 1 is taken to stand for, where entities are counted: nobody knows before measuring."""


@dataclass(frozen=True)
class Agreement:
    """How far the synthetic table lies from one released query, and how far the query's own noise lets it lie."""

    query: str
    distance: float
    allowed: float

    @property
    def holds(self) -> bool:
        return self.distance <= self.allowed  # so that NaN does not


class PrivateTable(Protocol):
    """The bounded, projected private rows. Values leave it only through `purchase`."""

    @property
    def domain(self) -> TableDomain: ...

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Raw values of the modelled columns, contribution-bounded; may be iterated more than once."""
        ...

    def counts(self, cliques: Sequence[tuple[int, ...]], weights: EntityWeights | None = None) -> list[np.ndarray]:
        """Exact int64 counts of each clique of column indices, shaped by the columns' sizes.

        With weights: of ticks, where each row has as many as an entity of so many rows gives to each.
        """
        ...


class Method(Protocol[Design]):
    name: str

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan[Design]:
        """Check the method's options and decide events and noise. Reads no row."""
        ...

    def measure(
        self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan[Design], purchase: Purchase
    ) -> Measurement:
        """Compute exact statistics, then buy them with the plan's noise: one `purchase` for each planned charge."""
        ...

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
        workshop: Path | None = None,
    ) -> pa.Table:
        """Make a typed synthetic table from released numbers alone. May be called any number of times.

        Long work may leave what it has so far in the directory `workshop`, and go on from there when called again.
        """
        ...

    def agreement(self, synthetic: Synthetic, measured: Measurement) -> list[Agreement]:
        """Compare the synthetic table with what was released (never with private rows)."""
        ...


class Sampler(Protocol):
    """A fitted model that rows are drawn from, part by part, in threads or on workers: it can be pickled, and drawing
    changes nothing of it."""

    def draw(self, first: int, rows: int, rng: np.random.Generator) -> pa.Table:
        """Generated rows, of which `first` come before in the table: the same for the same numbers and stream."""
        ...


@runtime_checkable
class InParts(Protocol):
    """What a method offers beside `Method` where its tables may be larger than memory. Of others, every table is made
    in one part."""

    def rows_of(self, measured: Measurement, spec: ReleaseSpec, domain: TableDomain) -> int:
        """Rows of a table where nobody asks for a number."""
        ...

    def sampler(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int,
        rng: np.random.Generator,
        progress: Progress,
        workshop: Path | None = None,
    ) -> Sampler:
        """Fit what a table of so many rows is drawn from: the same for the same measurement and stream."""
        ...

    def compared(self, measured: Measurement) -> Sequence[tuple[int, ...]]:
        """The marginals that `agreement` needs counted over all rows."""
        ...
