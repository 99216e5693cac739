"""Mode `copula`: noisy one-way marginals keep every column's shape, noisy rank correlations tie the columns together.

Theorem (marginals). One-way counts of W columns (times the label's classes, if any) are W vectors of disjoint counts;
  noise of std z sqrt(W) s on each count, s = `counts_sensitivity`, is the Gaussian mechanism with multiplier z.
Theorem (correlations). `pairs`, with rank scores for numbers: a value of code k scores F(k-1) + F(k) - 1 in [-1, 1]
  by the released marginal F of its class, so scores are public functions of a row and lie on the grid.
Relation. Both; charges compose adaptively: marginals, radius, products.
Sensitivity. s a marginal and k R or 2 k R for the products, in L2.
Proof. docs/proofs/copula.md.
Noise unit. Standard deviation, in rows for counts and grid^2 for products.
Reference. Gaussian copula with private marginals: Li, Xiong & Jiang 2014 (DPCopula); Asghar et al. 2020. The latent
  correlation is solved for the measured rank covariance (`latent`), so ties and whole numbers are treated exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.mechanism import MarginalNoise, one_table_noise
from understudy.pipelines.methods.base import MethodPlan, NoiseLine, PrivateTable
from understudy.pipelines.methods.gaussian import pairs
from understudy.pipelines.methods.gaussian.covariance import nearest_distribution
from understudy.pipelines.methods.gaussian.estimates import Estimates, cross_covariance
from understudy.pipelines.methods.gaussian.latent import Axis, axis_from_probabilities
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.model import fit_class
from understudy.pipelines.methods.gaussian.moments import MAX_GRID, Writer
from understudy.pipelines.methods.gaussian.noisy_moments import drawable_grid
from understudy.pipelines.methods.gaussian.options import GaussianOptions
from understudy.pipelines.methods.gaussian.sampling import FittedModels
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.privacy.rounding import planned
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.decode import decode_column
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.domain import TableDomain

KIND = "gaussian-copula"
SCORE_REACH = 1.0
EXPECTED_SQUARE = 0.5  # of a score at the radius; a uniform score has mean square 1/3


@dataclass(frozen=True)
class CopulaDesign:
    """Marginals, then products of rank scores; a single column has no products."""

    options: GaussianOptions
    layout: Layout
    marginals: MarginalNoise
    products: pairs.ProductsDesign | None


def plan(
    spec: ReleaseSpec, domain: TableDomain, options: GaussianOptions, multiplier: float
) -> MethodPlan[CopulaDesign]:
    layout = Layout.of(domain, options.label, MAX_GRID)
    alone = layout.slots == 1
    first = options.marginal_share
    shares = (1.0,) if alone else (first, pairs.RADIUS_SHARE, 1 - first - pairs.RADIUS_SHARE)
    multipliers = [planned(multiplier / math.sqrt(share) * (1 + 1e-12)) for share in shares]
    marginals = marginal_noise(spec, layout, multipliers[0])
    noise = [NoiseLine("marginals", sum(_marginal_sizes(layout)), marginals.stds[0], "in rows")]
    products = None
    if not alone:
        clipping = pairs.Clipping(SCORE_REACH, spec.privacy.relation, spec.privacy.protected_unit)
        grid = drawable_grid(multipliers[2] * clipping.sensitivity(float(clipping.edges(layout)[-1])))
        layout = Layout.of(domain, options.label, grid)
        products = pairs.ProductsDesign.of(layout, clipping, multipliers[1], multipliers[2])
        numbers = sum(len(block.rows) for block in pairs.product_blocks(layout, 1.0))
        radius = expected_radius(layout)
        std = multipliers[2] * clipping.sensitivity(radius)
        noise.append(
            NoiseLine("products", numbers, std, f"of rank scores in [-1, 1], at a radius of about {radius:.3g}")
        )
    return MethodPlan(
        method="gaussian",
        charges=(
            PlannedCharge("marginals", marginals.event),
            *(() if products is None else products.charges),
        ),
        noise=tuple(noise),
        steps=(
            "buy the one-way marginals on the declared bins",
            "score every value by its noisy rank; buy the radius and the sums of products of scores",
            "solve for the correlations of a normal vector that has these marginals and rank covariances",
            "draw rows from it; within a bin values follow the slope of its neighbours",
        ),
        design=CopulaDesign(options, layout, marginals, products),
        details={"mode": options.mode, "grid": layout.grid, "noise_multipliers": multipliers},
    )


def measure(
    table: PrivateTable, design: CopulaDesign, charges: tuple[PlannedCharge, ...], purchase: Purchase
) -> Measurement:
    layout, options = design.layout, design.options
    counts = _marginal_counts(table, layout)
    facts = {
        "mode": options.mode,
        "label": options.label,
        "grid": layout.grid,
        "marginal_noise": design.marginals.stds[0],
    }
    marginals = purchase(charges[0], Mechanism(design.marginals, {"marginals": counts}, KIND, facts))
    if design.products is None:
        return marginals
    tables = score_tables(marginals, layout)
    writer_of = partial(score_writer, layout=layout, tables=tables)
    bought = pairs.buy_products(table, design.products, writer_of, charges[1:], purchase)
    return Measurement(KIND, {**marginals.facts, **bought.facts}, {**marginals.arrays, **bought.arrays})


@dataclass(frozen=True, eq=False)
class BinnedNumbers:
    """Normal draws to the bins of the released marginals, and from them to values."""

    axes: tuple[list[Axis], ...]
    layout: Layout

    def typed(self, label: int, place: int, draws: np.ndarray, rng: np.random.Generator) -> pa.Array:
        codes = np.searchsorted(self.axes[label][place].thresholds, draws)
        return decode_column(codes, self.layout.column(self.layout.numeric[place]), rng)


def fitted(measured: Measurement, domain: TableDomain) -> FittedModels:
    layout = Layout.of(domain, measured.facts["label"], measured.facts["grid"])
    axes = [_number_axes(measured, layout, label) for label in range(layout.classes)]
    estimates = [_class_estimates(measured, layout, label, axes[label]) for label in range(layout.classes)]
    models = tuple(
        fit_class(one, number_axes, measured.facts.get("pair_noise", 0.0))
        for one, number_axes in zip(estimates, axes, strict=True)
    )
    rows = max(1, round(sum(one.total for one in estimates)))
    return FittedModels(models, layout, BinnedNumbers(tuple(axes), layout), rows)


def expected_radius(layout: Layout) -> float:
    """A public guess of the radius the release will choose."""
    sizes = np.array([EXPECTED_SQUARE] * len(layout.numeric) + [1.0] * len(layout.categories))
    return math.sqrt((sizes.sum() ** 2 - (sizes**2).sum()) / 2)


def score_tables(marginals: Measurement, layout: Layout) -> list[np.ndarray]:
    """Integer scores of every code of each numeric column, (classes, size); a null scores 0."""
    tables = []
    for place, index in enumerate(layout.numeric):
        column = layout.column(index)
        table = np.zeros((layout.classes, column.size), np.int64)
        for label in range(layout.classes):
            scores = _number_axes(marginals, layout, label)[place].scores
            table[label, : column.value_codes] = np.rint(scores * layout.grid)
        tables.append(table)
    return tables


def score_writer(batch: pa.RecordBatch, layout: Layout, tables: list[np.ndarray]) -> Writer:
    codes = [encode_column(batch.column(layout.column(i).name), layout.column(i)) for i in layout.numeric]

    def write(start: int, stop: int, features: np.ndarray, classes: np.ndarray | None) -> None:
        for place, table in enumerate(tables):
            features[1 + place] = table[0 if classes is None else classes, codes[place][start:stop]]

    return write


def marginals_of(measured: Measurement, layout: Layout, index: int) -> np.ndarray:
    """The released one-way counts of a column, (classes, size)."""
    ends = np.cumsum(_marginal_sizes(layout))
    place = (*layout.numeric, *layout.categories).index(index)
    return measured.arrays["marginals"][:, ends[place] - layout.column(index).size : ends[place]].astype(np.float64)


def _number_axes(measured: Measurement, layout: Layout, label: int) -> list[Axis]:
    """Each numeric column on its axis, scored by mid-ranks in [-1, 1]."""
    axes = []
    for index in layout.numeric:
        column = layout.column(index)
        probabilities = _distribution(marginals_of(measured, layout, index)[label, : column.value_codes])
        above = np.cumsum(probabilities)
        axes.append(axis_from_probabilities(probabilities, np.clip(2 * above - probabilities - 1, -1.0, 1.0)))
    return axes


def _class_estimates(measured: Measurement, layout: Layout, label: int, axes: list[Axis]) -> Estimates:
    """Rank scores take the place of numbers: their means come from the marginals, covariances from the products."""
    marginals = [marginals_of(measured, layout, index)[label] for index in (*layout.numeric, *layout.categories)]
    precision = np.array([1 / len(one) for one in marginals])
    total = float(np.sum([one.sum() for one in marginals] * precision) / precision.sum())
    rows = max(total, measured.facts["marginal_noise"], 1.0)
    null_rate = np.zeros(len(layout.numeric))
    for place, index in enumerate(layout.numeric):
        code = layout.column(index).null_code
        null_rate[place] = 0.0 if code is None else min(max(marginals[place][code] / rows, 0.0), 1.0)
    probabilities = tuple(_distribution(one) for one in marginals[len(layout.numeric) :])
    mean = np.array([axis.mean for axis in axes])
    units = measured.facts.get("pair_units", {})
    present = np.maximum(1 - null_rate, 1 / rows)
    covariance = cross_covariance(measured.arrays, label, layout, units, rows, present, mean, probabilities)
    return Estimates(max(total, 0.0), null_rate, mean, covariance, probabilities)


def _distribution(counts: np.ndarray) -> np.ndarray:
    return nearest_distribution(counts / max(float(counts.sum()), 1.0))


def _marginal_counts(table: PrivateTable, layout: Layout) -> np.ndarray:
    """All one-way counts by class in one int64 array (classes, sum of sizes), columns in slot order."""
    order = (*layout.numeric, *layout.categories)
    if layout.label is None:
        return np.concatenate(table.counts([(index,) for index in order]))[None, :]
    return np.concatenate(table.counts([(layout.label, index) for index in order]), axis=1)


def _marginal_sizes(layout: Layout) -> list[int]:
    return [layout.column(index).size for index in (*layout.numeric, *layout.categories)]


def marginal_noise(spec: ReleaseSpec, layout: Layout, multiplier: float) -> MarginalNoise:
    """Of the one-way counts of all slots, which lie side by side in one array."""
    return one_table_noise(multiplier, spec.privacy.relation, spec.privacy.protected_unit, stacked=layout.slots)
