"""Features of generated records, in floats and differentiable: the side of `features` that training needs.

Post-processing: nothing here ever meets a private row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional

from understudy.pipelines.methods.kernel.edges import DIRECTIONS, Edges
from understudy.pipelines.methods.kernel.features import FeatureBlocks


class BlockFeatures(nn.Module):
    """Of one block; a module, so that it moves between devices with what it belongs to."""

    of_pixels: torch.Tensor
    of_edges: torch.Tensor

    def __init__(self, features: FeatureBlocks, block: int) -> None:
        super().__init__()
        self.edges = features.edges_seen
        self.register_buffer("of_pixels", torch.from_numpy(features.float_frequencies(block)))
        self.register_buffer("of_edges", torch.from_numpy(features.float_edge_frequencies(block)))

    @property
    def numbers(self) -> int:
        return self.of_pixels.numel() + self.of_edges.numel()

    def forward(self, records: torch.Tensor) -> torch.Tensor:
        """Of records (n x width) in [0, 1], of norm 1: cosines, then sines, those of pixels before those of edges."""
        phases = records.float() @ self.of_pixels
        if self.edges is not None:
            phases = torch.cat([phases, edges_of(records, self.edges) @ self.of_edges], dim=-1)
        return torch.cat([phases.cos(), phases.sin()], dim=-1) / math.sqrt(phases.shape[-1])


def joint_features(blocks: Iterable[nn.Module], records: torch.Tensor) -> torch.Tensor:
    """Of several blocks, one after the other; of norm 1 as well."""
    found = [block(records) for block in blocks]
    return torch.cat(found, dim=-1) / math.sqrt(len(found))


def edges_of(records: torch.Tensor, edges: Edges) -> torch.Tensor:
    """What `Edges.of` finds, of records in [0, 1] and not rounded."""
    pixels = records.float().view(-1, edges.height, edges.width, edges.channels).mean(dim=3)
    around = functional.pad(pixels[:, None], (1, 1, 1, 1), mode="replicate")
    across = (around[:, :, 1:-1, 2:] - around[:, :, 1:-1, :-2]) / 2
    down = (around[:, :, 2:, 1:-1] - around[:, :, :-2, 1:-1]) / 2
    angles = [2 * math.pi * direction / DIRECTIONS for direction in range(DIRECTIONS)]
    slopes = torch.cat([(across * math.cos(angle) + down * math.sin(angle)).relu() for angle in angles], dim=1)
    return functional.avg_pool2d(slopes, edges.square).flatten(1)
