"""Pairs, and the triples whose interaction pairs do not explain: three noisy releases in one draw, at one charge.

Theorem. Three times noisy residuals (counting/residuals.py) are released, each independently noised:
  first    of the number of rows, of columns and pairs, of wide ones also in public groups (counting/groups.py), and
           plain tables beside them: Gaussian(z_1);
  scores   of the three-way residuals of triples, their values merged into groups, and of the first ones again:
           Gaussian(z_2);
  further  of the first ones again, and of the triples that are chosen: Gaussian(z_3).
  Which triples are scored, how their values are merged, which are chosen and all shares are functions of what was
  released before. A row lies in one cell of a merged table, so that merging changes no sensitivity; and the noise of
  the later releases is calibrated to z_2 and z_3 whatever is scored and chosen. So each is the Gaussian mechanism that
  the event claims, given all before it; together they cost Composed(Gaussian(z_1), Gaussian(z_2), Gaussian(z_3)).
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

from understudy.pipelines.counting.interactions import Score, groupings, unexplained
from understudy.pipelines.counting.lifted import Residual, Residuals, centred_counts, summed_up
from understudy.pipelines.counting.mechanism import event_at
from understudy.pipelines.counting.merging import merged
from understudy.pipelines.counting.released import GROUPED, grouped_by_name, grouped_facts, residuals_by_name
from understudy.pipelines.counting.residuals import ResidualNoise, Shape, differences, residual_noise
from understudy.pipelines.counting.shares import ResidualWorkload
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.counting.worth import Choice, Scoring, choose_triples, worth_scoring
from understudy.pipelines.privacy.events import Composed, Event
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.noise.rounded import RandomSource
from understudy.pipelines.privacy.relation import Relation, Unit, counts_sensitivity
from understudy.pipelines.privacy.rounding import CLAIMED_BITS, root_up

CHOSEN, STDS, GROUPED_STDS = "chosen", "stds", "grouped_stds"

FIRST_PART, SCORE_PART = 0.5, 0.03
"""Of the budget, for the first two releases. The rest is further. Triples get what they are worth of it, and the pairs
again all else."""
FURTHER_PART = 1 - FIRST_PART - SCORE_PART

MOST_FOR_SCORES = SCORE_PART / 2
"""Of the budget; what else their release has is the pairs'. With all of it the same planted labels were found at
epsilon 1, at twice the cost (docs/benchmarks.md). The event is what it was, so that series that were paid for go on."""

MOST_TRIPLE_CELLS, MOST_CELLS, MOST_CANDIDATES = 100_000, 20_000_000, 12_000
"""Of one candidate and of all: wider ones drown in noise, and all are held in memory at once. 12,000 are all triples of
42 columns: counting and scoring so many takes some seconds."""


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
    scores_multiplier: float
    further_multiplier: float
    noise_level: float
    """The std of a count that would get the whole budget, in rows or in entities."""
    one: int = 1
    """What one of them counts (counting/weights.py)."""

    @property
    def event(self) -> Event:
        later = (event_at(z, self.first.sampler) for z in (self.scores_multiplier, self.further_multiplier))
        return Composed((self.first.event, *later))

    def draw(self, exact: TripleCounts, randomness: RandomSource) -> dict[str, np.ndarray]:
        """Residuals of the workload and of the chosen triples, each once, and what the triples were chosen by."""
        tables, own = list(exact.first.values())[: len(self.first.shapes)], len(self.workload.measured)
        released = self.first.draw(exact.first, randomness)
        mine = _Known(self, list(released.values())[: len(tables)], self.first.stds, exact.public_total)

        ways = groupings(mine.residuals, self.ordered)
        scoring = worth_scoring(mine.residuals, self.candidates, self.noise_level, MOST_FOR_SCORES)
        grouped = [merged(exact.triples[t], [ways[way][column] for column in t]) for t, way in scoring.tests]
        noise = self._charged(self.scoring(scoring), self.scores_multiplier)
        drawn = list(noise.draw(residuals_by_name([*tables, *grouped]), randomness).values())
        mine, scores = mine.joined_with(drawn[: len(tables)], noise.stds), drawn[len(tables) :]

        found = zip(scoring.tests, scores, noise.shapes[len(tables) :], noise.stds[len(tables) :], strict=True)
        told = [
            Score(triple, ways[way], centred_counts(score, shape) / self.one, std / math.prod(shape) / self.one)
            for (triple, way), score, shape, std in found
        ]
        beyond = unexplained(mine.residuals, told)
        spent = 1 - FURTHER_PART - scoring.part
        choice = choose_triples(mine.residuals, beyond, self.candidates, self.noise_level, spent, FURTHER_PART)
        noise = self._charged(self.further(choice), self.further_multiplier)
        chosen = [exact.triples[triple] for triple in choice.triples]
        drawn = list(noise.draw(residuals_by_name([*tables, *chosen]), randomness).values())
        mine = mine.joined_with(drawn[: len(tables)], noise.stds)
        return {
            **released,
            **residuals_by_name([*mine.arrays[:own], *drawn[len(tables) :]]),
            **grouped_by_name(mine.arrays[own:]),
            CHOSEN: np.array(choice.triples, dtype=np.int64).reshape(-1, 3),
            STDS: np.array([*mine.stds[:own], *noise.stds[len(tables) :]]),
            "scored": np.array([(*triple, way) for triple, way in scoring.tests], dtype=np.int64).reshape(-1, 4),
            "scores": np.concatenate([np.zeros(0, np.int64), *scores]),
            "groups": np.concatenate([group for grouping in ways for group in grouping]),
            **({GROUPED_STDS: np.array(mine.stds[own:])} if self.workload.grouped else {}),
        }

    def told(self, drawn: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """What the drawn numbers say is in them: the column sets, and the std of each with all its noise."""
        chosen = [[int(column) for column in triple] for triple in drawn[CHOSEN]]
        grouped = self.workload.grouped
        in_groups = {GROUPED: grouped_facts(grouped, [float(std) for std in drawn[GROUPED_STDS]])} if grouped else {}
        return {
            **in_groups,
            "cliques": [*(list(clique) for clique in self.workload.measured), *chosen],
            "stds": [float(std) for std in drawn[STDS]],
            "asked": [*(list(clique) for clique in self.workload.asked), *chosen],
        }

    def scoring(self, scoring: Scoring) -> ResidualNoise:
        """The second release: `part` of the budget to the scores, each as much as another, the rest as in the first."""
        shapes = scoring.shapes(self.sizes)
        shares = [scoring.part / len(shapes) for _ in shapes]
        return self._again(self.scores_multiplier, SCORE_PART - scoring.part, shapes, shares)

    def further(self, choice: Choice) -> ResidualNoise:
        """The last release: `part` of the budget for the triples, evenly to their cells, the rest as in the first."""
        shapes = [tuple(self.sizes[column] for column in triple) for triple in choice.triples]
        kept = [math.prod(1 - 1 / size for size in shape) for shape in shapes]
        shares = [choice.part * each / math.fsum(kept) for each in kept]
        return self._again(self.further_multiplier, FURTHER_PART - choice.part, shapes, shares)

    @property
    def least_stds(self) -> tuple[float, ...]:
        """Of the workload's residuals, where no triple is scored and none is chosen."""
        stds = self.first.stds
        for noise in (self.scoring(Scoring((), 0.0)), self.further(Choice((), 0.0))):
            stds = tuple(joined_std(one, other) for one, other in zip(stds, noise.stds, strict=True))
        return stds

    def _again(self, z: float, rest: float, shapes: Sequence[Shape], shares: Sequence[float]) -> ResidualNoise:
        first = self.first
        return residual_noise(
            [*first.shapes, *shapes],
            [*(share * rest for share in (*self.workload.shares, *self.workload.grouped_shares)), *shares],
            (),
            z,
            first.relation,
            first.unit,
            first.sampler,
        )

    def _charged(self, noise: ResidualNoise, multiplier: float) -> ResidualNoise:
        """The noise of a later release, which must cost what was charged for it whatever it is of."""
        if noise.event != event_at(multiplier, self.first.sampler):
            raise ArithmeticError("the noise of a later release is not what was charged")
        return noise


