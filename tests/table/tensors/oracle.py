"""Tensors read one number at a time in plain Python: slow, and simple enough to be right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from understudy.pipelines.table.domain import TensorDomain
from understudy.pipelines.table.tensors import limits


def slow_read(rows: list[Any], tensor: TensorDomain) -> np.ndarray:
    return np.array([slow_row(row, tensor) for row in rows], np.float32).reshape(len(rows), tensor.size)


def slow_row(row: Any, tensor: TensorDomain) -> list[float]:
    if row is None or len(row) != tensor.size:
        return [slow_number(None, tensor)] * tensor.size
    return [slow_number(number, tensor) for number in row]


def slow_number(number: Any, tensor: TensorDomain) -> float:
    low, high = (float(bound) for bound in limits(tensor))
    if number is None or not math.isfinite(number):
        number = np.float32((tensor.low + tensor.high) / 2)
    return float(np.float32(min(max(float(number), low), high)))
