"""What was released, as training needs it: class sizes and, block by block, mean embeddings of unit norm.

Post-processing throughout: released integers are divided by released (or public) class sizes here, after the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.pipelines.methods.kernel.features import AMPLITUDE
from understudy.pipelines.methods.kernel.mechanism import EmbeddingDesign


@dataclass(frozen=True)
class ReleasedEmbedding:
    """`released` is (classes, numbers) for a single release, (steps, classes, numbers) for steps."""

    design: EmbeddingDesign
    released: np.ndarray
    public_sizes: np.ndarray | None = None

    @cached_property
    def sizes(self) -> np.ndarray:
        """Class sizes, at least 0: public ones, or the noisy counts."""
        if self.public_sizes is not None:
            return self.public_sizes.astype(float)
        counts = self.released[..., -1] / self.design.count_weight
        if self.design.release == "steps":
            counts = counts.mean(axis=0) / self.design.rate
        return np.maximum(counts, 0.0)

    @cached_property
    def _divisors(self) -> np.ndarray:
        """Of each class; that of a class that may as well be empty is its noise, so its embedding stays small."""
        floor = 4 * self.embedding_noise
        divisors: np.ndarray = self.design.rate * np.maximum(np.maximum(self.sizes, floor), 1.0) * AMPLITUDE
        return divisors

    @property
    def embedding_noise(self) -> float:
        """Std of the noise on a class's whole embedding along one direction, in records."""
        steps = self.design.blocks if self.design.release == "steps" else 1
        scale = AMPLITUDE * math.sqrt(self.design.blocks_a_release * self.design.features.frequencies)
        return self.design.sigma / (scale * self.design.rate * math.sqrt(steps))

    @cached_property
    def standing_out(self) -> np.ndarray:
        """Which classes are larger than noise could make them."""
        noise = self.embedding_noise
        if self.public_sizes is None:  # the noise of a count is that of the whole vector, divided by W
            steps = self.design.blocks if self.design.release == "steps" else 1
            noise = self.design.sigma / (self.design.count_weight * self.design.rate * math.sqrt(steps))
        found: np.ndarray = self.sizes > 4 * noise
        return found

    def block(self, number: int) -> np.ndarray:
        """Noisy mean embedding of every class in this block's features, of norm at most 1 but for the noise."""
        size = 2 * self.design.features.frequencies
        if self.design.release == "steps":
            numbers = self.released[number, :, :size]
        else:
            numbers = self.released[:, number * size : (number + 1) * size]
        return numbers / (self._divisors[:, None] * math.sqrt(self.design.features.frequencies))

    def noise_norm(self) -> np.ndarray:
        """Expected norm of the noise in one block's embedding, by class."""
        size = 2 * self.design.features.frequencies
        return self.design.sigma * math.sqrt(size / self.design.features.frequencies) / self._divisors
