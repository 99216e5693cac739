"""What releases of a long run found, kept in a file as they come, so that a run that stopped goes on from there."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

Found = Mapping[str, tuple[float, ...]]
"""By kind of question in one release: intervals, those that held the truth, those that end, and the sums of the widths
of the latter and of asking alone."""


@dataclass
class Kept:
    """One line a release. `of` says what all lines of a file have to be of: others are not counted."""

    of: str
    path: Path | None = None
    found: dict[tuple[str, str], list[Found]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            for line in self.path.read_text().splitlines():
                told = json.loads(line)
                if told["of"] == self.of:
                    self.found[told["set"], told["epsilon"]].append({k: tuple(v) for k, v in told["found"].items()})

    def releases(self, name: str, epsilon: str) -> int:
        return len(self.found[name, epsilon])

    def add(self, name: str, epsilon: str, found: Found) -> None:
        self.found[name, epsilon].append(found)
        if self.path is not None:
            line = {"of": self.of, "set": name, "epsilon": epsilon, "found": found}
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def pooled(self, names: tuple[str, ...], epsilons: tuple[str, ...]) -> dict[str, Pooled]:
        releases = [each for name in names for epsilon in epsilons for each in self.found[name, epsilon]]
        kinds = dict.fromkeys(kind for each in releases for kind in each)
        return {kind: Pooled(np.array([each[kind] for each in releases if kind in each])) for kind in kinds}


@dataclass(frozen=True, eq=False)
class Pooled:
    """The lines of one kind, [release, 5]."""

    lines: np.ndarray

    @property
    def held(self) -> float:
        return float(self.lines[:, 1].sum() / self.lines[:, 0].sum())

    @property
    def error(self) -> float:
        """The standard error of `held`: answers of one release go together, releases do not."""
        off = self.lines[:, 1] - self.held * self.lines[:, 0]
        return math.sqrt(float(np.square(off).sum())) / float(self.lines[:, 0].sum())

    @property
    def width(self) -> float:
        return float(self.lines[:, 3].sum() / self.lines[:, 2].sum())

    @property
    def alone(self) -> float:
        return float(self.lines[:, 4].sum() / self.lines[:, 2].sum())
