"""Products of centred rows, clipped to a radius that is itself bought: the accurate way to measure dependence.

Theorem. A row is a vector y of integers with one part for each slot: a number about a released centre, a rank score,
  or a one-hot of height `grid`. Let U_s be the squared norm of part s in units of the grid. The products of numbers
  in different slots have norm N = sqrt(((sum U)^2 - sum U^2)/2), as a one-hot has one entry and a null is 0. The row
  is scaled by min(1, sqrt(R/N)) and cut toward zero to integers, which makes every product smaller, so its products
  have norm at most R, exactly. The sum of products plus Gaussian noise of std z S is the Gaussian mechanism with noise
  multiplier z for S = k R (ADD_REMOVE) or 2 k R (REPLACE_ONE: two vectors of norm R may point opposite ways).
The radius R is chosen from a noisy histogram of N over public bins: a vector of disjoint counts, sensitivity
  `counts_sensitivity`. It and the centres are released first, so they are public when the products are measured
  (adaptive composition). Sizes of U beyond the declared bounds cannot occur, whatever the data.
Relation, sensitivity. As above, in L2.
Proof. docs/proofs/learned-centre.md.
Noise unit. Standard deviation, in the units of the integer query (grid^2 for products, rows for the histogram).
Reference. Adaptive clipping by noisy quantiles: Andrew et al. 2021, in query space. Gaussian: Balle & Wang 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.mechanism import MarginalNoise, one_table_noise
from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.mechanism import Block, noisy_blocks, pair_entries
from understudy.pipelines.methods.gaussian.moments import Writer, add_products, feature_blocks, sum_over
from understudy.pipelines.methods.over_rows import summed
from understudy.pipelines.privacy.events import Event, Gaussian
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.privacy.noise.rounded import RandomSource
from understudy.pipelines.privacy.relation import Relation, Unit
from understudy.pipelines.privacy.rounding import claimed, scaled, up

BINS = 48
LEAST_SHARE = 1 / 128
RADIUS_SHARE = 0.03
_INWARD = 1 - 1e-6  # rows are scaled to just inside the radius, which covers the rounding of norms in doubles (1e-9)

HISTOGRAM, PRODUCTS = "gaussian-radius", "gaussian-products"

WriterOf = Callable[[pa.RecordBatch], Writer]


@dataclass(frozen=True)
class Clipping:
    """Public: how far a numeric part can be from its centre (in grids), the relation and the rows of a unit."""

    numeric_reach: float
    relation: Relation
    unit: Unit

    def sensitivity(self, radius: float) -> float:
        """Of the sum of products, rounded up."""
        return up(self.unit.max_rows * Fraction(radius) * (2 if self.relation is Relation.REPLACE_ONE else 1))

    def edges(self, layout: Layout) -> np.ndarray:
        """Edges of the radius histogram, the last at the largest norm there can be."""
        sizes = np.array([self.numeric_reach**2] * len(layout.numeric) + [1.0] * len(layout.categories))
        largest = np.sqrt((sizes.sum() ** 2 - (sizes**2).sum()) / 2)
        edges: np.ndarray = np.concatenate([[0.0], np.geomspace(LEAST_SHARE, 1.0, BINS)]) * largest
        return edges


@dataclass(frozen=True)
class ProductNoise:
    """Noise on the products of rows clipped to this radius."""

    blocks: tuple[Block, ...]
    clipping: Clipping
    radius: float

    @property
    def event(self) -> Event:
        least = min(Fraction(block.std) / block.unit for block in self.blocks)
        return Gaussian(claimed(least, self.clipping.sensitivity(self.radius)))

    def draw(self, exact: np.ndarray, randomness: RandomSource) -> dict[str, np.ndarray]:
        return noisy_blocks(exact, self.blocks, randomness)


@dataclass(frozen=True)
class ProductsDesign:
    """Two charges: the histogram that the radius is chosen from, and the products at whatever radius that is."""

    layout: Layout
    clipping: Clipping
    histogram: MarginalNoise
    noise_multiplier: float

    @classmethod
    def of(cls, layout: Layout, clipping: Clipping, radius_multiplier: float, multiplier: float) -> ProductsDesign:
        histogram = one_table_noise(radius_multiplier, clipping.relation, clipping.unit)
        return cls(layout, clipping, histogram, multiplier)

    @property
    def charges(self) -> tuple[PlannedCharge, PlannedCharge]:
        """The multiplier does not depend on the radius (`rounding`), so any radius gives the event of the products."""
        at_largest = self.noise_at(float(self.clipping.edges(self.layout)[-1]))
        return PlannedCharge("radius", self.histogram.event), PlannedCharge("products", at_largest.event)

    def noise_at(self, radius: float) -> ProductNoise:
        std = scaled(self.noise_multiplier, self.clipping.sensitivity(radius))
        return ProductNoise(product_blocks(self.layout, std), self.clipping, radius)


def buy_products(
    table: PrivateTable,
    design: ProductsDesign,
    writer_of: WriterOf,
    charges: tuple[PlannedCharge, ...],
    purchase: Purchase,
) -> Measurement:
    """Buy the histogram, choose the radius from it, buy the products. Two charges, two passes over the table."""
    layout, clipping = design.layout, design.clipping
    edges = clipping.edges(layout)
    counts = summed(table, partial(radius_histogram, layout=layout, writer_of=writer_of, edges=edges))
    histogram = purchase(charges[0], Mechanism(design.histogram, {"radius_histogram": counts}, HISTOGRAM, {}))
    numbers = sum(len(rows) for rows, _ in pair_entries(layout).values())
    noise_per_radius = design.noise_multiplier * clipping.sensitivity(1.0)
    std = design.histogram.stds[0]
    radius = choose_radius(histogram.arrays["radius_histogram"], edges, std, numbers, noise_per_radius)
    noise = design.noise_at(radius)
    products = summed(table, partial(clipped_products, layout=layout, writer_of=writer_of, radius=radius))
    facts = {
        "radius": radius,
        "pair_units": {block.name: block.unit for block in noise.blocks},
        "pair_noise": max(block.std / block.unit for block in noise.blocks),
    }
    released = purchase(charges[1], Mechanism(noise, products, PRODUCTS, facts))
    return Measurement(PRODUCTS, released.facts, {**histogram.arrays, **released.arrays})


def radius_histogram(
    batches: Iterable[pa.RecordBatch], layout: Layout, writer_of: WriterOf, edges: np.ndarray
) -> np.ndarray:
    """Exact counts of rows by the norm of their products."""

    def count(batch: pa.RecordBatch) -> np.ndarray:
        counts = np.zeros(len(edges) - 1, np.int64)
        for features, _ in feature_blocks(batch, layout, writer_of(batch)):
            bins = np.searchsorted(edges[1:-1], _norms(features, layout), side="left")
            counts += np.bincount(bins, minlength=len(counts))
        return counts

    return sum_over(batches, count, (len(edges) - 1,))


def choose_radius(
    noisy: np.ndarray, edges: np.ndarray, histogram_std: float, products: int, noise_per_radius: float
) -> float:
    """The edge of least estimated error: what clipping takes away, at most, beside what noise adds.

    `noise_per_radius` is the noise std of one product at radius 1. Bins within three deviations of 0 count as empty.
    """
    rows = max(float(noisy.sum()), 1.0)
    kept = np.where(noisy > 3 * histogram_std, noisy, 0.0)
    candidates = edges[1:]
    lost = np.array([np.sum(kept * np.maximum(candidates - radius, 0.0)) for radius in candidates])
    added = candidates * noise_per_radius * np.sqrt(products)
    return float(candidates[np.argmin(np.hypot(lost, added) / rows)])


def clipped_products(
    batches: Iterable[pa.RecordBatch], layout: Layout, writer_of: WriterOf, radius: float
) -> np.ndarray:
    """Exact sums of products of rows scaled to the radius: int64 (classes, width, width)."""
    shape = (layout.classes, layout.width, layout.width)

    def work(batch: pa.RecordBatch) -> np.ndarray:
        total = np.zeros(shape, np.int64)
        for features, classes in feature_blocks(batch, layout, writer_of(batch)):
            clip_rows(features, layout, radius)
            add_products(features, classes, total)
        return total

    return sum_over(batches, work, shape)


def clip_rows(features: np.ndarray, layout: Layout, radius: float) -> None:
    """Give one-hots their height, then scale rows whose products are too large and cut them to integers, in place."""
    norms = _norms(features, layout)
    blocks = features[layout.indicator_rows[len(layout.null_row) :]]
    target = radius * _INWARD
    factor = np.sqrt(target / np.maximum(norms, target))
    features[layout.number_rows] = np.trunc(features[layout.number_rows] * factor)
    features[layout.indicator_rows[len(layout.null_row) :]] = np.trunc(blocks * (layout.grid * factor))


def product_blocks(layout: Layout, std: float) -> tuple[Block, ...]:
    """The products to release, each with noise `std` in units of grid^2."""
    unit = layout.grid**2
    return tuple(
        Block(name, rows, columns, unit, up(Fraction(std) * unit))
        for name, (rows, columns) in pair_entries(layout).items()
        if len(rows)
    )


def _norms(features: np.ndarray, layout: Layout) -> np.ndarray:
    """N of each row, by its own numbers alone: NumPy adds a block of one row in another order than several rows, so
    sums are of integers. With 2,000 numbers of at most 2^13 the fourth powers sum to less than 2^63."""
    squares = features[layout.number_rows].astype(np.int64) ** 2
    unit, present = float(layout.grid) ** 2, len(layout.categories)
    sums = squares.sum(axis=0) / unit + present
    fourth = (squares**2).sum(axis=0) / unit**2 + present
    norms: np.ndarray = np.sqrt(np.maximum(sums**2 - fourth, 0.0) / 2)
    return norms
