"""Mechanisms for tests of the protocol: they cost what they are told and draw what they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.mechanism import Mechanism

Draw = Callable[[Any], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Recipe:
    event: Event
    recipe: Draw

    def draw(self, exact: None, randomness: Any) -> dict[str, np.ndarray]:
        return self.recipe(randomness)


def mechanism_of(event: Event, recipe: Draw, facts: dict[str, Any] | None = None) -> Mechanism[None]:
    return Mechanism(Recipe(event, recipe), None, "counts", {} if facts is None else facts)
