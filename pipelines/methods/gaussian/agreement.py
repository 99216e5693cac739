"""How near a synthetic table is to what was released: column by column, against what noise and sampling allow."""

from __future__ import annotations

import math

import numpy as np

from understudy.pipelines.counting.copies import counts_of
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.methods.gaussian.copula import marginals_of
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.noisy_moments import estimates_of
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.table.coding.grid import bounds, to_grid
from understudy.pipelines.table.reading.values import read_numbers
from understudy.pipelines.table.synthetic import Synthetic

DEVIATIONS = 6.0
MODEL_SLACK = 0.03
_SCALE = 2**20


def moments_agreement(synthetic: Synthetic, measured: Measurement) -> list[Agreement]:
    """Means of numbers (a column spans 2) and shares of categories, over all classes."""
    layout, estimates = estimates_of(measured, synthetic.domain)
    weights = np.array([one.total for one in estimates])
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(estimates), 1 / len(estimates))
    lines = []
    for place, index in enumerate(layout.numeric):
        present = weights * [1 - one.null_rate[place] for one in estimates]
        if present.sum() > 0:
            released = float(present @ [one.mean[place] for one in estimates] / present.sum())
            lines += _mean_line(synthetic, layout, index, released)
    for place, index in enumerate(layout.categories):
        shares = np.sum([w * one.probabilities[place] for w, one in zip(weights, estimates, strict=True)], axis=0)
        lines.append(_share_line(synthetic, layout, index, shares, 0.0))
    if layout.label is not None:
        lines.append(_share_line(synthetic, layout, layout.label, weights, 0.0))
    return lines


def copula_agreement(synthetic: Synthetic, measured: Measurement) -> list[Agreement]:
    """Total variation between each released marginal, over all classes, and the synthetic one."""
    layout = Layout.of(synthetic.domain, measured.facts["label"], measured.facts["grid"])
    lines = []
    for index in (*layout.numeric, *layout.categories):
        by_class = np.maximum(marginals_of(measured, layout, index), 0.0)
        total = max(float(by_class.sum()), 1.0)
        noise = measured.facts["marginal_noise"] * by_class.size / total
        lines.append(_share_line(synthetic, layout, index, by_class.sum(axis=0) / total, noise))
    return lines


def _mean_line(synthetic: Synthetic, layout: Layout, index: int, released: float) -> list[Agreement]:
    column = layout.column(index)
    low, high = bounds(column)
    values = synthetic.modelled.column(column.name).combine_chunks().drop_null()
    if not len(values) or high <= low:
        return []
    scaled, missing = np.empty(len(values)), np.empty(len(values))
    to_grid(read_numbers(values, column), column, _SCALE, scaled, missing)
    step = (
        2.0 if column.scale != "linear" else 2.0 / (high - low)
    )  # rounding moves a coarse column by up to half a step
    rounding = step / 2 if column.kind in ("integer", "date") else 0.0
    allowed = MODEL_SLACK + rounding + DEVIATIONS / math.sqrt(len(values))
    return [Agreement(f"mean of {column.name}", abs(float(scaled.mean()) / _SCALE - released), allowed)]


def _share_line(synthetic: Synthetic, layout: Layout, index: int, released: np.ndarray, noise: float) -> Agreement:
    column = layout.column(index)
    rows = max(synthetic.rows, 1)
    shares = counts_of(synthetic, [(index,)])[0] / rows
    sampling = DEVIATIONS / 2 * math.sqrt(column.size / rows)
    distance = float(np.abs(shares - released).sum() / 2)
    return Agreement(f"shares of {column.name}", distance, MODEL_SLACK + noise + sampling)
