"""Mode `noisy-moments` with `centre: fixed`: count, sums, squares and products in one pass, one draw, one charge.

Everything private happens in `measure`: exact integer sums, then one draw (`mechanism`). What follows is
post-processing of the released integers, so any number of rows may be generated, any number of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import MethodPlan, NoiseLine, PrivateTable
from understudy.pipelines.methods.gaussian.estimates import Estimates, estimate
from understudy.pipelines.methods.gaussian.latent import axis_of_clipped_normal, fit_clipped_normal
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.mechanism import Block, MomentNoise, Shape, blocks_of, sensitivity
from understudy.pipelines.methods.gaussian.model import fit_class
from understudy.pipelines.methods.gaussian.moments import MAX_GRID, exact_products
from understudy.pipelines.methods.gaussian.options import GaussianOptions
from understudy.pipelines.methods.gaussian.sampling import FittedModels, typed_numbers
from understudy.pipelines.methods.gaussian.split import best_weights
from understudy.pipelines.methods.over_rows import summed
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.privacy.noise.rounded import MAX_SIGMA
from understudy.pipelines.privacy.rounding import planned
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

STAGE = "moments"
KIND = "gaussian-moments"
LEAST_GRID = 16


@dataclass(frozen=True)
class MomentsDesign:
    """One release of all moments."""

    options: GaussianOptions
    layout: Layout
    noise: MomentNoise


def plan(
    spec: ReleaseSpec, domain: TableDomain, options: GaussianOptions, multiplier: float
) -> MethodPlan[MomentsDesign]:
    multiplier = planned(multiplier)
    grid = moments_grid(spec, domain, options, multiplier, pairs=True)
    layout = Layout.of(domain, options.label, grid)
    noise = moment_noise(spec, layout, multiplier, pairs=True)
    return MethodPlan(
        method="gaussian",
        charges=(PlannedCharge(STAGE, noise.event),),
        noise=noise_lines(noise.blocks),
        steps=(
            f"scale numeric columns by their public bounds to whole numbers of at most {grid} and clip them",
            "add up counts, sums, squares and products exactly, in one pass",
            "add rounded Gaussian noise to them once",
            "project to the nearest valid covariance and draw rows from it",
        ),
        design=MomentsDesign(options, layout, noise),
        details={"mode": options.mode, "grid": grid, "noise_multiplier": multiplier},
    )


def measure(
    table: PrivateTable, design: MomentsDesign, charges: tuple[PlannedCharge, ...], purchase: Purchase
) -> Measurement:
    products = summed(table, partial(exact_products, layout=design.layout))
    facts = released_facts(design.options, design.layout.grid, design.noise.blocks)
    return purchase(charges[0], Mechanism(design.noise, products, KIND, facts))


@dataclass(frozen=True, eq=False)
class ClippedNormals:
    """Normal draws to values by each class's centres and spreads."""

    fits: tuple[tuple[np.ndarray, np.ndarray], ...]
    layout: Layout

    def typed(self, label: int, place: int, draws: np.ndarray, rng: np.random.Generator) -> pa.Array:
        centres, spreads = self.fits[label]
        return typed_numbers(centres[place] + spreads[place] * draws, self.layout.column(self.layout.numeric[place]))


def fitted(measured: Measurement, domain: TableDomain) -> FittedModels:
    layout, estimates = estimates_of(measured, domain)
    fits = tuple(fit_clipped_normal(one.mean, np.diag(one.numeric_covariance)) for one in estimates)
    models = tuple(
        fit_class(
            one,
            [axis_of_clipped_normal(float(centre), float(spread)) for centre, spread in zip(*fit, strict=True)],
            measured.facts["pair_noise"],
        )
        for one, fit in zip(estimates, fits, strict=True)
    )
    rows = max(1, round(sum(one.total for one in estimates)))
    return FittedModels(models, layout, ClippedNormals(fits, layout), rows)


def estimates_of(measured: Measurement, domain: TableDomain) -> tuple[Layout, list[Estimates]]:
    """The estimated moments behind a stored measurement."""
    facts = measured.facts
    layout = Layout.of(domain, facts["label"], facts["grid"])
    centres = measured.arrays["centres"] / layout.grid if "centres" in measured.arrays else None
    return layout, estimate(measured.arrays, layout, facts["count_noise"], facts["pair_units"], centres)


def generation_rng(measured: Measurement) -> np.random.Generator:
    """Seeded by the released numbers, so that a retry of the generation gives the same table."""
    words = [np.ascontiguousarray(array).view(np.uint32).ravel() for _, array in sorted(measured.arrays.items())]
    return np.random.default_rng(np.concatenate(words))


def released_facts(options: GaussianOptions, grid: int, blocks: tuple[Block, ...]) -> dict[str, Any]:
    stds = {block.name: block.std for block in blocks}
    pairs = {block.name: block for block in blocks if block.name.endswith("pairs")}
    return {
        "mode": options.mode,
        "label": options.label,
        "grid": grid,
        "noise_std": stds,
        "count_noise": stds.get("count", 0.0),
        "pair_units": {name: block.unit for name, block in pairs.items()},
        "pair_noise": max((block.std / block.unit for block in pairs.values()), default=0.0),
    }


def shape_of(spec: ReleaseSpec, layout: Layout) -> Shape:
    unit = spec.privacy.protected_unit
    return Shape(
        len(layout.numeric),
        layout.slots,
        layout.classes,
        spec.privacy.relation,
        unit.max_rows,
        of_entities=unit.entity is not None or not spec.every_row_counts,
    )


def moments_grid(
    spec: ReleaseSpec, domain: TableDomain, options: GaussianOptions, multiplier: float, *, pairs: bool
) -> int:
    """The finest grid whose noise the sampler can draw; beside such noise a coarser one costs nothing."""
    shape = shape_of(spec, Layout.of(domain, options.label, MAX_GRID))
    weights = best_weights(shape, pairs)
    least_weight = min(w for w in (weights.count, weights.linear, weights.square, weights.pair) if w > 0)
    return drawable_grid(multiplier * sensitivity(weights, shape) / float(least_weight))


def moment_noise(spec: ReleaseSpec, layout: Layout, multiplier: float, *, pairs: bool) -> MomentNoise:
    """The query on this grid, at a planned multiplier."""
    shape = shape_of(spec, layout)
    return MomentNoise(blocks_of(layout, best_weights(shape, pairs), shape, multiplier), shape)


def drawable_grid(std: float) -> int:
    """The largest grid at which noise of `std` (in scaled units) on a product is within the sampler's range."""
    grid = MAX_GRID
    while std * grid**2 > MAX_SIGMA:
        grid //= 2
        if grid < LEAST_GRID:
            raise SpecError(
                "the noise this budget needs for so many columns and rows a unit is too large to draw",
                "raise epsilon, lower unit.max_rows, or model fewer columns",
            )
    return grid


def noise_lines(blocks: tuple[Block, ...]) -> tuple[NoiseLine, ...]:
    note = "in scaled units: a column spans [-1, 1]"
    return tuple(NoiseLine(one.name, len(one.rows), one.std / one.unit, note) for one in blocks if one.std > 0)
