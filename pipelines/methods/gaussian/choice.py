"""Which mode suits: the expected error of each on a reference table of the same size. Public numbers in, advice out.

The reference has independent columns of scaled variance 0.1, as `split` assumes; the error is that of the covariance
matrix in Frobenius norm, relative to its own. The copula measures rank covariances, whose columns have variance 1/3
whatever the bounds, and takes variances from histograms. Noise that does not depend on the number of rows drawn is
all that noisy moments and the copula suffer; records of `sampling-noise` also carry the pseudo-records' inflation and
the error of a sample of m.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from understudy.pipelines.methods.gaussian import copula, learned_moments, pairs
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.noisy_moments import shape_of
from understudy.pipelines.methods.gaussian.options import GaussianOptions
from understudy.pipelines.methods.gaussian.pseudo_records import least_pseudo_records
from understudy.pipelines.methods.gaussian.split import MEAN_FOURTH, VARIANCE, best_weights, expected_square_error
from understudy.pipelines.spec.model import ReleaseSpec

RANK_VARIANCE = 1 / 3


@dataclass(frozen=True)
class Forecast:
    """Expected relative covariance error of one mode; None where the mode cannot serve this spec."""

    mode: str
    error: float | None
    note: str


def forecasts(spec: ReleaseSpec, layout: Layout, options: GaussianOptions, multiplier: float) -> list[Forecast]:
    n = options.expected_rows
    fixed = multiplier * _fixed_error(spec, layout) / n
    made = [Forecast("noisy-moments, centre: fixed", fixed, "one charge, one pass")]
    if layout.slots > 1:
        learned = multiplier * _learned_error(spec, layout) / n
        made.append(Forecast("noisy-moments, centre: learned", learned, "three charges, three passes"))
        made.append(
            Forecast("copula", multiplier * _copula_error(spec, layout, options) / n, "keeps the columns' shapes")
        )
    made.append(_sampling_forecast(spec, layout, options))
    return made


def advice(
    spec: ReleaseSpec, layout: Layout, options: GaussianOptions, multiplier: float
) -> tuple[str, list[dict[str, Any]]]:
    """One line for the plan, and the figures behind it; `multiplier` is what one Gaussian needs for the budget."""
    made = forecasts(spec, layout, options, multiplier)
    best = min((one for one in made if one.error is not None), key=lambda one: one.error or 0.0)
    errors = ", ".join(
        f"{one.mode} {'not possible' if one.error is None else format(one.error, '.2g')}" for one in made
    )
    line = f"expected covariance error at about {options.expected_rows:,} rows: {errors}; least: {best.mode}"
    return line, [asdict(one) for one in made]


def _fixed_error(spec: ReleaseSpec, layout: Layout) -> float:
    shape = shape_of(spec, layout)
    return math.sqrt(expected_square_error(best_weights(shape), shape)) / _size(layout, VARIANCE)


def _learned_error(spec: ReleaseSpec, layout: Layout) -> float:
    shape, share = shape_of(spec, layout), learned_moments.moments_share(spec, layout)
    radius = learned_moments.expected_radius(layout)
    clipping = learned_moments.clipping_of(spec, learned_moments.NUMERIC_REACH)
    first = expected_square_error(best_weights(shape, pairs=False), shape) / share
    second = _pairs_square(layout, clipping.sensitivity(radius), 1 - share - pairs.RADIUS_SHARE)
    return math.sqrt(first + second) / _size(layout, VARIANCE)


def _copula_error(spec: ReleaseSpec, layout: Layout, options: GaussianOptions) -> float:
    """Noise of the rank covariances, and of the variances that noisy histograms of B bins give back."""
    clipping = learned_moments.clipping_of(spec, copula.SCORE_REACH)
    share = 1 - options.marginal_share - pairs.RADIUS_SHARE
    between = _pairs_square(layout, clipping.sensitivity(copula.expected_radius(layout)), share)
    std = copula.marginal_noise(spec, layout, 1 / math.sqrt(options.marginal_share)).stds[0]
    bins = sum(layout.column(index).value_codes for index in layout.numeric)
    within = std**2 * bins * MEAN_FOURTH
    return math.hypot(math.sqrt(between) / _size(layout, RANK_VARIANCE), math.sqrt(within) / _size(layout, VARIANCE))


def _sampling_forecast(spec: ReleaseSpec, layout: Layout, options: GaussianOptions) -> Forecast:
    mode = "sampling-noise"
    if layout.categories or layout.label is not None or spec.privacy.unit.max_rows > 1:
        return Forecast(mode, None, "needs numeric columns only and single rows as the unit")
    d, n = len(layout.numeric), options.expected_rows
    rows = options.rows or spec.publish.rows or n
    pseudo = least_pseudo_records(rows, d, spec.privacy.budget, spec.privacy.relation)
    if pseudo is None:
        return Forecast(mode, None, f"no number of pseudo-records pays for {rows:,} records")
    inflation = pseudo / (n + pseudo) * (1 - VARIANCE) / VARIANCE
    error = math.hypot(inflation, math.sqrt((d + 1) / rows))
    return Forecast(mode, error, f"{rows:,} records, {pseudo:,} pseudo-records")


def _pairs_square(layout: Layout, sensitivity: float, share: float) -> float:
    return sensitivity**2 * layout.slots * (layout.slots - 1) / share


def _size(layout: Layout, variance: float) -> float:
    return variance * math.sqrt(layout.slots)
