"""Mode `noisy-moments` with `centre: learned`: noisy means first, then products about them within a learned radius.

Three charges: counts, sums and squares (`mechanism`, no products); a histogram of how large the rows' products are;
the clipped products (`pairs`). Centring takes the noise of the means out of the covariances, and the radius lets the
noise follow the size rows really have instead of the farthest corner of the domain. Each stage reads the table once.

Theorem, relation, sensitivity, noise unit, reference. `mechanism`'s for the first charge, `pairs`' for the others; they
  compose adaptively: docs/proofs/learned-centre.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from understudy.pipelines.methods.base import MethodPlan, NoiseLine, PrivateTable
from understudy.pipelines.methods.gaussian import pairs
from understudy.pipelines.methods.gaussian.estimates import estimate
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.mechanism import MomentNoise
from understudy.pipelines.methods.gaussian.moments import Writer, exact_products, fixed_point_writer
from understudy.pipelines.methods.gaussian.noisy_moments import (
    KIND,
    STAGE,
    drawable_grid,
    moment_noise,
    moments_grid,
    noise_lines,
    released_facts,
    shape_of,
)
from understudy.pipelines.methods.gaussian.options import GaussianOptions
from understudy.pipelines.methods.gaussian.split import VARIANCE, best_weights, expected_square_error
from understudy.pipelines.methods.over_rows import summed
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.privacy.rounding import planned
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

NUMERIC_REACH = 2.0  # a number and its centre both lie in [-1, 1]


@dataclass(frozen=True)
class LearnedDesign:
    """Moments first, then products about their means."""

    options: GaussianOptions
    layout: Layout
    moments: MomentNoise
    products: pairs.ProductsDesign


def plan(
    spec: ReleaseSpec, domain: TableDomain, options: GaussianOptions, multiplier: float
) -> MethodPlan[LearnedDesign]:
    coarse = Layout.of(domain, options.label, 1)
    first = moments_share(spec, coarse)
    shares = (first, pairs.RADIUS_SHARE, 1 - first - pairs.RADIUS_SHARE)
    multipliers = [planned(multiplier / math.sqrt(share) * (1 + 1e-12)) for share in shares]
    clipping = clipping_of(spec, NUMERIC_REACH)
    worst = multipliers[2] * clipping.sensitivity(float(clipping.edges(coarse)[-1]))
    grid = min(moments_grid(spec, domain, options, multipliers[0], pairs=False), drawable_grid(worst))
    layout = Layout.of(domain, options.label, grid)
    moments = moment_noise(spec, layout, multipliers[0], pairs=False)
    design = pairs.ProductsDesign.of(layout, clipping, multipliers[1], multipliers[2])
    radius = expected_radius(layout)
    entries = sum(len(block.rows) for block in pairs.product_blocks(layout, 1.0))
    note = f"in scaled units, if rows' products have norms of about {radius:.3g}; the release learns it"
    products = NoiseLine("products", entries, multipliers[2] * clipping.sensitivity(radius), note)
    return MethodPlan(
        method="gaussian",
        charges=(PlannedCharge(STAGE, moments.event), *design.charges),
        noise=(*noise_lines(moments.blocks), products),
        steps=(
            f"scale numeric columns by their public bounds to whole numbers of at most {grid} and clip them",
            "buy counts, sums and squares; centre every column at its noisy mean",
            "buy a histogram of the size of rows' products; choose the radius to clip them at",
            "buy the sums of clipped products",
            "project to the nearest valid covariance and draw rows from it",
        ),
        design=LearnedDesign(options, layout, moments, design),
        details={"mode": options.mode, "grid": grid, "noise_multipliers": multipliers, "shares": list(shares)},
    )


def measure(
    table: PrivateTable, design: LearnedDesign, charges: tuple[PlannedCharge, ...], purchase: Purchase
) -> Measurement:
    layout = design.layout
    facts = released_facts(design.options, layout.grid, design.moments.blocks)
    products = summed(table, partial(exact_products, layout=layout))
    moments = purchase(charges[0], Mechanism(design.moments, products, KIND, facts))
    centres = centres_of(moments, layout)
    writer_of = partial(centred_writer, layout=layout, centres=centres)
    bought = pairs.buy_products(table, design.products, writer_of, charges[1:], purchase)
    return Measurement(KIND, {**moments.facts, **bought.facts}, {**moments.arrays, **bought.arrays, "centres": centres})


def centres_of(moments: Measurement, layout: Layout) -> np.ndarray:
    """The noisy means on the grid, one row a class: a function of released numbers alone."""
    found = estimate(moments.arrays, layout, moments.facts["count_noise"], {})
    return np.array([np.rint(one.mean * layout.grid) for one in found], np.int64).reshape(layout.classes, -1)


def centred_writer(batch: pa.RecordBatch, layout: Layout, centres: np.ndarray) -> Writer:
    """Numbers about their class's centre; nulls stay 0."""
    write_fixed = fixed_point_writer(batch, layout)

    def write(start: int, stop: int, features: np.ndarray, classes: np.ndarray | None) -> None:
        write_fixed(start, stop, features, classes)
        for place, index in enumerate(layout.numeric):
            shift = centres[0, place] if classes is None else centres[classes, place]
            features[1 + place] -= shift
            if index in layout.null_row:
                features[1 + place] *= 1.0 - features[layout.null_row[index]]

    return write


def clipping_of(spec: ReleaseSpec, reach: float) -> pairs.Clipping:
    return pairs.Clipping(reach, spec.privacy.relation, spec.privacy.protected_unit)


def expected_radius(layout: Layout) -> float:
    """A public guess of the radius: rows far out (five prior variances a column), one-hots as they are."""
    sizes = np.array([5 * VARIANCE] * len(layout.numeric) + [1.0] * len(layout.categories))
    return float(np.sqrt((sizes.sum() ** 2 - (sizes**2).sum()) / 2))


def moments_share(spec: ReleaseSpec, layout: Layout) -> float:
    """The share of 1/z^2 for the first charge at which the expected errors of both parts sum to the least."""
    shape = shape_of(spec, layout)
    first = math.sqrt(expected_square_error(best_weights(shape, pairs=False), shape))
    count = layout.slots * (layout.slots - 1)
    second = clipping_of(spec, NUMERIC_REACH).sensitivity(expected_radius(layout)) * math.sqrt(count)
    share = (1 - pairs.RADIUS_SHARE) * first / (first + second)
    return min(max(round(share, 3), 0.05), 0.9)
