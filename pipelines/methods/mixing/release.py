"""Arrays in, arrays out: centring, the grid, and what is handed to the noise. Tables and images both end here.

Theorem, relation, sensitivity, noise unit, reference. `statistics`' and `mechanism`'s, which draw:
  docs/proofs/class-statistics.md, docs/proofs/mixtures.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.pipelines.methods.mixing.design import MixingDesign
from understudy.pipelines.methods.mixing.grid import placed
from understudy.pipelines.methods.mixing.options import MixingOptions
from understudy.pipelines.methods.mixing.statistics import (
    NORM_BOUND,
    ClassStatistics,
    StatisticsDesign,
    exact_statistics,
    read_statistics,
)

SMALLEST_SPREAD = 0.02


@dataclass(frozen=True)
class Frame:
    """What is subtracted and divided by before mixing: public constants and bought statistics, one row a class.

    A feature vector u of class k is mixed as w = (u - centres[k]) / scales; `sizes` are the class sizes as released.
    """

    centres: np.ndarray
    scales: np.ndarray
    sizes: np.ndarray


def class_statistics(
    values: np.ndarray, labels: np.ndarray, classes: int, design: StatisticsDesign, constants: Frame
) -> np.ndarray:
    """Exact class statistics of the vectors in the frame of the public constants."""
    records = to_records(values, labels, constants, design.unit, NORM_BOUND)
    return exact_statistics(records, labels, classes, design)


def to_records(values: np.ndarray, labels: np.ndarray, frame: Frame, unit: float, norm_bound: int) -> np.ndarray:
    """Centred, scaled vectors on the grid, each of norm at most `norm_bound`."""
    return placed(values, labels, frame.centres.astype(np.float32), frame.scales.astype(np.float32), unit, norm_bound)


def mixture_records(values: np.ndarray, labels: np.ndarray, design: MixingDesign, frame: Frame) -> np.ndarray:
    return to_records(values, labels, frame, design.unit, design.mixtures.norm_bound)


def class_rows(labels: np.ndarray, classes: int) -> list[np.ndarray]:
    return [np.flatnonzero(labels == k) for k in range(classes)]


def bought_frame(constants: Frame, noisy: np.ndarray | None, design: MixingDesign, options: MixingOptions) -> Frame:
    """The frame of the mixtures: the public one, moved and scaled by what was bought. Post-processing."""
    if noisy is None or design.statistics is None:
        return constants
    bought = read_statistics(noisy, design.width, design.statistics)
    centres, scales = constants.centres, constants.scales
    if options.centre == "bought":
        centres = centres + bought.means * constants.scales
    if options.scale == "bought":
        scales = scales * _spreads(bought)
    sizes = constants.sizes if options.class_sizes is not None else bought.sizes
    return Frame(centres, scales, sizes)


def records_per_class(options: MixingOptions, design: MixingDesign, labels: list[str], sizes: np.ndarray) -> list[int]:
    """How many mixtures each class gets: never more than `per_class`, which is what is charged."""
    if isinstance(options.records, dict):
        return [options.records[label] for label in labels]
    if options.balance == "sizes":
        shares = np.maximum(sizes, 0.0) / max(1.0, float(np.maximum(sizes, 0.0).sum()))
        return [int(min(design.per_class, round(design.records * share))) for share in shares]
    base, more = divmod(design.records, design.classes)
    return [base + (k < more) for k in range(design.classes)]


def _spreads(bought: ClassStatistics) -> np.ndarray:
    """Standard deviation of each feature within classes, averaged over classes by their noisy sizes."""
    assert bought.second_moments is not None
    variances = np.maximum(bought.second_moments - bought.means**2, 0.0)
    weights = bought.sizes / bought.sizes.sum()
    spreads: np.ndarray = np.maximum(np.sqrt(weights @ variances), SMALLEST_SPREAD)
    return spreads
