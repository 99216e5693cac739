"""Frechet distance between two sets of pictures, in the features of a network of your choice.

Internal evaluation only: a distance to real rows is itself an output of the private data, never published or gating.

Theorem. Two Gaussians with means m, n and covariances A, B lie |m - n|^2 + tr(A + B - 2 (A^(1/2) B A^(1/2))^(1/2))
  apart in squared Wasserstein-2 distance (Dowson & Landau 1982); features of both sets are treated as Gaussian
  (Heusel et al. 2017).
Comparable only between figures of one extractor: the ready one is a small network of our own, trained on the real
training pictures; Inception or DINOv2 come as a file saved with torch.export that the user gives.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

Extractor = Callable[[np.ndarray], np.ndarray]
"""Pictures (n, height, width, channels) in [0, 1] to features (n, width)."""


def frechet_distance(real: np.ndarray, made: np.ndarray) -> float:
    """Squared distance of the Gaussians fitted to two sets of features."""
    if min(len(real), len(made)) < 2:
        raise ValueError("a covariance needs at least two records on either side")
    gap = np.square(real.mean(axis=0, dtype=np.float64) - made.mean(axis=0, dtype=np.float64)).sum()
    first = np.atleast_2d(np.cov(real.astype(np.float64).T))
    second = np.atleast_2d(np.cov(made.astype(np.float64).T))
    root = _root(first)
    middle = np.linalg.eigvalsh(root @ second @ root)
    cross = np.sqrt(np.maximum(middle, 0.0)).sum()
    return float(max(0.0, gap + np.trace(first) + np.trace(second) - 2 * cross))


def trained_extractor(pictures: np.ndarray, labels: np.ndarray, classes: int, seed: int = 0) -> Extractor:
    """The last hidden layer of the classifier of `classifiers`, trained on these pictures (n, height, width)."""
    import torch

    from benchmarks.papers.classifiers import Training, train_cnn

    model = train_cnn(pictures, labels, classes, seed, Training(epochs=2))
    body = torch.nn.Sequential(*list(model.children())[:-1]).eval()
    return _torch_extractor(body)


def extractor_from_file(path: Path) -> Extractor:
    """A network saved with torch.export, its batch size dynamic, for floats (n, channels, height, width) in [0, 1]."""
    import torch

    return _torch_extractor(torch.export.load(path).module())


def _torch_extractor(network: object) -> Extractor:
    import torch

    assert isinstance(network, torch.nn.Module)

    def features(pictures: np.ndarray) -> np.ndarray:
        found = []
        with torch.no_grad():
            for start in range(0, len(pictures), 500):
                block = torch.from_numpy(np.ascontiguousarray(pictures[start : start + 500], dtype=np.float32))
                found.append(network(block.permute(0, 3, 1, 2)).flatten(1).numpy())
        return np.concatenate(found)

    return features


def _root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric square root; eigenvalues that rounding made negative count as zero."""
    values, vectors = np.linalg.eigh(covariance)
    root: np.ndarray = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
