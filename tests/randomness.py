"""Sources of words for tests. Production has one source, the operating system's; these replace it by injection."""

from __future__ import annotations

import numpy as np
import pytest


class SeededWords:
    """Reproducible words, so that statistical tests cannot flake."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def words(self, count: int) -> np.ndarray:
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)


class ReplayedWords:
    """The n-th call returns a prefix of the n-th stream, however many words it asks for.

    Two runs whose calls come in the same order then share their randomness call by call, which is what a neighbour
    replay needs; `calls` records the control flow.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.calls: list[int] = []

    def words(self, count: int) -> np.ndarray:
        stream = np.random.default_rng((self._seed, len(self.calls)))
        self.calls.append(count)
        return stream.integers(0, 2**64, count, dtype=np.uint64)


@pytest.fixture
def seeded() -> type[SeededWords]:
    return SeededWords


@pytest.fixture
def replayed() -> type[ReplayedWords]:
    return ReplayedWords
