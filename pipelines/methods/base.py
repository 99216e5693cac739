"""What the flow asks of a method. Every method satisfies `Method`; the flow never knows which one it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.noise.rounded import RandomSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

Progress = Callable[[int, int, str], None]
"""Called with (steps done, steps in all, a public note such as the loss on released quantities)."""


@dataclass(frozen=True)
class PlannedCharge:
    """One thing the release buys: the stage that names it in the ledger, and its event."""

    stage: str
    event: Event


@dataclass(frozen=True)
class NoiseLine:
    """What one released query will suffer: `std` is the noise of each of its `numbers`, in the query's own units."""

    query: str
    numbers: int
    std: float
    note: str = ""


@dataclass(frozen=True)
class MethodPlan:
    """Everything a release will do to the private table, decided from the spec alone. JSON-able throughout."""

    method: str
    charges: tuple[PlannedCharge, ...]
    noise: tuple[NoiseLine, ...]
    steps: tuple[str, ...]
    details: dict[str, Any] = field(default_factory=dict)
    counted: tuple[tuple[int, ...], ...] = ()
    """Marginals that are counted exactly, as column indices: what an estimate of time and memory goes by."""


@dataclass(frozen=True)
class Agreement:
    """How far the synthetic table lies from one released query, and how far the query's own noise lets it lie."""

    query: str
    distance: float
    allowed: float


class PrivateTable(Protocol):
    """The bounded, projected private rows. Values leave it only through `purchase`."""

    @property
    def domain(self) -> TableDomain: ...

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Raw values of the modelled columns, contribution-bounded; may be iterated more than once."""
        ...

    def counts(self, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """Exact int64 counts of each clique of column indices, shaped by the columns' sizes."""
        ...


class Purchase(Protocol):
    """The one door to randomness: charges, draws once, stores, and returns what is stored, now or by an earlier run."""

    def __call__(self, charge: PlannedCharge, draw: Callable[[RandomSource], Measurement]) -> Measurement: ...


class Method(Protocol):
    name: str

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan:
        """Check the method's options and decide events and noise. Reads no row."""
        ...

    def measure(self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan, purchase: Purchase) -> Measurement:
        """Compute exact statistics, then buy their noisy form: one `purchase` for each planned charge."""
        ...

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
    ) -> pa.Table:
        """Make a typed synthetic table from released numbers alone. May be called any number of times."""
        ...

    def agreement(self, synthetic: pa.Table, measured: Measurement, domain: TableDomain) -> list[Agreement]:
        """Compare the synthetic table with what was released (never with private rows)."""
        ...
