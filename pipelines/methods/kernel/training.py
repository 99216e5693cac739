"""Training a generator against released embeddings. Post-processing: retry it, repeat it, stop it; nothing is spent.

The loss of a step is the unbiased squared distance (up to a constant) between the mean embedding of M generated
records and the released one, in a few blocks of features and averaged over classes by their shares:

    |mean phi(y)|^2 M/(M-1) - 2 <mean phi(y), s>

Gradients flow through phi(generated records) alone; s is a constant that was drawn with its noise beforehand. With
enormous noise the direction of a step therefore has nothing to do with the private rows (tested), unlike in the
paper's public code, which multiplies the exact private gradient by a noisy number. The paper's other term, the
released function at the private points, does not depend on the generator and is dropped.

With `metric: whitened` the first steps are the same; then the distance is weighted by how well each direction is known
(`whitening`), and a running average of the weights is what is kept.

Checkpoints hold released state only: weights, optimiser and step. A killed run goes on from the last one.
"""

from __future__ import annotations

import math
import os
import pickle
import time
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from understudy.pipelines.methods.base import Progress
from understudy.pipelines.methods.kernel.embedding import ReleasedEmbedding
from understudy.pipelines.methods.kernel.generated import BlockFeatures, joint_features
from understudy.pipelines.methods.kernel.generators import Architecture, Generator, Shape
from understudy.pipelines.methods.kernel.whitening import Whitening, can_whiten, known_classes
from understudy.pipelines.privacy.ledger.fault_points import fault_point

CACHED_FREQUENCIES = 1 << 26
"""Frequencies kept in memory (256 MB); those of more blocks are made anew for each step."""
CHECKPOINT_SECONDS = 20.0
LOOKS = (0.15, 0.28, 0.49, 0.75)
"""Parts of the training after which the whitening looks at what is generated."""
AVERAGED = 0.98
"""Of the running average of weights at every step."""


@dataclass(frozen=True)
class TrainingPlan:
    """How the generator is trained. All of it is post-processing."""

    architecture: Architecture
    steps: int = 1500
    batch: int = 500
    rate: float = 2e-3
    latent: int = 10
    blocks_a_step: int = 2
    metric: Literal["plain", "whitened"] = "plain"
    one_a_class: bool = False
    device: str = "cpu"


PLAIN = TrainingPlan("conv")
WHITENED = TrainingPlan("wide", steps=1200, latent=32, blocks_a_step=1, metric="whitened")
OF_EDGES = replace(WHITENED, architecture="warped")


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
        self._cache: dict[int, BlockFeatures] = {}
        self._whitening: Whitening | None = None
        self._averaged: Generator | None = None
        self._looked_at: dict[str, Any] = {}
        if plan.metric == "whitened" and can_whiten(embedding):
            self._whitening = Whitening(embedding, self._live)
            self._averaged = deepcopy(self.generator).eval().requires_grad_(False)

    @property
    def finished(self) -> Generator:
        """What is kept at the end."""
        return self.generator if self._averaged is None else self._averaged

    def step(self) -> float:
        """One update; returns the estimated squared distance to the released embedding (noise included)."""
        if self.done in self._looks:
            self._look(deepcopy(self.finished))
        whitening = self._whitening
        loss, distance = self._whitened(whitening) if whitening is not None and whitening.means else self._plain()
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        self.optimiser.step()
        self.schedule.step()
        self.done += 1
        self._average()
        return distance

    def _plain(self) -> tuple[torch.Tensor, float]:
        design, plan = self.embedding.design, self.plan
        each = max(2, plan.batch // len(self._live))
        labels = self._live.repeat(each)
        blocks = torch.randint(design.blocks, (min(plan.blocks_a_step, design.blocks),)).tolist()
        wanted = torch.cat([self._target(block) for block in blocks], dim=1)[self._live] / math.sqrt(len(blocks))
        with torch.autocast(plan.device, torch.bfloat16, enabled=plan.device == "cuda"):
            records = self.generator(labels)
        features = joint_features([self._features(block) for block in blocks], records)
        means = features.view(each, len(self._live), -1).mean(dim=0)
        weights = self._weights[self._live]
        gap = means.square().sum(dim=1) * (each / (each - 1)) - 2 * (means * wanted).sum(dim=1)
        loss = (weights * gap).sum()
        # Features have norm 1, so M/(M-1) times the mean square of a batch is too large by exactly 1/(M-1).
        size = (weights * wanted.square().sum(dim=1)).sum()
        return loss, float(loss.detach() + size - weights.sum() / (each - 1))

    def _whitened(self, whitening: Whitening) -> tuple[torch.Tensor, float]:
        """Blocks in turn, one a step."""
        each = max(2, self.plan.batch // len(self._live))
        block = self.done % self.embedding.design.blocks
        with torch.autocast(self.plan.device, torch.bfloat16, enabled=self.plan.device == "cuda"):
            records = self.generator(self._live.repeat(each))
        found = self._features(block)(records).view(each, len(self._live), -1).mean(dim=0)
        wanted = self._target(block)[self._live]
        loss = (self._weights[self._live] * whitening.distance(block, found, wanted)).sum()
        return loss, float(loss.detach())

    @property
    def _looks(self) -> set[int]:
        if self._whitening is None:
            return set()
        return {round(part * self.plan.steps) for part in LOOKS}

    def _look(self, generator: Generator) -> None:
        """Its own randomness, so that a resumed run sees the same records."""
        assert self._whitening is not None
        self._whitening.look(generator, self._features, self.embedding.design.blocks, self.done)
        self._looked_at = {"generator": generator.state_dict(), "done": self.done}

    def _average(self) -> None:
        if self._averaged is None:
            return
        kept = min(AVERAGED, self.done / (9 + self.done))
        pairs = zip(self._averaged.state_dict().values(), self.generator.state_dict().values(), strict=True)
        for average, latest in pairs:
            if average.dtype.is_floating_point:
                average.lerp_(latest, 1 - kept)
            else:
                average.copy_(latest)

    def state(self) -> dict[str, object]:
        whitening: dict[str, object] = {}
        if self._whitening is not None and self._averaged is not None:
            whitening = {"averaged": self._averaged.state_dict()}
            if self._looked_at:
                whitening |= {"looked_at": self._looked_at, "means": self._whitening.means}
        return {
            **whitening,
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
        if self._averaged is not None:
            self._averaged.load_state_dict(state["averaged"])  # type: ignore[arg-type]
        if self._whitening is not None and "looked_at" in state and int(state["done"]) < self.plan.steps:  # type: ignore[call-overload]
            looked_at: Any = state["looked_at"]
            generator = deepcopy(self.finished)
            generator.load_state_dict(looked_at["generator"])
            self.done = int(looked_at["done"])
            self._look(generator)
            self._whitening.means = list(state["means"])  # type: ignore[call-overload]
        torch.set_rng_state(state["random"])  # type: ignore[arg-type]
        self.done = int(state["done"])  # type: ignore[call-overload]

    def _features(self, block: int) -> BlockFeatures:
        if block not in self._cache:
            made = BlockFeatures(self.embedding.design.features, block).to(self.plan.device)
            if (len(self._cache) + 1) * made.numbers > CACHED_FREQUENCIES:
                return made
            self._cache[block] = made
        return self._cache[block]

    def _target(self, block: int) -> torch.Tensor:
        return torch.from_numpy(self.embedding.block(block).astype(np.float32)).to(self.plan.device)


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
    return trainer.finished


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
    known = known_classes(embedding).numpy()
    return torch.from_numpy((known / known.sum()).astype(np.float32))
