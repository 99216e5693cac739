"""A measurement: what a charge bought. Noisy arrays and public facts about them; safe to keep, copy and reuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


class Stored(Protocol):
    """A place that holds one measurement: reading it again gives the same numbers and costs nothing."""

    def read(self) -> Measurement: ...


@dataclass(frozen=True)
class Measurement:
    """Released numbers. `facts` is JSON-able and public; `arrays` hold what the mechanism drew, by name."""

    kind: str
    facts: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    stored: Stored | None = field(default=None, repr=False, compare=False)

    def read(self) -> Measurement:
        return self

    def shelved(self) -> Stored:
        """What to hold on to instead of the numbers: the place they are stored in, or themselves if there is none."""
        return self.stored or self
