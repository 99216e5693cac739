"""Networks that turn noise and a class into a record in [0, 1]^d. Post-processing: they only ever see released numbers.

`conv` puts its width where a CPU is quick: two matrix products make a quarter-size picture, two transposed
convolutions finish it. `wide` is the same half as wide again, with twice the hidden numbers. `warped` bends what a
`wide` network painted (`warping`). `dcgan` is the paper's
set-up (latent 10; 256, 128 and 64 channels, batch norm, ReLU, Tanh), far slower on a CPU. `mlp` serves vectors and
pictures of other sizes.
Reference. Jiang, Sun & Yu 2023, section 5 (architecture); Radford et al. 2016 (DCGAN).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from understudy.pipelines.methods.kernel.warping import Warped

Architecture = Literal["warped", "conv", "wide", "dcgan", "mlp"]


@dataclass(frozen=True)
class Shape:
    """Of a record: height, width and channels of a picture, or a plain number of values."""

    values: int
    picture: tuple[int, int, int] | None = None

    @property
    def has_convolutions(self) -> bool:
        """Whether the convolutional generators know how to make it: 28 or 32 pixels a side, 1 or 3 channels."""
        return self.picture is not None and self.picture[:2] in ((28, 28), (32, 32)) and self.picture[2] in (1, 3)


class Generator(nn.Module):
    """One network for all classes (the class is part of its input), or one for each."""

    def __init__(self, architecture: Architecture, shape: Shape, classes: int, latent: int, one_a_class: bool) -> None:
        super().__init__()
        self.classes, self.latent, self.one_a_class = classes, latent, one_a_class
        inputs = latent if one_a_class else latent + classes
        networks = classes if one_a_class else 1
        self.networks = nn.ModuleList(_network(architecture, shape, inputs) for _ in range(networks))

    def forward(self, labels: torch.Tensor, source: torch.Generator | None = None) -> torch.Tensor:
        """Records (n, values) of these classes; those of a class need not be together."""
        noise = torch.randn(len(labels), self.latent, device=labels.device, generator=source)
        if not self.one_a_class:
            inputs = torch.cat([noise, functional.one_hot(labels, self.classes).to(noise.dtype)], 1)
            records: torch.Tensor = self.networks[0](inputs)
            return records
        order = torch.argsort(labels, stable=True)
        counts = torch.bincount(labels, minlength=self.classes).tolist()
        shares = zip(self.networks, torch.split(noise, counts), strict=True)
        parts = [network(share) for network, share in shares if len(share)]
        return torch.cat(parts)[torch.argsort(order)]

    @torch.no_grad()
    def sample(self, labels: torch.Tensor, batch: int = 1000, source: torch.Generator | None = None) -> torch.Tensor:
        """Records of these classes, with the statistics that batch norm gathered in training."""
        trains = self.training
        if trains:  # else it may be sampled by several threads, none of which may change it
            self.eval()
        made = [self(labels[start : start + batch], source).cpu() for start in range(0, len(labels), batch)]
        if trains:
            self.train()
        return torch.cat(made)


def _network(architecture: Architecture, shape: Shape, inputs: int) -> nn.Module:
    if architecture == "mlp":
        return nn.Sequential(*_dense(inputs, 300), *_dense(300, 300), nn.Linear(300, shape.values), nn.Sigmoid())
    if not shape.has_convolutions or shape.picture is None:
        raise ValueError("convolutional generators make pictures of 28 or 32 pixels with 1 or 3 channels")
    side, _, channels = shape.picture
    if architecture == "dcgan":
        return _dcgan(inputs, side, channels)
    if architecture == "warped":
        painter = _conv(inputs, side, channels, hidden=512, coarse=48, fine=12, last=_ToBounds())
        return Warped(painter, inputs, shape.picture)
    if architecture == "wide":
        return _conv(inputs, side, channels, hidden=512, coarse=48, fine=12)
    return _conv(inputs, side, channels, hidden=256, coarse=32, fine=8)


def _dense(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()


def _conv(
    inputs: int, side: int, channels: int, hidden: int, coarse: int, fine: int, last: nn.Module | None = None
) -> nn.Module:
    quarter = side // 4
    return nn.Sequential(
        *_dense(inputs, hidden),
        *_dense(hidden, coarse * quarter * quarter),
        nn.Unflatten(1, (coarse, quarter, quarter)),
        *(nn.ConvTranspose2d(coarse, fine * channels, 6, 2, 2), nn.BatchNorm2d(fine * channels), nn.ReLU()),
        *(nn.ConvTranspose2d(fine * channels, channels, 6, 2, 2), last or nn.Sigmoid()),
        _ChannelsLast(),
    )


def _dcgan(inputs: int, side: int, channels: int) -> nn.Module:
    first = 4 if side == 32 else 7
    layers: list[nn.Module] = [
        nn.Unflatten(1, (inputs, 1, 1)),
        *(nn.ConvTranspose2d(inputs, 256, first, 1, 0), nn.BatchNorm2d(256), nn.ReLU()),
    ]
    if side == 32:
        layers += [nn.ConvTranspose2d(256, 128, 4, 2, 1), nn.BatchNorm2d(128), nn.ReLU()]
        layers += [nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.BatchNorm2d(64), nn.ReLU()]
    else:
        layers += [nn.ConvTranspose2d(256, 64, 4, 2, 1), nn.BatchNorm2d(64), nn.ReLU()]
    layers += [nn.ConvTranspose2d(64, channels, 4, 2, 1), nn.Tanh(), _FromTanh(), _ChannelsLast()]
    return nn.Sequential(*layers)


class _FromTanh(nn.Module):
    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (values + 1) / 2


class _ToBounds(nn.Module):
    """A sigmoid that reaches 0 and 1: a background is black, not nearly so."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (1.2 * torch.sigmoid(values) - 0.1).clamp(0, 1)


class _ChannelsLast(nn.Module):
    """Pictures are stored row by row, a pixel's channels together."""

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return pictures.permute(0, 2, 3, 1).flatten(1)
