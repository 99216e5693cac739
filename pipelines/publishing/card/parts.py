"""What a card is drawn from: public values only. The manifest, synthetic rows, and noisy numbers that were paid for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from understudy.pipelines.counting.copies import counts_of
from understudy.pipelines.publishing.likeness import Likeness, likenesses
from understudy.pipelines.publishing.manifest import Manifest, NoiseFact
from understudy.pipelines.publishing.samples import THUMBNAIL, picture_classes, picture_column
from understudy.pipelines.table.synthetic import Synthetic


@dataclass(frozen=True)
class MeasuredColumn:
    """A column's noisy one-way shares, and the standard deviation of each."""

    shares: np.ndarray
    std: float


@dataclass(frozen=True, eq=False)
class CardTable:
    """One table of a release; one that is alone has no name."""

    name: str
    synthetic: Synthetic
    measured: Mapping[str, MeasuredColumn]

    def called(self, column: str) -> str:
        """As the manifest calls a column."""
        return f"{self.name}.{column}" if self.name else column

    @cached_property
    def shares(self) -> list[np.ndarray]:
        """The synthetic shares of every code of every column."""
        counted = counts_of(self.synthetic, [(place,) for place in range(len(self.synthetic.domain.columns))])
        return [counts / max(1.0, float(counts.sum())) for counts in counted]

    @cached_property
    def likenesses(self) -> tuple[Likeness, ...]:
        """Of the shown pictures, by class; none for a table without pictures."""
        shown, domain = self.synthetic.shown, self.synthetic.domain
        tensor = picture_column(shown, domain)
        if tensor is None:
            return ()
        return likenesses(shown.column(tensor.name), tensor, picture_classes(shown, domain))


@dataclass(frozen=True, eq=False)
class CardParts:
    """`shows` says of pairs, called as in the manifest, whether their dependence stands out of its noise."""

    manifest: Manifest
    tables: tuple[CardTable, ...]
    shows: Mapping[str, bool | None] = field(default_factory=dict)

    @cached_property
    def noise(self) -> dict[str, NoiseFact]:
        return {fact.query: fact for fact in self.manifest.noise}

    def pair_noise(self, one: str, other: str) -> NoiseFact | None:
        return self.noise.get(f"{one} x {other}") or self.noise.get(f"{other} x {one}")

    def shows_pair(self, one: str, other: str) -> bool | None:
        found = self.shows.get(f"{one} x {other}")
        return self.shows.get(f"{other} x {one}") if found is None else found


@dataclass(frozen=True)
class Detail:
    """How much a card tells in full, so that it stays small."""

    numbers: int
    """Rows of numbers below charts, over all columns."""
    pairs: int
    """Rows in each list of pairs."""
    wide: int
    """Columns of each map of pairs."""
    thumbnail: int = THUMBNAIL
    """Pixels of a picture's longer side."""
