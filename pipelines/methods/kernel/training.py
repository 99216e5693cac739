"""Training a generator against released embeddings. Post-processing: retry it, repeat it, stop it; nothing is spent.

The loss of a step is the unbiased squared distance (up to a constant) between the mean embedding of M generated
records and the released one, in a few blocks of features and averaged over classes by their shares:

    |mean phi(y)|^2 M/(M-1) - 2 <mean phi(y), s>

Gradients flow through phi(generated records) alone; s is a constant that was drawn with its noise beforehand. With
enormous noise the direction of a step therefore has nothing to do with the private rows (tested), unlike in the
paper's public code, which multiplies the exact private gradient by a noisy number. The paper's other term, the
released function at the private points, does not depend on the generator and is dropped.

Checkpoints hold released state only: weights, optimiser and step. A killed run goes on from the last one.
"""

from __future__ import annotations

import math
import os
import pickle
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from understudy.pipelines.methods.base import Progress
from understudy.pipelines.methods.kernel.embedding import ReleasedEmbedding
from understudy.pipelines.methods.kernel.generators import Architecture, Generator, Shape
from understudy.pipelines.privacy.ledger.fault_points import fault_point

CACHED_FREQUENCIES = 1 << 26
"""Frequencies kept in memory (256 MB); those of more blocks are made anew for each step."""
CHECKPOINT_SECONDS = 20.0


@dataclass(frozen=True)
class TrainingPlan:
    """How the generator is trained. All of it is post-processing."""

    architecture: Architecture
    steps: int = 1500
    batch: int = 500
    rate: float = 2e-3
    latent: int = 10
    blocks_a_step: int = 2
    one_a_class: bool = False
    device: str = "cpu"


class Trainer:
    """Holds a generator and its optimiser between steps."""

    def __init__(self, embedding: ReleasedEmbedding, shape: Shape, plan: TrainingPlan, seed: int) -> None:
        self.embedding, self.plan = embedding, plan
        self.done = 0
        torch.manual_seed(seed)
        design = embedding.design
        self.generator = Generator(plan.architecture, shape, design.classes, plan.latent, plan.one_a_class)
        self.generator.to(plan.device)
        self.optimiser = torch.optim.Adam(self.generator.parameters(), lr=plan.rate, betas=(0.5, 0.9))
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, plan.steps, plan.rate / 50)
        self._weights = _class_weights(embedding).to(plan.device)
        self._live = torch.nonzero(self._weights).flatten()
        self._cache: dict[int, torch.Tensor] = {}

    def step(self) -> float:
        """One update; returns the estimated squared distance to the released embedding (noise included)."""
        design, plan = self.embedding.design, self.plan
        each = max(2, plan.batch // len(self._live))
        labels = self._live.repeat(each)
        blocks = torch.randint(design.blocks, (min(plan.blocks_a_step, design.blocks),)).tolist()
        frequencies = torch.cat([self._frequencies(block) for block in blocks], dim=1)
        targets = [self._target(block) for block in blocks]
        cosines, sines = (torch.cat(part, dim=1) for part in zip(*targets, strict=True))
        scale = 1 / math.sqrt(frequencies.shape[1])
        with torch.autocast(plan.device, torch.bfloat16, enabled=plan.device == "cuda"):
            records = self.generator(labels)
        phases = records.float() @ frequencies
        weights = self._weights[self._live]
        loss = torch.zeros((), device=plan.device)
        size = torch.zeros((), device=plan.device)
        for features, target in ((phases.cos(), cosines), (phases.sin(), sines)):
            means = features.view(each, len(self._live), -1).mean(dim=0) * scale
            wanted = target[self._live] / math.sqrt(len(blocks))
            gap = means.square().sum(dim=1) * (each / (each - 1)) - 2 * (means * wanted).sum(dim=1)
            loss = loss + (weights * gap).sum()
            size = size + (weights * wanted.square().sum(dim=1)).sum()
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        self.optimiser.step()
        self.schedule.step()
        self.done += 1
        # Features have norm 1, so M/(M-1) times the mean square of a batch is too large by exactly 1/(M-1).
        return float(loss.detach() + size - weights.sum() / (each - 1))

    def state(self) -> dict[str, object]:
        return {
            "done": self.done,
            "generator": self.generator.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random": torch.get_rng_state(),
        }

    def restore(self, state: dict[str, object]) -> None:
        self.generator.load_state_dict(state["generator"])  # type: ignore[arg-type]
        self.optimiser.load_state_dict(state["optimiser"])  # type: ignore[arg-type]
        self.schedule.load_state_dict(state["schedule"])  # type: ignore[arg-type]
        torch.set_rng_state(state["random"])  # type: ignore[arg-type]
        self.done = int(state["done"])  # type: ignore[call-overload]

    def _frequencies(self, block: int) -> torch.Tensor:
        if block not in self._cache:
            features = self.embedding.design.features
            made = torch.from_numpy(features.float_frequencies(block)).to(self.plan.device)
            if (len(self._cache) + 1) * made.numel() > CACHED_FREQUENCIES:
                return made
            self._cache[block] = made
        return self._cache[block]

    def _target(self, block: int) -> tuple[torch.Tensor, torch.Tensor]:
        mean = torch.from_numpy(self.embedding.block(block).astype(np.float32)).to(self.plan.device)
        cosines, sines = mean.chunk(2, dim=1)
        return cosines, sines


def train(
    embedding: ReleasedEmbedding,
    shape: Shape,
    plan: TrainingPlan,
    seed: int,
    progress: Progress,
    checkpoint: Path | None = None,
) -> Generator:
    """A trained generator; with a checkpoint, one that survives being killed."""
    trainer = Trainer(embedding, shape, plan, seed)
    if checkpoint is not None and (state := saved_state(checkpoint)) is not None:
        trainer.restore(state)
    saved, loss = time.monotonic(), math.nan
    while trainer.done < plan.steps:
        found = trainer.step()
        loss = found if math.isnan(loss) else 0.95 * loss + 0.05 * found
        progress(trainer.done, plan.steps, f"step {trainer.done:,} of {plan.steps:,}, loss {loss:.4f}")
        due = time.monotonic() - saved > CHECKPOINT_SECONDS or trainer.done == plan.steps // 2
        if checkpoint is not None and due:
            save(trainer.state(), checkpoint)
            saved = time.monotonic()
            fault_point("training_checkpointed")
    if checkpoint is not None:
        save(trainer.state(), checkpoint)
    return trainer.generator


def save(state: dict[str, object], path: Path) -> None:
    """Whole or not at all: a run killed while writing leaves the checkpoint before it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")  # two runs of one release may train at the same time
    torch.save(state, partial)
    partial.replace(path)


def saved_state(path: Path) -> dict[str, object] | None:
    """The checkpoint, or None if there is none that can be read: training from the start costs time only."""
    try:
        state: dict[str, object] = torch.load(path, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
        return None
    return state


def device_named(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name


def _class_weights(embedding: ReleasedEmbedding) -> torch.Tensor:
    """Equal weights of the classes that stand out of their noise; a class that does not is not trained on."""
    known = embedding.standing_out
    if not known.any():
        known = np.ones(len(embedding.sizes), dtype=bool)
    return torch.from_numpy((known / known.sum()).astype(np.float32))
