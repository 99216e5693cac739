"""Pairs, and the triples whose interaction pairs do not explain: three noisy releases in one draw, at one charge.

Theorem. Three times noisy residuals (counting/residuals.py) are released, each independently noised:
  first    of the number of rows, of columns and pairs (and plain tables beside them): Gaussian(z_1);
  scores   of the three-way residuals of all candidate triples, their values merged into groups: Gaussian(z_2);
  further  of the number of rows, columns and pairs once more, and of the triples that are chosen: Gaussian(z_3).
  The groups are a function of what was released first; the chosen triples and the shares of the last release, of what
  was released before it. A row lies in one cell of a merged table, so that merging changes no sensitivity; and the
  noise of the last release is calibrated to z_3 whatever is chosen. So each is the Gaussian mechanism that the event
  claims, given all before it; together they cost Composed(Gaussian(z_1), Gaussian(z_2), Gaussian(z_3)).
Relation, sensitivity, noise unit. Those of `counting.residuals`, of every table by itself.
Proof. docs/proofs/triples.md.
Reference. Dong, Roth & Su 2022, Theorem 4 (adaptive composition); Xiao, He, Zhang & Kifer 2023.

What is chosen only selects what is measured (`worth`). The whole event is known before a row is read, and all private
counts are taken before the draw: nothing between the three releases looks at anything but what they released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from understudy.pipelines.counting.interactions import (
    Grouping,
    Score,
    groupings,
    scored,
    scored_shapes,
    unexplained,
)
from understudy.pipelines.counting.lifted import Residual, Residuals, centred_counts, summed_up
from understudy.pipelines.counting.mechanism import event_at
from understudy.pipelines.counting.merging import merged
from understudy.pipelines.counting.released import residuals_by_name
from understudy.pipelines.counting.residuals import ResidualNoise, Shape, differences, residual_noise
from understudy.pipelines.counting.shares import ResidualWorkload
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.counting.worth import Choice, choose_triples
from understudy.pipelines.privacy.events import Composed, Event
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.noise.rounded import RandomSource
from understudy.pipelines.privacy.relation import Relation, Unit, counts_sensitivity
from understudy.pipelines.privacy.rounding import CLAIMED_BITS, root_up

CHOSEN, FURTHER_STDS = "chosen", "further_stds"

FIRST_PART, SCORE_PART = 0.5, 0.03
"""Of the budget. The rest is further: for triples what they are worth, and for the pairs again what is left."""

MOST_TRIPLE_CELLS, MOST_CELLS = 100_000, 20_000_000
"""Of one candidate and of all: wider ones drown in noise, and all are held in memory at once."""


@dataclass(frozen=True, eq=False)
class TripleCounts:
    """The exact numbers: tables for the first release by name, in its order, and all candidate triples."""

    first: Mapping[str, np.ndarray]
    triples: Mapping[Clique, np.ndarray]
    public_total: int | None


@dataclass(frozen=True)
class TriplesNoise:
    """How the residuals of a workload of pairs are noised, and those of the triples that are chosen."""

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    workload: ResidualWorkload
    candidates: tuple[Clique, ...]
    first: ResidualNoise
    scores: ResidualNoise
    further_multiplier: float
    noise_level: float
    """The std of a count that would get the whole budget, in rows or in entities."""
    one: int = 1
    """What one of them counts (counting/weights.py)."""

    @property
    def event(self) -> Event:
        further = event_at(self.further_multiplier, self.first.sampler)
        return Composed((self.first.event, self.scores.event, further))

    def draw(self, exact: TripleCounts, randomness: RandomSource) -> dict[str, np.ndarray]:
        """Residuals of `measured` and of the chosen triples, each once, and what the triples were chosen by."""
        released = self.first.draw(exact.first, randomness)
        known = self._known(released, exact.public_total)
        ways = groupings(known, self.ordered)
        tables = [
            merged(exact.triples[triple], [grouping[column] for column in triple])
            for triple, grouping in scored(self.candidates, self.sizes, ways)
        ]
        scores = list(self.scores.draw({str(i): table for i, table in enumerate(tables)}, randomness).values())
        choice = self._choice(known, ways, scores)
        noise = self.further(choice)
        if noise.event != event_at(self.further_multiplier, self.first.sampler):
            raise ArithmeticError("the noise of the further residuals is not what was charged")
        again = list(exact.first.values())[: len(self.workload.measured)]
        triples = [exact.triples[triple] for triple in choice.triples]
        further = noise.draw(residuals_by_name([*again, *triples]), randomness)
        for name, shape, one, other in zip(released, self.first.shapes, self.first.stds, noise.stds, strict=False):
            further[name] = joined(released[name], further[name], shape, one, other)
        return {
            **released,
            **further,
            CHOSEN: np.array(choice.triples, dtype=np.int64).reshape(-1, 3),
            FURTHER_STDS: np.array(noise.stds),
            "scores": np.concatenate([np.zeros(0, np.int64), *scores]),
            "groups": np.concatenate([group for grouping in ways for group in grouping]),
        }

    def told(self, drawn: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """What the drawn numbers say is in them: the column sets, and the std of each with all its noise."""
        chosen = [[int(column) for column in triple] for triple in drawn[CHOSEN]]
        stds = [float(std) for std in drawn[FURTHER_STDS]]
        first = self.first.stds
        stds[: len(first)] = [joined_std(one, other) for one, other in zip(first, stds, strict=False)]
        return {
            "cliques": [*(list(clique) for clique in self.workload.measured), *chosen],
            "stds": stds,
            "asked": [*(list(clique) for clique in self.workload.asked), *chosen],
        }

    def further(self, choice: Choice) -> ResidualNoise:
        """The last release: `part` of the budget for the triples, evenly to their cells, the rest as in the first."""
        cells = [tuple(self.sizes[column] for column in triple) for triple in choice.triples]
        kept = [math.prod(1 - 1 / size for size in shape) for shape in cells]
        rest = self.parts[1] - choice.part
        shares = [share * rest for share in self.workload.shares]
        shares += [choice.part * each / math.fsum(kept) for each in kept]
        shapes: list[Shape] = [*self.first.shapes, *cells]
        first = self.first
        return residual_noise(shapes, shares, (), self.further_multiplier, first.relation, first.unit, first.sampler)

    @property
    def least_stds(self) -> tuple[float, ...]:
        """Of the workload's residuals, where no triple is chosen."""
        further = self.further(Choice((), 0.0)).stds
        return tuple(joined_std(one, other) for one, other in zip(self.first.stds, further, strict=True))

    @property
    def parts(self) -> tuple[float, float]:
        """Of the budget without the tables beside: what is spent first, and what there is further."""
        return FIRST_PART, 1 - FIRST_PART - SCORE_PART

    def _known(self, released: Mapping[str, np.ndarray], public_total: int | None) -> Residuals:
        of = self.workload.measured
        drawn = zip(list(released.values())[: len(of)], self.first.shapes, self.first.stds, strict=True)
        found = {
            clique: Residual(centred_counts(noisy, shape) / self.one, std / math.prod(shape) / self.one)
            for clique, (noisy, shape, std) in zip(of, drawn, strict=True)
        }
        if public_total is not None:
            found[()] = Residual(np.array(float(public_total)), 0.0)
        return Residuals(self.workload.asked, self.sizes, found)

    def _choice(self, known: Residuals, groups: Sequence[Grouping], scores: Sequence[np.ndarray]) -> Choice:
        shapes, stds = self.scores.shapes, self.scores.stds
        told = [
            Score(triple, grouping, centred_counts(noisy, shape) / self.one, std / math.prod(shape) / self.one)
            for (triple, grouping), noisy, shape, std in zip(
                scored(self.candidates, self.sizes, groups), scores, shapes, stds, strict=True
            )
        ]
        beyond = unexplained(known, told)
        return choose_triples(known, beyond, self.noise_level, *self.parts)


