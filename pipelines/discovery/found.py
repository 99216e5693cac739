"""What was released about one column, in units of people or rows, and what of it stands above the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from understudy.pipelines.discovery.grid import FINE_CELLS, MISSING, WORD, ZERO, Masses
from understudy.pipelines.discovery.mechanism import shown_values
from understudy.pipelines.discovery.rules import CLOSINGS, VERSION, Rules
from understudy.pipelines.discovery.tally import COARSE, FINE, UNITS, VALUES, question_name
from understudy.pipelines.privacy.measurement import Measurement

SURE = 5.0
"""Standard deviations by which a cell must stand above zero to count as occupied: of 1,400 cells, 0.0004 by chance."""
BESIDE = 3.0
"""The same for an octave or year beside one that is occupied: tails thin out, and do not lie alone."""
LIKELY = 2.0
REACHED = 3.0
"""The same for all cells together that lie beyond, up to one of them."""


@dataclass(frozen=True, eq=False)
class Found:
    """Noisy sums about a column, divided by what one unit gives; stds likewise. What was not asked is None."""

    units: float
    units_std: float
    values: Mapping[str, float]
    coarse: np.ndarray | None = None
    coarse_std: float = 0.0
    fine: np.ndarray | None = None
    fine_std: float = 0.0
    rules: Rules = CLOSINGS[VERSION]

    @property
    def masses(self) -> Masses:
        assert self.coarse is not None
        return Masses(self.coarse, np.zeros(FINE_CELLS) if self.fine is None else self.fine)

    @property
    def sure(self) -> Masses:
        """The coarse cells that are occupied beyond doubt; others are zero."""
        masses = self.masses
        strong = masses.coarse > SURE * self.coarse_std
        if self.rules.further:
            here = Masses(strong, masses.fine)
            for occupied, noisy in ((here.numbers, masses.numbers), (here.years, masses.years)):
                for line in np.ndindex(occupied.shape[:-1]):
                    _reach_out(occupied[line], noisy[line], self.coarse_std, self.rules.further)
            return Masses(np.where(strong, np.maximum(masses.coarse, 0.0), 0.0), masses.fine)
        likely = masses.coarse > BESIDE * self.coarse_std
        here, there = Masses(strong, masses.fine), Masses(likely, masses.fine)
        for occupied, thin in ((here.numbers, there.numbers), (here.years, there.years)):
            beside = np.zeros_like(occupied)
            beside[..., 1:] |= occupied[..., :-1]
            beside[..., :-1] |= occupied[..., 1:]
            occupied |= beside & thin
        return Masses(np.where(strong, masses.coarse, 0.0), masses.fine)

    @property
    def zero(self) -> float:
        return float(self.sure.coarse[ZERO])

    @property
    def words(self) -> float:
        return float(self.sure.coarse[WORD])

    @property
    def present(self) -> float:
        """How many have a value that is not missing, as far as that was asked."""
        if self.coarse is None:
            return self.units
        return self.units - float(self.coarse[MISSING])

    @property
    def present_std(self) -> float:
        return math.hypot(self.units_std, self.coarse_std)

    def lacks_some(self, also_words: bool) -> bool:
        """Whether rows seem to be missing, or cannot be read."""
        cells = [MISSING, WORD] if also_words else [MISSING]
        amount = float(self.masses.coarse[cells].sum())
        return amount > LIKELY * self.coarse_std * math.sqrt(len(cells))

    def with_more(self, later: Found) -> Found:
        """The same with what a second round found: more values, and where numbers lie."""
        values = {**self.values, **later.values}
        coarse, coarse_std = self._coarse_with(later)
        return replace(
            self,
            values=dict(sorted(values.items(), key=lambda one: (-one[1], one[0]))),
            coarse=coarse,
            coarse_std=coarse_std,
            fine=later.fine,
            fine_std=later.fine_std,
        )

    def _coarse_with(self, later: Found) -> tuple[np.ndarray | None, float]:
        """The coarse sums that are known after both rounds, and their noise: each round counts by its own."""
        if later.coarse is None:
            return self.coarse, self.coarse_std
        if self.coarse is None or not self.rules.both_rounds:
            return later.coarse, later.coarse_std
        whole = self.coarse_std**2 + later.coarse_std**2
        joined = (self.coarse * later.coarse_std**2 + later.coarse * self.coarse_std**2) / whole
        return joined, self.coarse_std * later.coarse_std / math.sqrt(whole)


def _reach_out(occupied: np.ndarray, noisy: np.ndarray, std: float, further: int) -> None:
    """Add, beyond the outermost cells that are occupied, those that together hold more than noise explains: tails thin
    out, and what no cell shows by itself several do."""
    there = np.flatnonzero(occupied)
    if not len(there):
        return
    for start, step in ((int(there[0]), -1), (int(there[-1]), 1)):
        beyond = noisy[start + step :: step] if start + step >= 0 else noisy[:0]
        sums = np.cumsum(beyond[:further])
        reached = np.flatnonzero(sums > REACHED * std * np.sqrt(np.arange(1, len(sums) + 1)))
        if len(reached):
            last = start + step * (int(reached[-1]) + 1)
            occupied[min(start, last) : max(start, last) + 1] = True


def found_of(measured: Measurement, place: int, rules: Rules) -> Found:
    """What the measurement says of the column at this place."""
    facts, arrays = measured.facts, measured.arrays
    grain, stds = float(facts["grain"]), {name: float(std) for name, std in facts["stds"].items()}
    values, coarse, fine = (question_name(place, about) for about in (VALUES, COARSE, FINE))
    shown = shown_values(arrays, values) if values in arrays else {}
    return Found(
        max(1.0, float(arrays[UNITS][0]) / grain),
        stds[UNITS] / grain,
        {text: amount / grain for text, amount in shown.items()},
        arrays[coarse] / grain if coarse in arrays else None,
        stds.get(coarse, 0.0) / grain,
        arrays[fine] / grain if fine in arrays else None,
        stds.get(fine, 0.0) / grain,
        rules,
    )
