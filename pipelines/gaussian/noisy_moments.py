"""Mode `noisy-moments`, one charge: count, sums, squares and products in a single pass and a single draw.

Everything private happens in `measure`: exact integer sums, then one draw (`mechanism`). What follows is
post-processing of the released integers, so any number of rows may be generated, any number of times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from understudy.pipelines.domain import TableDomain
from understudy.pipelines.errors import SpecError
from understudy.pipelines.gaussian.estimates import Estimates, estimate
from understudy.pipelines.gaussian.latent import axis_of_clipped_normal, fit_clipped_normal
from understudy.pipelines.gaussian.layout import Layout
from understudy.pipelines.gaussian.mechanism import Block, Shape, blocks_of, draw, sensitivity
from understudy.pipelines.gaussian.model import fit_class
from understudy.pipelines.gaussian.moments import MAX_GRID, exact_products
from understudy.pipelines.gaussian.options import GaussianOptions
from understudy.pipelines.gaussian.sampling import sample_table, typed_numbers
from understudy.pipelines.gaussian.split import best_weights
from understudy.pipelines.measurement import Measurement
from understudy.pipelines.method import MethodPlan, NoiseLine, PlannedCharge, PrivateTable, Progress, Purchase
from understudy.pipelines.privacy.accounting import calibrate_gaussian
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.noise import MAX_SIGMA
from understudy.pipelines.spec import ReleaseSpec

STAGE = "moments"
KIND = "gaussian-moments"
LEAST_GRID = 16


def plan(spec: ReleaseSpec, domain: TableDomain, options: GaussianOptions) -> MethodPlan:
    multiplier = calibrate_gaussian(spec.privacy.budget, relation=spec.privacy.relation)
    grid, blocks = _blocks(spec, domain, options, multiplier)
    return MethodPlan(
        method="gaussian",
        charges=(PlannedCharge(STAGE, Gaussian(multiplier)),),
        noise=tuple(_noise_line(block) for block in blocks if block.std > 0),
        steps=(
            f"scale numeric columns by their public bounds to whole numbers of at most {grid} and clip them",
            "add up counts, sums, squares and products exactly, in one pass",
            "add rounded Gaussian noise to them once",
            "project to the nearest valid covariance and draw rows from it",
        ),
        details={"mode": options.mode, "grid": grid, "noise_multiplier": multiplier},
    )


def measure(
    table: PrivateTable, spec: ReleaseSpec, options: GaussianOptions, made: MethodPlan, purchase: Purchase
) -> Measurement:
    grid, blocks = _blocks(spec, table.domain, options, made.details["noise_multiplier"])
    products = exact_products(table.record_batches(), Layout.of(table.domain, options.label, grid))
    facts = released_facts(options, grid, blocks)
    return purchase(
        made.charges[0], lambda randomness: Measurement(KIND, facts, draw(products, blocks, randomness))
    )


def generate(measured: Measurement, domain: TableDomain, rows: int | None, progress: Progress) -> pa.Table:
    layout, estimates = estimates_of(measured, domain)
    fits = [fit_clipped_normal(one.mean, np.diag(one.numeric_covariance)) for one in estimates]
    models = [
        fit_class(
            one,
            [
                axis_of_clipped_normal(float(centre), float(spread))
                for centre, spread in zip(*fit, strict=True)
            ],
            measured.facts["pair_noise"],
        )
        for one, fit in zip(estimates, fits, strict=True)
    ]

    def number_map(label: int, place: int, draws: np.ndarray) -> pa.Array:
        centres, spreads = fits[label]
        return typed_numbers(centres[place] + spreads[place] * draws, layout.column(layout.numeric[place]))

    wanted = rows if rows is not None else max(1, round(sum(one.total for one in estimates)))
    rng = generation_rng(measured)
    return sample_table(
        models, layout, number_map, wanted, rng, lambda done: progress(done, wanted, "rows drawn")
    )


def estimates_of(measured: Measurement, domain: TableDomain) -> tuple[Layout, list[Estimates]]:
    """The estimated moments behind a stored measurement."""
    layout = Layout.of(domain, measured.facts["label"], measured.facts["grid"])
    return layout, estimate(measured.arrays, layout, measured.facts["count_noise"])


def generation_rng(measured: Measurement) -> np.random.Generator:
    """Seeded by the released numbers, so that a retry of the generation gives the same table."""
    words = [
        np.ascontiguousarray(array).view(np.uint32).ravel() for _, array in sorted(measured.arrays.items())
    ]
    return np.random.default_rng(np.concatenate(words))


def released_facts(options: GaussianOptions, grid: int, blocks: tuple[Block, ...]) -> dict[str, Any]:
    stds = {block.name: block.std for block in blocks}
    pairs = [block.std / block.unit for block in blocks if block.name.endswith("pairs")]
    return {
        "mode": options.mode,
        "label": options.label,
        "grid": grid,
        "noise_std": stds,
        "count_noise": stds.get("count", 0.0),
        "pair_noise": max(pairs, default=0.0),
    }


def shape_of(spec: ReleaseSpec, layout: Layout) -> Shape:
    return Shape(
        len(layout.numeric), layout.slots, layout.classes, spec.privacy.relation, spec.privacy.unit.max_rows
    )


def _blocks(
    spec: ReleaseSpec, domain: TableDomain, options: GaussianOptions, multiplier: float
) -> tuple[int, tuple[Block, ...]]:
    """The finest grid whose noise the sampler can draw; coarser grids cost nothing when the noise is that large."""
    shape = shape_of(spec, Layout.of(domain, options.label, MAX_GRID))
    weights = best_weights(shape)
    least_weight = min(w for w in (weights.count, weights.linear, weights.square, weights.pair) if w > 0)
    scale = multiplier * sensitivity(weights, shape) / least_weight
    grid = MAX_GRID
    while scale * grid**2 > MAX_SIGMA and grid > LEAST_GRID:
        grid //= 2
    if scale * grid**2 > MAX_SIGMA:
        raise SpecError(
            "the noise this budget needs for so many columns and rows a unit is too large to draw",
            "raise epsilon, lower unit.max_rows, or model fewer columns",
        )
    return grid, blocks_of(Layout.of(domain, options.label, grid), weights, shape, multiplier)


def _noise_line(block: Block) -> NoiseLine:
    return NoiseLine(
        block.name, len(block.rows), block.std / block.unit, "in scaled units: a column spans [-1, 1]"
    )
