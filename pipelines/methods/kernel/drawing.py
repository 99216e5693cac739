"""Rows from a trained generator, part by part: each part has its own noise and the classes in their shares."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from understudy.pipelines.methods.kernel.generators import Generator
from understudy.pipelines.methods.kernel.judging import JudgedGenerator
from understudy.pipelines.methods.kernel.method import class_labels
from understudy.pipelines.methods.kernel.options import KernelOptions
from understudy.pipelines.methods.kernel.records import to_table
from understudy.pipelines.table.domain import TableDomain


@dataclass(frozen=True, eq=False)
class TrainedGenerator:
    """The sampler of a release. The generator no longer trains; on another worker it is on the processor."""

    generator: Generator | JudgedGenerator
    device: str
    shares: np.ndarray
    options: KernelOptions
    domain: TableDomain

    def draw(self, first: int, rows: int, rng: np.random.Generator) -> pa.Table:
        labels = class_labels(self.shares, rows)
        noise = torch.Generator(self.device).manual_seed(int(rng.integers(2**63)))
        values = self.generator.sample(torch.from_numpy(labels).to(self.device), source=noise).numpy()
        return to_table(values, labels, self.options, self.domain, first)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "generator": deepcopy(self.generator).to("cpu"), "device": "cpu"}
