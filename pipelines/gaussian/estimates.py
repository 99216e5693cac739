"""From released integers to estimated moments of each class. Post-processing: total, whatever the noise did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from understudy.pipelines.gaussian.covariance import nearest_covariance, nearest_distribution
from understudy.pipelines.gaussian.layout import Layout


@dataclass(frozen=True)
class Estimates:
    """Moments of one class in scaled units: numbers in [-1, 1], indicators 0 or 1.

    `covariance` is over the numeric columns and then every one-hot block, in layout order; entries within a category's
    block are 0 and never read. `probabilities` has one vector for each category.
    """

    total: float
    null_rate: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    probabilities: tuple[np.ndarray, ...]

    @property
    def numeric_covariance(self) -> np.ndarray:
        return self.covariance[: len(self.mean), : len(self.mean)]


def estimate(arrays: Mapping[str, np.ndarray], layout: Layout, floor: float) -> list[Estimates]:
    """Estimates of each class. `floor` is the least row count to divide by, about the noise of the count itself."""
    return [_estimate_class(arrays, label, layout, floor) for label in range(layout.classes)]


def _estimate_class(arrays: Mapping[str, np.ndarray], label: int, layout: Layout, floor: float) -> Estimates:
    numeric, grid = len(layout.numeric), layout.grid
    total = float(arrays["count"][label, 0])
    rows = max(total, floor, 1.0)
    indicators = arrays["indicators"][label] / rows if "indicators" in arrays else np.zeros(0)
    null_rate = np.zeros(numeric)
    for place, index in enumerate(layout.numeric):
        if index in layout.null_row:
            null_rate[place] = min(max(indicators[layout.null_row[index] - 1 - numeric], 0.0), 1.0)
    present = np.maximum(1.0 - null_rate, 1.0 / rows)
    mean = np.zeros(numeric)
    if numeric:
        mean = np.clip(arrays["sums"][label] / grid / rows / present, -1.0, 1.0)
    probabilities = tuple(
        nearest_distribution(indicators[block - 1 - numeric]) for block in layout.block_rows.values()
    )
    centre = np.concatenate([mean, *probabilities]) if probabilities else mean
    share = np.concatenate([present, np.ones(len(centre) - numeric)])
    second = _second_moments(arrays, label, layout) / rows / share[:, None] / share
    covariance = second - np.outer(centre, centre)
    if numeric:
        squares = (arrays["squares"][label] / grid**2 + total / 2) / rows / present
        covariance[np.arange(numeric), np.arange(numeric)] = squares - mean**2
        covariance[:numeric, :numeric] = nearest_covariance(covariance[:numeric, :numeric])
    return Estimates(max(total, 0.0), null_rate, mean, covariance, probabilities)


def _second_moments(arrays: Mapping[str, np.ndarray], label: int, layout: Layout) -> np.ndarray:
    """Sums of products of features of different slots in scaled units, as a symmetric matrix without null indicators."""
    numeric, grid = len(layout.numeric), layout.grid
    sizes = [len(block) for block in layout.block_rows.values()]
    starts = numeric + np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    products = np.zeros((starts[-1], starts[-1]))
    if "number_pairs" in arrays:
        products[np.triu_indices(numeric, 1)] = arrays["number_pairs"][label] / grid**2
    used = 0
    for block, size in enumerate(sizes if "mixed_pairs" in arrays else []):
        part = arrays["mixed_pairs"][label, used : used + numeric * size]
        products[:numeric, starts[block] : starts[block + 1]] = part.reshape(numeric, size) / grid
        used += numeric * size
    used = 0
    for one in range(len(sizes)):
        for two in range(one + 1, len(sizes)):
            cells = sizes[one] * sizes[two]
            part = arrays["category_pairs"][label, used : used + cells]
            products[starts[one] : starts[one + 1], starts[two] : starts[two + 1]] = part.reshape(
                sizes[one], -1
            )
            used += cells
    return products + products.T
