"""Classifiers trained on a synthetic set and scored on real test rows: the paper's CNN, and one for tables.

Internal evaluation only: the score against real rows is itself an output of the private data, never published or
gating. Nothing here is on the privacy path, so seeds and torch's generator are fine.
Reference. Saha, Tonoy & Imtiaz, DP-CDA, Table 1 (architecture) and section 4 (Adam, rate 0.001 with a scheduler).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import torch


LOOKS = 16


@dataclass(frozen=True)
class Training:
    """How long, how fast and with what; `smoothing` is label smoothing, useful where records are noisy."""

    epochs: int = 10
    batch: int = 128
    rate: float = 1e-3
    smoothing: float = 0.0
    threads: int = 2
    network: Literal["paper", "residual", "logistic"] = "paper"


def paper_cnn(height: int, width: int, classes: int, channels: int = 1) -> torch.nn.Module:
    """Table 1: two convolutions with batch norm and pooling, two hidden layers of 100 with dropout 0.5."""
    from torch import nn

    flat = 64 * (height // 4) * (width // 4)
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 5, padding=2), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(64), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(flat, 100), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(100, 100), nn.ReLU(), nn.Dropout(0.5), nn.Linear(100, classes)),
    )


def residual_network(classes: int, channels: int = 1) -> torch.nn.Module:
    """Small: three stages of 16, 32 and 64 channels, one residual block each, and a mean over places."""
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()),
                *(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)),
            )
            self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(values) + self.around(values))

    return nn.Sequential(
        *(nn.Conv2d(channels, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes)),
    )


def network_of(training: Training, height: int, width: int, classes: int) -> torch.nn.Module:
    from torch import nn

    if training.network == "logistic":
        return nn.Sequential(nn.Flatten(), nn.Linear(height * width, classes))
    return residual_network(classes) if training.network == "residual" else paper_cnn(height, width, classes)


def train_cnn(
    images: np.ndarray,
    labels: np.ndarray,
    classes: int,
    seed: int,
    training: Training = Training(),
    held_out: tuple[np.ndarray, np.ndarray] | None = None,
) -> torch.nn.Module:
    """Train the network on images of shape (n, height, width); the rate falls to zero as a cosine.

    With `held_out` pictures and labels the weights that did best on them, at one of `LOOKS` looks, are kept.
    """
    import torch

    torch.set_num_threads(training.threads)
    torch.manual_seed(seed)
    # channels last: a third faster on a CPU, same arithmetic
    model = network_of(training, images.shape[1], images.shape[2], classes)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    inputs = torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32)).unsqueeze(1)
    targets = torch.from_numpy(labels.astype(np.int64))
    optimiser = torch.optim.Adam(model.parameters(), lr=training.rate)
    steps = training.epochs * -(-len(labels) // training.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(1, steps))
    loss = torch.nn.CrossEntropyLoss(label_smoothing=training.smoothing)
    model.train()
    looks = {max(1, steps * (look + 1) ** 2 // LOOKS**2) for look in range(LOOKS)} if held_out is not None else set()
    best, kept, done = -1.0, model.state_dict(), 0
    for _ in range(training.epochs):
        order = torch.randperm(len(targets))
        for start in range(0, len(order), training.batch):
            chosen = order[start : start + training.batch]
            if len(chosen) < 2:  # batch norm needs two
                continue
            optimiser.zero_grad()
            loss(model(inputs[chosen].to(memory_format=torch.channels_last)), targets[chosen]).backward()
            optimiser.step()
            schedule.step()
            done += 1
            if held_out is not None and done in looks:
                found = cnn_accuracy(model, *held_out)
                model.train()
                if found > best:
                    best, kept = found, {name: value.clone() for name, value in model.state_dict().items()}
    if held_out is not None:
        model.load_state_dict(kept)
    return model


def cnn_accuracy(model: torch.nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    import torch

    model.eval()
    right = 0
    with torch.no_grad():
        for start in range(0, len(labels), 1000):
            block = torch.from_numpy(np.ascontiguousarray(images[start : start + 1000], dtype=np.float32))
            found = model(block.unsqueeze(1)).argmax(dim=1).numpy()
            right += int((found == labels[start : start + 1000]).sum())
    return right / max(1, len(labels))


def tabular_accuracy(
    train: np.ndarray, train_labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray, seed: int
) -> float:
    """Accuracy on `test` of gradient-boosted trees fitted to `train`."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    if len(np.unique(train_labels)) < 2:
        return float((test_labels == train_labels[0]).mean()) if len(train_labels) else 0.0
    model = HistGradientBoostingClassifier(random_state=seed).fit(train, train_labels)
    return float(model.score(test, test_labels))
