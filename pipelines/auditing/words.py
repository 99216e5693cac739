"""Words that are the same twice, for two releases of made tables whose every other difference is to be seen.

They never reach a private table: the one door (`privacy.ledger.spend`) takes its randomness from the operating system,
and this room opens no source (a test reads its imports).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np


class ReplayedWords:
    """The n-th call returns a prefix of the n-th stream, however many words it asks for; `calls` says how many."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.calls: list[int] = []

    def words(self, count: int) -> np.ndarray:
        stream = np.random.default_rng((self._seed, len(self.calls)))
        self.calls.append(count)
        return stream.integers(0, 2**64, count, dtype=np.uint64)


class StreamedWords:
    """One stream, for many releases of which no two are compared."""

    def __init__(self, seed: int) -> None:
        self._stream = np.random.default_rng(seed)

    def words(self, count: int) -> np.ndarray:
        return self._stream.integers(0, 2**64, count, dtype=np.uint64)


def with_words(noise: Any) -> Any:
    """The noise with the rounded sampler, also where it holds others: OpenDP's takes no words but its own. Of a replay
    only the exact numbers below the noise are judged, by the noise that is charged."""
    given: dict[str, Any] = {}
    for field in fields(noise):
        value = getattr(noise, field.name)
        if field.name == "sampler" and value == "opendp":
            given[field.name] = "rounded"
        elif is_dataclass(value) and hasattr(value, "draw"):
            given[field.name] = with_words(value)
    return replace(noise, **given) if given else noise


@contextmanager
def same_copies(seed: int) -> Iterator[None]:
    """Within, generators that nobody seeded are seeded: fitting a copy to released numbers, as adaptive rounds do, is
    random post-processing, and two fits must not differ by more than what was released."""
    fresh, made = np.random.default_rng, 0

    def seeded(given: Any = None) -> np.random.Generator:
        nonlocal made
        made += given is None
        return fresh((seed, made) if given is None else given)

    np.random.default_rng = seeded  # type: ignore[assignment]
    try:
        yield
    finally:
        np.random.default_rng = fresh
