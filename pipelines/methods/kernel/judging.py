"""Generated records that do not look like their class, by what was released, are drawn anew.

A generator makes some records between classes, which mislead whoever learns from them. The released embeddings
themselves tell classes apart: the linear discriminant in feature space, (C + n v I)^-1 s_k, with the covariance C of
what is generated (`whitening`). A record that it gives to another class is drawn again, a few times at most.
Post-processing: released numbers, the size of the noise and generated records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from understudy.pipelines.methods.kernel.embedding import ReleasedEmbedding
from understudy.pipelines.methods.kernel.generated import BlockFeatures, joint_features
from understudy.pipelines.methods.kernel.generators import Generator
from understudy.pipelines.methods.kernel.whitening import COVARIANCE_RECORDS, known_classes, ridge_of

ROUNDS = 4
MOST_FREQUENCIES = 2000
"""Of the first blocks: their covariance is held and factored whole."""


class JudgedGenerator(nn.Module):
    """Stands where a generator does. `discriminants` (2F x classes) and `offsets` are of the classes in `live`."""

    discriminants: torch.Tensor
    offsets: torch.Tensor
    live: torch.Tensor

    def __init__(
        self,
        generator: Generator,
        blocks: Sequence[BlockFeatures],
        discriminants: torch.Tensor,
        offsets: torch.Tensor,
        live: torch.Tensor,
    ) -> None:
        super().__init__()
        self.generator = generator
        self.blocks = nn.ModuleList(blocks)
        self.register_buffer("discriminants", discriminants)
        self.register_buffer("offsets", offsets)
        self.register_buffer("live", live)

    @torch.no_grad()
    def sample(self, labels: torch.Tensor, batch: int = 1000, source: torch.Generator | None = None) -> torch.Tensor:
        """Records of these classes; those of a class that is not known are not judged."""
        records = self.generator.sample(labels, batch, source)
        open_ones = torch.nonzero(torch.isin(labels, self.live)).flatten()
        for _ in range(ROUNDS):
            looks_like = self.class_of(records[open_ones.cpu()])
            open_ones = open_ones[looks_like != labels[open_ones]]
            if not len(open_ones):
                break
            records[open_ones.cpu()] = self.generator.sample(labels[open_ones], batch, source)
        return records

    @torch.no_grad()
    def class_of(self, records: torch.Tensor, batch: int = 1000) -> torch.Tensor:
        """The class that each looks like most."""
        found = [
            joint_features(self.blocks, part.to(self.live.device)) @ self.discriminants + self.offsets
            for part in torch.split(records, batch)
        ]
        chosen: torch.Tensor = self.live[torch.cat(found).argmax(dim=1)]
        return chosen


def judged(embedding: ReleasedEmbedding, generator: Generator, device: str, seed: int) -> JudgedGenerator:
    """The generator with a judge; of one release of everything at once."""
    design = embedding.design
    blocks = range(max(1, min(design.blocks, MOST_FREQUENCIES // design.features.frequencies)))
    features = [BlockFeatures(design.features, block).to(device) for block in blocks]
    wanted = np.concatenate([embedding.block(block) for block in blocks], axis=1)
    live = torch.nonzero(known_classes(embedding)).flatten().to(device)
    means = torch.from_numpy((wanted / len(blocks) ** 0.5).astype(np.float32)).to(device)[live]

    source = torch.Generator(device).manual_seed(seed)
    each = max(2, COVARIANCE_RECORDS // len(live))
    records = generator.sample(live.repeat(each), source=source).to(device)
    found = joint_features(features, records).view(each, len(live), -1)
    spread = (found - found.mean(dim=0)).flatten(0, 1)
    covariance = spread.T @ spread / len(spread)
    covariance.diagonal().add_(ridge_of(embedding, live) * design.blocks / len(blocks))
    discriminants = torch.cholesky_solve(means.T.contiguous(), torch.linalg.cholesky(covariance))
    offsets = -0.5 * (means.T * discriminants).sum(dim=0)
    return JudgedGenerator(generator, features, discriminants, offsets, live)
