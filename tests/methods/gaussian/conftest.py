"""Doubles for the Gaussian method: a private table in memory, a purchase that really draws, seeded test randomness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from understudy.pipelines.methods.gaussian.method import GaussianMethod
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.domain import TableDomain


class SeededWords:
    """A test source of 64-bit words that can be replayed; it also counts what was asked of it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.asked: list[int] = []

    def words(self, count: int) -> np.ndarray:
        self.asked.append(count)
        return self.rng.integers(0, 2**64, count, dtype=np.uint64)


class MemoryTable:
    def __init__(self, table: pa.Table, domain: TableDomain, batch_rows: int = 1000) -> None:
        self.table, self.domain, self.batch_rows = table, domain, batch_rows

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self.table.to_batches(self.batch_rows))

    def counts(self, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        columns = encode(self.table, self.domain).columns
        found = []
        for clique in cliques:
            shape = tuple(self.domain.sizes[i] for i in clique)
            cells = np.ravel_multi_index([columns[i].astype(np.int64) for i in clique], shape)
            found.append(np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(np.int64))
        return found


class DrawingPurchase:
    """Charges nothing, draws for real, and remembers stage by stage what was bought."""

    def __init__(self, seed: int = 0) -> None:
        self.randomness = SeededWords(seed)
        self.bought: list[tuple[PlannedCharge, Measurement]] = []

    def __call__(self, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        assert mechanism.event == charge.event
        measurement = mechanism.draw(self.randomness)
        self.bought.append((charge, measurement))
        return measurement


def make_spec(columns: str, method: str = "", privacy: str = "", publish: str = "") -> ReleaseSpec:
    return parse_spec(
        f"""
name: sample
source: {{uri: rows.parquet, snapshot: one}}
privacy: {{account: a, epsilon: 1, delta: 1e-5{privacy}}}
columns:
{columns}
method: {{name: gaussian{method}}}
publish: {{to: releases/{publish}}}
"""
    )


def release(
    spec: ReleaseSpec, table: pa.Table, seed: int = 0, rows: int | None = None, batch_rows: int = 1000
) -> SimpleNamespace:
    """Plan, measure and generate; everything a test may want to look at."""
    domain = TableDomain.of(spec)
    method, purchase = GaussianMethod(), DrawingPurchase(seed)
    plan = method.plan(spec, domain)
    measured = method.measure(MemoryTable(table, domain, batch_rows), spec, plan, purchase)
    made = method.generate(measured, spec, domain, rows, lambda done, total, note: None)
    return SimpleNamespace(spec=spec, domain=domain, plan=plan, measured=measured, table=made, purchase=purchase)


@pytest.fixture
def doubles() -> SimpleNamespace:
    return SimpleNamespace(
        SeededWords=SeededWords,
        MemoryTable=MemoryTable,
        DrawingPurchase=DrawingPurchase,
        make_spec=make_spec,
        release=release,
    )
