"""Numbers, dates and moments beside each other: distribution functions, quantiles and spikes."""

from __future__ import annotations

import numpy as np

from understudy.pipelines.comparing.model import Numbers, Spike
from understudy.pipelines.table.columns import DomainColumn

SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def compared_numbers(column: DomainColumn, real: np.ndarray, synthetic: np.ndarray) -> Numbers | None:
    """Of the values that are there and understood; None where a side has none."""
    real, synthetic = (side[np.isfinite(side)] for side in (real, synthetic))
    if not len(real) or not len(synthetic):
        return None
    found = np.quantile(real, SHARES, method="inverted_cdf"), np.quantile(synthetic, SHARES, method="inverted_cdf")
    labels = column.code_labels()
    spikes = tuple(
        Spike(labels[code].removeprefix("= "), float((real == value).mean()), float((synthetic == value).mean()))
        for code, value in column.spikes
    )
    quantiles = tuple((share, float(one), float(other)) for share, one, other in zip(SHARES, *found, strict=True))
    return Numbers(column.name, column.kind, ks_statistic(real, synthetic), quantiles, spikes)


def ks_statistic(one: np.ndarray, other: np.ndarray) -> float:
    """The greatest gap between the two empirical distribution functions (Kolmogorov and Smirnov)."""
    one, other = np.sort(one), np.sort(other)
    places = np.concatenate([one, other])
    below = np.searchsorted(one, places, "right") / len(one), np.searchsorted(other, places, "right") / len(other)
    return float(np.abs(below[0] - below[1]).max())
