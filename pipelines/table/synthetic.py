"""A synthetic table beside its domain: its rows in parts, and what was seen of them while they were in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.coding.encode import EncodedBatch, encode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.in_parts import Parts
from understudy.pipelines.table.modelled import modelled
from understudy.pipelines.table.part_checks import PartReport


@dataclass(frozen=True, eq=False)
class Seen:
    """Of a table in several parts: exact counts over all rows, rows that break each rule, how each part was checked."""

    counts: Mapping[tuple[int, ...], np.ndarray] = field(repr=False)
    broken: tuple[int, ...]
    reports: tuple[PartReport, ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class SeenFamilies:
    """Of families that were made in parts, each whole: what is broken between their tables, in words, and exact ticks
    of every marginal of every view, over all parts."""

    between: tuple[str, ...]
    ticks: tuple[tuple[np.ndarray, ...], ...] = field(repr=False)


class Synthetic:
    """Rows made from released numbers alone, hence public. `parts` is what is published.

    `shown` are rows to look at: all of a table that is one part, of others some from every part. `modelled` and `codes`
    are of those; what holds for all rows is in `seen`, or computed by whoever has only one part. `families` is of a
    table that keeps its entities.
    """

    def __init__(
        self,
        shown: pa.Table,
        domain: TableDomain,
        parts: Parts | None = None,
        seen: Seen | None = None,
        families: SeenFamilies | None = None,
    ) -> None:
        self.shown = shown
        self.domain = domain
        self.parts = Parts.of(shown) if parts is None else parts
        self.seen = seen
        self.families = families

    @property
    def rows(self) -> int:
        return self.parts.rows

    @property
    def table(self) -> pa.Table:
        """All rows, in memory."""
        return self.parts.table()

    @cached_property
    def modelled(self) -> pa.Table:
        """The shown rows as the columns that are modelled, taken apart as private rows are."""
        return modelled(self.shown, self.domain, self.domain.record_names)

    @cached_property
    def codes(self) -> EncodedBatch:
        return encode(self.modelled, self.domain)
