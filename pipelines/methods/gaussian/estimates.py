"""From released integers to estimated moments of each class. Post-processing: total, whatever the noise did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from understudy.pipelines.methods.gaussian.covariance import nearest_covariance, nearest_distribution
from understudy.pipelines.methods.gaussian.layout import Layout


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


def estimate(
    arrays: Mapping[str, np.ndarray],
    layout: Layout,
    floor: float,
    pair_units: Mapping[str, int],
    centres: np.ndarray | None = None,
) -> list[Estimates]:
    """Estimates of each class. `floor` is the least row count to divide by, about the noise of the count itself.

    Products may have been measured about `centres` (scaled, one row a class) instead of 0; see `pairs`.
    """
    if centres is None:
        centres = np.zeros((layout.classes, len(layout.numeric)))
    return [
        _estimate_class(arrays, label, layout, floor, pair_units, centres[label]) for label in range(layout.classes)
    ]


def _estimate_class(
    arrays: Mapping[str, np.ndarray],
    label: int,
    layout: Layout,
    floor: float,
    pair_units: Mapping[str, int],
    centre: np.ndarray,
) -> Estimates:
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
    probabilities = tuple(nearest_distribution(indicators[block - 1 - numeric]) for block in layout.block_rows.values())
    covariance = cross_covariance(arrays, label, layout, pair_units, rows, present, mean - centre, probabilities)
    if numeric:
        squares = (arrays["squares"][label] / grid**2 + total / 2) / rows / present
        covariance[np.arange(numeric), np.arange(numeric)] = squares - mean**2
        covariance[:numeric, :numeric] = nearest_covariance(covariance[:numeric, :numeric])
    return Estimates(max(total, 0.0), null_rate, mean, covariance, probabilities)


def cross_covariance(
    arrays: Mapping[str, np.ndarray],
    label: int,
    layout: Layout,
    pair_units: Mapping[str, int],
    rows: float,
    present: np.ndarray,
    shift: np.ndarray,
    probabilities: tuple[np.ndarray, ...],
) -> np.ndarray:
    """Covariances between slots. `shift` is what is left of the numeric means about the centre of the products."""
    offsets = np.concatenate([shift, *probabilities])
    share = np.concatenate([present, np.ones(len(offsets) - len(shift))])
    second = _second_moments(arrays, label, layout, pair_units) / rows / share[:, None] / share
    covariance: np.ndarray = second - np.outer(offsets, offsets)
    return covariance


def _second_moments(
    arrays: Mapping[str, np.ndarray], label: int, layout: Layout, units: Mapping[str, int]
) -> np.ndarray:
    """Sums of products of features of different slots in scaled units, symmetric, without null indicators."""
    numeric = len(layout.numeric)
    sizes = [len(block) for block in layout.block_rows.values()]
    starts = numeric + np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    products = np.zeros((starts[-1], starts[-1]))
    scaled = {name: arrays[name][label] / unit for name, unit in units.items()}
    if "number_pairs" in scaled:
        products[np.triu_indices(numeric, 1)] = scaled["number_pairs"]
    used = 0
    for block, size in enumerate(sizes if "mixed_pairs" in scaled else []):
        part = scaled["mixed_pairs"][used : used + numeric * size]
        products[:numeric, starts[block] : starts[block + 1]] = part.reshape(numeric, size)
        used += numeric * size
    used = 0
    for one in range(len(sizes) if "category_pairs" in scaled else 0):
        for two in range(one + 1, len(sizes)):
            cells = sizes[one] * sizes[two]
            part = scaled["category_pairs"][used : used + cells]
            products[starts[one] : starts[one + 1], starts[two] : starts[two + 1]] = part.reshape(sizes[one], -1)
            used += cells
    return products + products.T
