"""A picture that a network makes, bent by another: the same shape slanted, shifted, stretched or waved.

What a class varies in is for a large part where things are and how they lean. A network that only paints has to learn
every position anew; one that may bend what it painted learns the shape once. How far and how often it bends is learned
from what was released, like everything else. Post-processing.
Reference. Jaderberg et al. 2015 (spatial transformers).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

HIDDEN = 128
POINTS = 4
"""A side of the grid on which the bending is said; between its points it is smooth."""
FARTHEST, STRONGEST = 0.3, 0.4
"""What a point may move by and the numbers of the linear map may be, in half sides of the picture."""


class Warped(nn.Module):
    """Pictures (n, height, width, channels; flattened) of `painter`, each bent by its own smooth map."""

    places: torch.Tensor

    def __init__(self, painter: nn.Module, inputs: int, picture: tuple[int, int, int]) -> None:
        super().__init__()
        self.painter, self.picture = painter, picture
        last = nn.Linear(HIDDEN, 2 * POINTS**2 + 6)
        nn.init.zeros_(last.bias)
        last.weight.data.mul_(0.3)  # it begins by bending little
        self.bending = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), last)
        down, across = (torch.linspace(-1, 1, side) for side in picture[:2])
        self.register_buffer("places", torch.stack(torch.meshgrid(across, down, indexing="xy"), dim=-1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        height, width, channels = self.picture
        painted = self.painter(inputs).float().view(-1, height, width, channels).permute(0, 3, 1, 2)
        moves, linear = self.bending(inputs).float().tanh().split([2 * POINTS**2, 6], dim=1)
        smooth = functional.interpolate(
            FARTHEST * moves.view(-1, 2, POINTS, POINTS), size=(height, width), mode="bicubic", align_corners=True
        )
        matrix, shift = STRONGEST * linear[:, :4].view(-1, 2, 2), STRONGEST * linear[:, 4:]
        leaning = torch.einsum("nij,hwj->nhwi", matrix, self.places) + shift[:, None, None]
        found = self.places + smooth.permute(0, 2, 3, 1) + leaning
        bent = functional.grid_sample(painted, found, mode="bilinear", padding_mode="border", align_corners=True)
        return bent.permute(0, 2, 3, 1).flatten(1)