def joined(one: np.ndarray, other: np.ndarray, shape: Shape, one_std: float, other_std: float) -> np.ndarray:
    """Two releases of the same residual as one: their mean by inverse variance, in whole numbers again.

    Cells are rounded, not differences, so that errors of a half do not add up along an axis.
    """
    weight = other_std**2 / (one_std**2 + other_std**2)
    first, second = (summed_up(each, shape).astype(np.float64) for each in (one, other))
    with np.errstate(invalid="ignore"):
        mean = np.rint(weight * first + (1 - weight) * second).astype(np.int64)
    return differences(mean).reshape(-1)


def joined_std(one: float, other: float) -> float:
    return one * other / math.hypot(one, other)


def candidate_triples(sizes: Sequence[int]) -> tuple[Clique, ...]:
    """Those of at least two values a column that are not too wide, the narrowest first while all fit."""
    told = [column for column, size in enumerate(sizes) if size > 1]
    cells = {triple: math.prod(sizes[column] for column in triple) for triple in combinations(told, 3)}
    narrowest = sorted((triple for triple in cells if cells[triple] <= MOST_TRIPLE_CELLS), key=lambda t: (cells[t], t))
    within = np.cumsum([cells[triple] for triple in narrowest]) <= MOST_CELLS
    return tuple(triple for triple, fits in zip(narrowest, within, strict=True) if fits)


def triples_noise(
    candidates: tuple[Clique, ...],
    workload: ResidualWorkload,
    sizes: tuple[int, ...],
    ordered: tuple[bool, ...],
    beside: Sequence[float],
    noise_multiplier: float,
    relation: Relation,
    unit: Unit,
    sampler: str,
    one: int = 1,
) -> TriplesNoise:
    """The noise at which the three releases, and tables with these shares beside, together cost Gaussian(z).

    With z_i^2 = z^2 / part_i, rounded up, sum 1/z_i^2 <= (sum of the parts) / z^2. Parts are divided by their sum.
    """
    extra = math.fsum(beside)
    parts = (extra + FIRST_PART * (1 - extra), SCORE_PART * (1 - extra), (1 - FIRST_PART - SCORE_PART) * (1 - extra))
    square = Fraction(noise_multiplier) ** 2 * sum(map(Fraction, parts))
    first_z, scores_z, further_z = (root_up(square / Fraction(part), CLAIMED_BITS) for part in parts)
    shapes = [tuple(sizes[column] for column in clique) for clique in workload.measured]
    shares = [share * FIRST_PART * (1 - extra) for share in workload.shares]
    first = residual_noise(shapes, shares, beside, first_z, relation, unit, sampler)
    groups = scored_shapes(candidates, sizes)
    scores = residual_noise(groups, [1 / len(groups)] * len(groups), (), scores_z, relation, unit, sampler)
    noise_level = noise_multiplier * counts_sensitivity(relation, unit.max_rows) / math.sqrt(1 - extra) / one
    return TriplesNoise(sizes, ordered, workload, candidates, first, scores, further_z, noise_level, one)


def chosen_triples(measured: Measurement) -> list[Clique] | None:
    """The triples that were chosen; None where none were to be."""
    return [tuple(map(int, triple)) for triple in measured.arrays[CHOSEN]] if CHOSEN in measured.arrays else None
