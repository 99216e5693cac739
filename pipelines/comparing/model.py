"""What a comparison found. None of it is private: it is computed from the private rows without noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.pipelines.table.columns import Kind

NOT_PRIVATE = (
    "CONFIDENTIAL. This was computed from the private rows without noise and no guarantee covers it: "
    "show it to nobody who may not see the table itself, and decide nothing that is published by it."
)


@dataclass(frozen=True)
class Distance:
    """Total variation between the real and the synthetic table of some columns, 0 to 1: the part of the rows that would
    have to be moved. `another_sample` is what it would be about for as many real rows drawn anew."""

    columns: tuple[str, ...]
    distance: float
    another_sample: float


@dataclass(frozen=True)
class Spike:
    """The share of rows that hold one value exactly."""

    value: str
    real: float
    synthetic: float


@dataclass(frozen=True)
class Numbers:
    """A column of numbers, dates or moments: the greatest gap between both distribution functions, and quantiles in the
    column's own units (days or microseconds since 1970)."""

    column: str
    kind: Kind
    ks: float
    quantiles: tuple[tuple[float, float, float], ...]
    """Share, real, synthetic."""
    spikes: tuple[Spike, ...] = ()


@dataclass(frozen=True)
class Detection:
    """How well a classifier that saw both tells real rows from synthetic ones: 0.5 is not at all, 1 always."""

    auc: float
    rows: int


@dataclass(frozen=True)
class Downstream:
    """A model of `label` from all other columns, trained on either table and scored on real rows that neither saw."""

    label: str
    score: str
    trained_on_real: float
    trained_on_synthetic: float


@dataclass(frozen=True)
class Comparison:
    name: str
    release_id: str
    snapshot: str
    real_rows: int
    synthetic_rows: int
    columns: tuple[Distance, ...]
    pairs: tuple[Distance, ...]
    triples: tuple[Distance, ...]
    triples_in_all: int
    numbers: tuple[Numbers, ...]
    detection: Detection | None = None
    downstream: tuple[Downstream, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableComparison:
    """One of several tables. `columns` count rows alike; the others count each row of the root once, its rows weighing
    alike, as they were measured: pairs of its own columns, pairs of one with a column above or a number of rows,
    `numbers` of its rows under one of the parent, and what follows what, where rows are in order. What tells its rows
    apart saw those above and before them too."""

    table: str
    parent: str | None
    real_rows: int
    synthetic_rows: int
    columns: tuple[Distance, ...]
    pairs: tuple[Distance, ...]
    across: tuple[Distance, ...]
    numbers: tuple[Distance, ...]
    in_order: tuple[Distance, ...]
    detection: Detection | None = None


@dataclass(frozen=True)
class KeyCheck:
    """What holds between published tables, and how many rows break it."""

    what: str
    broken: int


@dataclass(frozen=True)
class TreeComparison:
    name: str
    release_id: str
    snapshot: str
    root: str
    real_roots: int
    synthetic_roots: int
    tables: tuple[TableComparison, ...]
    keys: tuple[KeyCheck, ...]
    remarks: tuple[str, ...] = ()
    downstream: tuple[Downstream, ...] = ()


def mean(distances: Sequence[Distance]) -> float | None:
    return sum(one.distance for one in distances) / len(distances) if distances else None
