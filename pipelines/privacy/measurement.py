"""A measurement: what a charge bought. Noisy arrays and public facts about them; safe to keep, copy and reuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Measurement:
    """Released numbers. `facts` is JSON-able and public; `arrays` hold what the mechanism drew, by name."""

    kind: str
    facts: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
