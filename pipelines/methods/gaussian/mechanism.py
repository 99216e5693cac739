"""The Gaussian mechanism on sums of products, with the noise divided between kinds of numbers.

Theorem. With f(r) as in `layout`, numbers in units of the grid so that each slot has norm at most 1, the query is
  q = sum over rows of  (a, b f_i, c (x_i^2 - 1/2), e f_i f_j)
  over the slots' features i, numeric columns x_i, and pairs i < j of features in different slots (null indicators
  appear in the linear part only). Adding Gaussian noise of std z S to each number of q, S its L2 sensitivity to one
  unit, is the Gaussian mechanism with noise multiplier z. Equivalently a number of weight w gets noise of std
  z S / w. Each is an integer in its own unit (1, grid or grid^2), and rounded noise is post-processing (`noise`).
Relation and sensitivity (L2), D slots of which d numeric, k rows a unit:
  ADD_REMOVE: k sqrt(a^2 + b^2 D + c^2 d/4 + e^2 D(D-1)/2). In u_i = x_i^2 in [0, 1] the squared norm of one row is
    convex in each u_i and does not fall when u_i goes from 0 to 1; a null is no larger than u_i = 1. So corners are
    the worst case. Rows of a unit add up: triangle inequality. Classes are disjoint parts of one vector: no change.
  REPLACE_ONE: k times the largest distance of two rows. Same class, with A, B <= D the squared norms of f, f' and
    g = f.f': linear b^2(A+B-2g); pairs e^2/2 (A^2+B^2-2g^2 - sum of squared changes of the products within a slot),
    so in all at most 2 b^2 D + e^2 D^2 + b^4/e^2 + max(0, c^2 - e^2/2) d. Or, each number by its own range,
    4 b^2 D + 4 e^2 D(D-1)/2 + c^2 d. The smaller counts. Different classes: sqrt 2 times the ADD_REMOVE value.
    The count is public and free of noise if units are rows and there are no classes; an entity may be replaced by
    one with fewer rows, so there it may change by one a row: + a^2.
Noise unit. Standard deviation, in the units of the integer query. The event is computed from the stds that are drawn
  with: by homogeneity z is 1 over the sensitivity of the query whose weights are one unit over its std.
Reference. Gaussian mechanism: Balle & Wang 2018, Theorem 8. Proof, step by step: docs/proofs/moments.md. The two
  sensitivities are proved above and tried on generated neighbours in tests/methods/gaussian/test_mechanism.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.privacy.events import Event, Gaussian
from understudy.pipelines.privacy.noise.rounded import RandomSource, rounded_gaussian
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.privacy.rounding import CLAIMED_BITS, Number, root_down, root_up, up

_SLIVER = 1 + Fraction(1, 2**50)
"""More noise, so that rounding stds apart (the bound is not monotone in each of them) never costs a claimed bit."""
_KIND_OF = {
    "count": "count",
    "sums": "linear",
    "indicators": "linear",
    "squares": "square",
    "number_pairs": "pair",
    "mixed_pairs": "pair",
    "category_pairs": "pair",
}


@dataclass(frozen=True)
class Weights:
    """Relative precision of the four kinds of numbers; 0 means the kind is not released."""

    count: Number
    linear: Number
    square: Number
    pair: Number


@dataclass(frozen=True)
class Shape:
    """All of the public shape that the sensitivity depends on."""

    numeric: int
    slots: int
    classes: int
    relation: Relation
    max_rows: int
    of_entities: bool = False

    @property
    def size_may_change(self) -> bool:
        """Whether a replaced unit may bring another number of rows than it takes away."""
        return self.max_rows > 1 or self.of_entities

    @property
    def count_is_public(self) -> bool:
        return self.relation is Relation.REPLACE_ONE and not self.size_may_change and self.classes == 1


def sensitivity(weights: Weights, shape: Shape) -> float:
    """L2 sensitivity of the weighted query to one unit, rounded up."""
    return root_up(squared_sensitivity(weights, shape))


def squared_sensitivity(weights: Weights, shape: Shape) -> Fraction:
    """Its square by the formulas of the module's header, exactly."""
    given = (weights.count, weights.linear, weights.square, weights.pair)
    aa, bb, cc, ee = (Fraction(weight) ** 2 for weight in given)
    slots, pairs = shape.slots, shape.slots * (shape.slots - 1) // 2
    row = aa + bb * slots + cc * shape.numeric / 4 + ee * pairs
    if shape.relation is Relation.ADD_REMOVE:
        return shape.max_rows**2 * row
    worst = 4 * bb * slots + 4 * ee * pairs + cc * shape.numeric
    if ee > 0:
        rest = max(Fraction(0), cc - ee / 2) * shape.numeric
        worst = min(worst, 2 * bb * slots + ee * slots**2 + bb**2 / ee + rest)
    worst += aa if shape.size_may_change else 0
    if shape.classes > 1:
        worst = max(worst, 2 * row)
    return shape.max_rows**2 * worst


