"""Doubles for the kernel method: seeded words, a table in memory, a purchase that draws."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from understudy.pipelines.methods.kernel.method import KernelMethod
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.domain import TableDomain

SPEC = """
name: shapes
source: {{uri: shapes.npz, snapshot: "1"}}
privacy: {{account: studio, epsilon: 4, delta: 1e-6{privacy}}}
columns:
  kind: {{type: category, values: [dot, bar], other: true}}
  image: {{type: tensor, shape: [4, 4], min: 0, max: 255}}
  {column}
method: {{name: kernel, label: kind, rows: 400, frequencies: 200{method}}}
generate: {{training_steps: 40{generate}}}
publish: {{to: releases/}}
"""


class Rows:
    def __init__(self, domain: TableDomain, *batches: pa.RecordBatch) -> None:
        self.domain, self.batches = domain, batches

    def record_batches(self) -> Any:
        return iter(self.batches)

    def counts(self, cliques: Any) -> Any:
        raise AssertionError("the kernel method counts nothing exactly")


class Shop:
    """A purchase that draws once and remembers what was bought."""

    def __init__(self, randomness: Any) -> None:
        self.randomness, self.charges = randomness, []

    def __call__(self, charge: Any, mechanism: Any) -> Any:
        assert mechanism.event == charge.event
        self.charges.append(charge)
        return mechanism.draw(self.randomness)


def shapes(count: int = 400, seed: int = 0, kinds: tuple[str, ...] = ("dot", "bar")) -> pa.RecordBatch:
    """Dots are bright in one corner, bars in the last row."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(kinds, count) if count else np.array([], dtype=str)
    images = rng.integers(0, 40, (count, 4, 4)).astype(np.uint8)
    images[kind == "dot", :2, :2] += 180
    images[kind == "bar", 3, :] += 180
    flat = pa.FixedSizeListArray.from_arrays(pa.array(images.reshape(-1)), 16)
    return pa.record_batch({"kind": pa.array(kind, pa.string()), "image": flat})


@lru_cache(maxsize=32)  # calibrating sampled noise takes seconds
def planned(**changes: str) -> Any:
    blank = {"privacy": "", "column": "", "method": "", "generate": ""}
    spec = parse_spec(SPEC.format(**{**blank, **changes}))
    domain = TableDomain.of(spec)
    return spec, domain, KernelMethod().plan(spec, domain)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks: a second thread would only wait, and on a busy machine for long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
