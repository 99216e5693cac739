"""The same transport step as `transport.CpuParticles`, in torch, for CUDA (and for checking one against the
other).

On a GPU a stable sort of the bin numbers is the cheap way to count turns within bins; it gives the very
ranks the histogram gives, so both paths agree up to rounding.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from understudy.pipelines.methods.privpgd.directions import TransportPlan

Float32Array = npt.NDArray[np.float32]


class TorchParticles:
    """Particles [coordinates, rows] on a torch device."""

    def __init__(self, points: Float32Array, plan: TransportPlan, bins: int, device: str) -> None:
        self._device = torch.device(device)
        self._points = torch.as_tensor(points, device=self._device).clone()
        self._plan = plan
        self._bins = bins
        self._quantiles = torch.as_tensor(plan.quantiles, device=self._device)
        self._directions = torch.as_tensor(plan.directions, device=self._device)

    def step(self, chosen: npt.NDArray[np.intp], slices: npt.NDArray[np.intp], rate: float) -> float:
        """As `CpuParticles.step`."""
        plan, loss = self._plan, 0.0
        moves = torch.zeros_like(self._points)
        say = torch.zeros(len(self._points), device=self._device)
        for k, s in enumerate(chosen):
            axes = plan.axes[s, : plan.width[s]].tolist()
            move, squared = self._displacement(int(s), axes, slices[k])
            weight = float(plan.weight[s])
            moves[axes] += weight * move
            say[axes] += weight
            loss += squared / len(chosen)
        moved = say > 0
        self._points[moved] += rate * moves[moved] / say[moved, None]
        self._points.clamp_(0.0, 1.0)
        return loss

    def _displacement(self, s: int, axes: list[int], slices: npt.NDArray[np.intp]) -> tuple[torch.Tensor, float]:
        plan, rows = self._plan, self._points.shape[1]
        here = self._points[axes]
        move, loss = torch.zeros_like(here), 0.0
        turns = torch.arange(rows, device=self._device)
        for r in slices.tolist():
            theta = self._directions[s, r, : len(axes)]
            least, span = float(plan.low[s, r]), float(plan.span[s, r])
            y = theta @ here - least
            bins = (y * (self._bins / span)).long().clamp_(0, self._bins - 1)
            rank = torch.empty_like(turns)
            rank[torch.argsort(bins, stable=True)] = turns
            level = ((rank.double() + 0.5) * (self._quantiles.shape[2] / rows)).long()
            gap = self._quantiles[s, r][level] - least - y
            move += theta[:, None] * gap
            loss += float(gap.square().mean()) / len(slices)
        return move * (len(axes) / len(slices)), loss

    def points(self) -> Float32Array:
        return np.ascontiguousarray(self._points.cpu().numpy())
