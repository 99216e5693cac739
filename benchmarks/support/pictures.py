"""MNIST and FashionMNIST from their idx files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np

FOLDERS = {"mnist": "mnist", "fashion": "fashion_mnist"}


class Pictures(NamedTuple):
    """Pictures (as bytes of 28 x 28 when loaded) and their classes."""

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_pictures(folder: Path) -> Pictures:
    def read(name: str, header: int) -> np.ndarray:
        with gzip.open(folder / f"{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), dtype=np.uint8, offset=header)

    def images(part: str) -> np.ndarray:
        return read(f"{part}-images-idx3", 16).reshape(-1, 28, 28)

    def labels(part: str) -> np.ndarray:
        return read(f"{part}-labels-idx1", 8).astype(np.int64)

    return Pictures(images("train"), labels("train"), images("t10k"), labels("t10k"))


def held_out(pictures: Pictures) -> Pictures:
    """The last 10,000 training pictures in place of the test pictures, for choices: no test picture is read."""
    images, labels = pictures.images, pictures.labels
    return Pictures(images[:-10_000], labels[:-10_000], images[-10_000:], labels[-10_000:])