class _Known:
    """What was released of the workload so far, and its stds."""

    def __init__(
        self, noise: TriplesNoise, arrays: Sequence[np.ndarray], stds: Sequence[float], public_total: int | None
    ) -> None:
        self.arrays, self.stds = arrays, tuple(stds)
        self._noise, self._public_total = noise, public_total
        found = {
            clique: Residual(centred_counts(array, shape) / noise.one, std / math.prod(shape) / noise.one)
            for clique, array, shape, std in zip(
                noise.workload.measured, arrays, noise.first.shapes, self.stds, strict=False
            )
        }
        if public_total is not None:
            found[()] = Residual(np.array(float(public_total)), 0.0)
        self.residuals = Residuals(noise.workload.asked, noise.sizes, found)

    def joined_with(self, arrays: Sequence[np.ndarray], stds: Sequence[float]) -> _Known:
        pairs = list(zip(self.arrays, arrays, self._noise.first.shapes, self.stds, stds, strict=False))
        both = [joined(*pair) for pair in pairs]
        return _Known(self._noise, both, [joined_std(one, other) for *_, one, other in pairs], self._public_total)


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
    return tuple(triple for triple, fits in zip(narrowest, within, strict=True) if fits)[:MOST_CANDIDATES]


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
    parts = (extra + FIRST_PART * (1 - extra), SCORE_PART * (1 - extra), FURTHER_PART * (1 - extra))
    square = Fraction(noise_multiplier) ** 2 * sum(map(Fraction, parts))
    first_z, scores_z, further_z = (root_up(square / Fraction(part), CLAIMED_BITS) for part in parts)
    shares = [share * FIRST_PART * (1 - extra) for share in (*workload.shares, *workload.grouped_shares)]
    first = residual_noise(workload.shapes(sizes), shares, beside, first_z, relation, unit, sampler)
    noise_level = noise_multiplier * counts_sensitivity(relation, unit.max_rows) / math.sqrt(1 - extra) / one
    return TriplesNoise(sizes, ordered, workload, candidates, first, scores_z, further_z, noise_level, one)


def chosen_triples(measured: Measurement) -> list[Clique] | None:
    """The triples that were chosen; None where none were to be."""
    return [tuple(map(int, triple)) for triple in measured.arrays[CHOSEN]] if CHOSEN in measured.arrays else None
