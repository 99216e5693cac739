"""The distance between what is generated and what was released, weighted by how well each direction is known.

Theorem. Let s be a class's released mean embedding: the mean of n records whose features have covariance C, plus noise
  of variance v in every coordinate. Of all weightings of the difference s - m from a generator's mean embedding, that
  by the inverse of the covariance of s, C/n + v I, fits with least variance (generalised method of moments; Hansen
  1982), and (s - m)' (C + n v I)^-1 (s - m) is the largest squared mean that a linear witness of variance 1 finds
  between the two. An unweighted distance is ruled by the few directions in which pictures vary most.
Public or released only. C is that of *generated* records, pooled over classes and taken anew a few times in training;
  n v is the square of the noise in records over the mean released class size. The more budget, the more directions
  count. All of it is post-processing.
Witness. (C + n v I)^-1 (s - m) for a running mean m of generated batches, held constant while a batch is
  differentiated: no product of a batch with itself, so nothing to correct for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from understudy.pipelines.methods.kernel.embedding import ReleasedEmbedding
from understudy.pipelines.methods.kernel.generated import BlockFeatures
from understudy.pipelines.methods.kernel.generators import Generator

WHITENED_NUMBERS = 1 << 27
"""Of all blocks' matrices (512 MB); a release with more is trained on by plain distance."""
KEPT = 0.95
"""Of the running mean at every batch: the mean of some twenty batches, with a twentieth of one's sampling noise."""
COVARIANCE_RECORDS = 6000
LEAST_RIDGE = 1e-4


def can_whiten(embedding: ReleasedEmbedding) -> bool:
    design = embedding.design
    return design.release == "once" and design.blocks * (2 * design.features.frequencies) ** 2 <= WHITENED_NUMBERS


class Whitening:
    """For every block, the inverse of the covariance of what is generated, and the running mean of every class."""

    def __init__(self, embedding: ReleasedEmbedding, live: torch.Tensor) -> None:
        self.live = live
        self.ridge = ridge_of(embedding, live)
        self.means: list[torch.Tensor] = []
        self._inverses: list[torch.Tensor] = []

    def look(self, generator: Generator, features: Callable[[int], BlockFeatures], blocks: int, seed: int) -> None:
        """Take covariances and means from records of this generator."""
        each = max(2, COVARIANCE_RECORDS // len(self.live))
        source = torch.Generator(self.live.device).manual_seed(seed)
        records = generator.sample(self.live.repeat(each), source=source).to(self.live.device)
        self.means, self._inverses = [], []
        for block in range(blocks):
            found = features(block)(records).view(each, len(self.live), -1)
            mean = found.mean(dim=0)
            spread = (found - mean).flatten(0, 1)
            covariance = spread.T @ spread / len(spread)
            covariance.diagonal().add_(self.ridge)
            self.means.append(mean)
            self._inverses.append(torch.cholesky_inverse(torch.linalg.cholesky(covariance)))

    def distance(self, block: int, found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """By class, from the batch's mean embedding, through which alone gradients flow; it joins the running mean."""
        witness = (wanted - self.means[block]) @ self._inverses[block]
        self.means[block] = KEPT * self.means[block] + (1 - KEPT) * found.detach()
        return (witness * (wanted - found)).sum(dim=1)


def ridge_of(embedding: ReleasedEmbedding, live: torch.Tensor) -> float:
    """n v for a class of typical size, in features of norm 1."""
    size = max(1.0, float(np.mean(embedding.sizes[live.cpu().numpy()])))
    return max(LEAST_RIDGE, embedding.embedding_noise**2 / size)


def known_classes(embedding: ReleasedEmbedding) -> torch.Tensor:
    """Which classes stand out of their noise; all, if none does."""
    known = embedding.standing_out
    return torch.from_numpy(known if known.any() else np.ones(len(embedding.sizes), dtype=bool))
