"""Settings of the generator. None of them can change what was spent: the noise was drawn before any of this
runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.pipelines.methods.privpgd.problem import GenerationError

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class PrivPGDConfig:
    """`particles` None means one per row, at most 100,000; `epochs` 0 leaves all the work to the polish
    sweeps.
    """

    particles: int | None = None
    epochs: int = 4
    batch: int = 6
    directions: int = 4
    direction_pool: int = 16
    quantiles: int = 2048
    bins: int = 4096
    learning_rate: float = 1.0
    redraws: int = 4
    polish_sweeps: int = 12
    device: str = "auto"

    def __post_init__(self) -> None:
        least = {
            "batch": 1,
            "directions": 1,
            "direction_pool": 1,
            "quantiles": 2,
            "bins": 2,
            "epochs": 0,
            "redraws": 0,
            "polish_sweeps": 0,
        }
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise GenerationError(f"{name} must be at least {bound}, not {getattr(self, name)}.")
        if self.particles is not None and self.particles < 1:
            raise GenerationError(f"particles must be at least 1, not {self.particles}.")
        if self.directions > self.direction_pool:
            raise GenerationError("directions used per step cannot exceed direction_pool.")
        if not 0.0 < self.learning_rate <= 1.0:
            raise GenerationError("learning_rate must lie in (0, 1]; 1 moves a particle all the way.")
        if self.device not in DEVICES:
            raise GenerationError(f"device must be one of {DEVICES}, not {self.device!r}.")
