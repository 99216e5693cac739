"""Sources of words for tests. Production has one source, the operating system's; these replace it by injection."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.pipelines.auditing.words import ReplayedWords

__all__ = ["ReplayedWords", "SeededWords"]


class SeededWords:
    """Reproducible words, so that statistical tests cannot flake."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def words(self, count: int) -> np.ndarray:
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)


@pytest.fixture
def seeded() -> type[SeededWords]:
    return SeededWords


@pytest.fixture
def replayed() -> type[ReplayedWords]:
    return ReplayedWords
