"""The two releases of the kernel method: one of everything at once, and many of fresh Poisson samples.

Theorem (once). The vector of class-wise sums of all blocks' features, with W times the class sizes appended,
  changes by at most Delta = sqrt(B F m + W^2) in L2 when one record comes or goes: a record adds features of
  squared norm <= F m in each of B blocks (`features`) and W to one count, all within its class's part. Rounded
  Gaussian noise of std sigma on every number is one Gaussian event with multiplier sigma / Delta, and the
  functional Gaussian mechanism (`functional`) for the kernel of those features.
Theorem (steps). Step t takes every record independently with probability q and releases the same vector for block t
  alone, Delta = sqrt(F m + W^2): a Poisson-sampled Gaussian, T of them composed. Labels split the vector into
  disjoint parts, so classes compose in parallel at no extra cost, with one generator or one a class.
Relation. ADD_REMOVE of one record; a unit of r records multiplies Delta by r (once only). REPLACE_ONE doubles Delta
  (once), because inner products of random features may be negative; for steps the accountant treats the replaced
  record.
Sensitivity. Does not grow with the number of points at which the embedding is later evaluated, nor with training
steps.
Noise unit. `sigma` is a standard deviation in integer feature units; divide by AMPLITUDE sqrt(F) n for a mean
  embedding of unit norm. Nothing is divided before the noise: class sizes are released or public, never the size of
  a sample.
Reference. Jiang, Sun & Yu 2023, Corollary 2 and section 3.6, as corrected in docs/proofs/kernel.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from understudy.pipelines.methods.kernel.features import FeatureBlocks
from understudy.pipelines.privacy.events import Event, Gaussian, PoissonSampled, SelfComposed
from understudy.pipelines.privacy.noise.rounded import RandomSource, rounded_gaussian
from understudy.pipelines.privacy.noise.sampling import poisson_draw
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.privacy.rounding import claimed, root_up, scaled, up

EMBEDDING = "embedding"
COUNT_SHARE = 0.25
"""W over the norm of the features: class sizes within four noise multipliers of records, for 3% more noise."""


@dataclass(frozen=True)
class EmbeddingDesign:
    """All that is public about the release. `blocks` are released together (once) or one a step (steps)."""

    release: Literal["once", "steps"]
    features: FeatureBlocks
    blocks: int
    classes: int
    rate: float
    noise_multiplier: float
    relation: Relation
    rows_a_unit: int = 1
    counted: bool = True

    @property
    def blocks_a_release(self) -> int:
        return self.blocks if self.release == "once" else 1

    @property
    def numbers(self) -> int:
        """Numbers released for each class by one release: features and one count."""
        return self.blocks_a_release * 2 * self.features.frequencies + 1

    @property
    def count_weight(self) -> int:
        """W; nothing where class sizes are public."""
        if not self.counted:
            return 0
        return math.ceil(COUNT_SHARE * math.sqrt(self.blocks_a_release * self.features.largest_square))

    @property
    def record_norm(self) -> float:
        """The exact bound on what one record adds, rounded up."""
        square = self.blocks_a_release * self.features.largest_square + self.count_weight**2
        return root_up(square)

    @property
    def sensitivity(self) -> float:
        """Of the unit under the relation; of one record's own contribution where it is sampled (`events`)."""
        if self.release == "steps":
            return self.record_norm
        return up(Fraction(self.record_norm) * self.rows_a_unit * (2 if self.relation is Relation.REPLACE_ONE else 1))

    @property
    def sigma(self) -> float:
        """What is drawn with."""
        return scaled(self.noise_multiplier, self.sensitivity)

    @property
    def gaussian(self) -> Gaussian:
        """What the noise that is drawn is worth."""
        return Gaussian(claimed(self.sigma, self.sensitivity))


Batches = Iterable[tuple[np.ndarray, np.ndarray]]
"""Grid records (n x width, uint16) and their class codes."""


def exact_embedding(batches: Batches, design: EmbeddingDesign) -> np.ndarray:
    """The integer vectors of all blocks, one a class, before noise. One pass, one batch in memory."""
    totals = np.zeros((design.classes, design.numbers), dtype=np.int64)
    size = 2 * design.features.frequencies
    parts = [np.zeros((design.classes, size), dtype=np.int64) for _ in range(design.blocks)]
    for records, labels in batches:
        for block, part in enumerate(parts):
            design.features.add(block, records, labels, part)
        totals[:, -1] += design.count_weight * np.bincount(labels, minlength=design.classes)
    for block, part in enumerate(parts):
        totals[:, block * size : (block + 1) * size] = part
    return totals


@dataclass(frozen=True)
class OnceNoise:
    """Noise on the embeddings of all blocks, released together."""

    design: EmbeddingDesign

    @property
    def event(self) -> Event:
        return self.design.gaussian

    def draw(self, exact: np.ndarray, randomness: RandomSource) -> dict[str, np.ndarray]:
        return {EMBEDDING: exact + rounded_gaussian(exact.shape, self.design.sigma, randomness)}


@dataclass(frozen=True)
class GridRecords:
    """All rows on the grid, and their class codes. Private."""

    records: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class StepsNoise:
    """Steps `first` to `first + steps`: (steps, classes, numbers). Sampling and noise are one draw."""

    design: EmbeddingDesign
    first: int
    steps: int

    @property
    def event(self) -> Event:
        return SelfComposed(PoissonSampled(self.design.rate, self.design.gaussian), self.steps)

    def draw(self, exact: GridRecords, randomness: RandomSource) -> dict[str, np.ndarray]:
        design, records, labels = self.design, exact.records, exact.labels
        draw = poisson_draw(len(records), self.steps, design.rate, randomness)
        totals = np.zeros((self.steps, design.classes, design.numbers), dtype=np.int64)
        for step in range(self.steps):
            chosen = draw.members[draw.starts[step] : draw.starts[step + 1]]
            design.features.add(self.first + step, records[chosen], labels[chosen], totals[step])
            totals[step, :, -1] = design.count_weight * np.bincount(labels[chosen], minlength=design.classes)
        return {EMBEDDING: totals + rounded_gaussian(totals.shape, design.sigma, randomness)}
