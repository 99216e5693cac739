"""What was released about one column, in units of people or rows, and what of it stands above the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from understudy.pipelines.discovery.grid import FINE_CELLS, MISSING, WORD, ZERO, Masses
from understudy.pipelines.discovery.mechanism import shown_values
from understudy.pipelines.discovery.tally import COARSE, FINE, UNITS, VALUES, question_name
from understudy.pipelines.privacy.measurement import Measurement

SURE = 5.0
"""Standard deviations by which a cell must stand above zero to count as occupied: of 1,400 cells, 0.0004 by chance."""
BESIDE = 3.0
"""The same for an octave or year beside one that is occupied: tails thin out, and do not lie alone."""
LIKELY = 2.0


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

    @property
    def masses(self) -> Masses:
        assert self.coarse is not None
        return Masses(self.coarse, np.zeros(FINE_CELLS) if self.fine is None else self.fine)

    @property
    def sure(self) -> Masses:
        """The coarse cells that are occupied beyond doubt; others are zero."""
        masses = self.masses
        strong = masses.coarse > SURE * self.coarse_std
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
        return replace(
            self,
            values=dict(sorted(values.items(), key=lambda one: (-one[1], one[0]))),
            coarse=self.coarse if later.coarse is None else later.coarse,
            coarse_std=self.coarse_std if later.coarse is None else later.coarse_std,
            fine=later.fine,
            fine_std=later.fine_std,
        )


def found_of(measured: Measurement, place: int) -> Found:
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
    )