@dataclass(frozen=True, eq=False)
class Block:
    """Numbers of one kind and unit: entries (rows[i], columns[i]) of each class's products, their offset and noise.

    The query is `entry - offset * entry(0, 0)`; `std` is in the units of the entry and 0 where nothing is added.
    """

    name: str
    rows: np.ndarray
    columns: np.ndarray
    unit: int
    std: float
    offset: int = 0

    def query(self, products: np.ndarray) -> np.ndarray:
        """Exact integers of shape (classes, entries)."""
        exact: np.ndarray = products[:, self.rows, self.columns] - self.offset * products[:, :1, 0]
        return exact


def blocks_of(layout: Layout, weights: Weights, shape: Shape, noise_multiplier: float) -> tuple[Block, ...]:
    """What is released and with how much noise. Empty kinds are left out."""
    scale = Fraction(noise_multiplier) * Fraction(sensitivity(weights, shape)) * _SLIVER
    numbers, indicators, grid = layout.number_rows, layout.indicator_rows, layout.grid
    zero = np.zeros(1, np.int64)
    pairs = pair_entries(layout)

    def block(
        name: str, entries: tuple[np.ndarray, np.ndarray], unit: int, weight: Number, offset: int = 0
    ) -> Block | None:
        if weight == 0 or not len(entries[0]):
            return None
        return Block(name, entries[0], entries[1], unit, up(scale * unit / Fraction(weight)), offset)

    count_std = 0.0 if shape.count_is_public else (up(scale / Fraction(weights.count)) if weights.count else math.nan)
    made = (
        Block("count", zero, zero, 1, count_std) if weights.count or shape.count_is_public else None,
        block("sums", (np.zeros_like(numbers), numbers), grid, weights.linear),
        block("indicators", (np.zeros_like(indicators), indicators), 1, weights.linear),
        block("squares", (numbers, numbers), grid**2, weights.square, offset=grid**2 // 2),
        block("number_pairs", pairs["number_pairs"], grid**2, weights.pair),
        block("mixed_pairs", pairs["mixed_pairs"], grid, weights.pair),
        block("category_pairs", pairs["category_pairs"], 1, weights.pair),
    )
    return tuple(one for one in made if one is not None)


@dataclass(frozen=True)
class MomentNoise:
    """The whole query with its noise: count, sums, squares and, where they are asked for, products."""

    blocks: tuple[Block, ...]
    shape: Shape

    @property
    def event(self) -> Event:
        weights = {"count": Fraction(0), "linear": Fraction(0), "square": Fraction(0), "pair": Fraction(0)}
        for block in self.blocks:
            if block.name == "count" and self.shape.count_is_public:
                continue
            if not block.std > 0:
                raise ValueError(f"{block.name} would be released without noise")
            kind = _KIND_OF[block.name]
            weights[kind] = max(weights[kind], Fraction(block.unit) / Fraction(block.std))
        return Gaussian(root_down(1 / squared_sensitivity(Weights(**weights), self.shape), CLAIMED_BITS))

    def draw(self, exact: np.ndarray, randomness: RandomSource) -> dict[str, np.ndarray]:
        return noisy_blocks(exact, self.blocks, randomness)


def noisy_blocks(products: np.ndarray, blocks: tuple[Block, ...], randomness: RandomSource) -> dict[str, np.ndarray]:
    """The noisy query, block by block in the given order: int64, and the only use of randomness here."""
    released = {}
    for block in blocks:
        exact = block.query(products)
        noise = rounded_gaussian(exact.shape, block.std, randomness) if block.std > 0 else 0
        released[block.name] = exact + noise
    return released


def pair_entries(layout: Layout) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Entries of the products of features in different slots, by kind, in the order `estimates` reads them."""
    numbers, block_list = layout.number_rows, list(layout.block_rows.values())
    mixed = [_products(numbers, block) for block in block_list]
    tables = [_products(one, two) for i, one in enumerate(block_list) for two in block_list[i + 1 :]]
    return {
        "number_pairs": _pairs(numbers, numbers),
        "mixed_pairs": _joined(mixed),
        "category_pairs": _joined(tables),
    }


def _pairs(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    i, j = np.triu_indices(len(first), 1)
    return first[i], second[j]


def _products(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(first, len(second)), np.tile(second, len(first))


def _joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([columns for _, columns in parts])
