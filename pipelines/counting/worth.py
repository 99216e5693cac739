"""Which triples of columns are worth measuring, and how much of the budget: by noisy numbers that were released before.

An interaction d (as total variation) that is measured with noise n leaves about d n / sqrt(d^2 + n^2) after denoising.
Whatever is spent on triples raises the error of the pairs, by the same formula. So many triples are chosen, the most
rewarding first, and such a part of the budget is given to them, that the mean error of all pairs and the mean error of
all triples add up to least: none where no interaction stands out from its noise (`interactions`). Where the number of
rows and the budget make them affordable, all are measured, for a small part: then even what chance leaves in the
triples of a table, which no pair tells, is worth having.

Nothing here touches a private number, and nothing can fail: whatever the noisy numbers are, some choice comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.interactions import HALF_MEAN, chi_square, least_score
from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.merging import groups_of
from understudy.pipelines.counting.workload import Clique

FloatArray = npt.NDArray[np.float64]

PARTS = (0.005, 0.01, 0.02, 0.035, 0.05)
MOST_FOR_TRIPLES = PARTS[-1]
"""Of the budget, that may go to the chosen triples. Pairs are asked for, triples are not: with what scores take, pairs
never have more than 3.5% more noise."""

SHOWS, ENOUGH = 0.25, 0.02
"""Total variation: the weakest interaction that a score must show to be worth having, and that need not be undercut."""

USEFUL, USED_PART = 0.5, 0.05
"""The most noise, as total variation, that a triple may have if it got so much of the budget alone."""

GAINED_FOR_LOST = 2.0
"""How many times what pairs lose must be gained by having all triples for as much of the budget."""

MOST_FITTED = 600
"""Triples that a copy is fitted to in reasonable time."""

RANKED_AT = 0.01
"""Of the budget for each: at the noise that this gives, triples are ranked by what measuring them takes away."""


@dataclass(frozen=True)
class Choice:
    """The triples that are worth it, the most rewarding first, and their part of the whole budget."""

    triples: tuple[Clique, ...]
    part: float


@dataclass(frozen=True)
class Scoring:
    """Triples that are scored, each with the way its values are merged, and the part of the budget for that."""

    tests: tuple[tuple[Clique, int], ...]
    part: float

    def shapes(self, sizes: Sequence[int]) -> list[tuple[int, ...]]:
        return [tuple(groups_of(sizes[column]) for column in triple) for triple, _ in self.tests]


def worth_scoring(known: Residuals, candidates: Sequence[Clique], noise_level: float, most: float) -> Scoring:
    """The triples of which a score would show an interaction that can be used, by the number of rows and the budget.

    Those that would be told apart from noise most easily come first, as many as all would still be at `SHOWS`; where
    less than `most` of the budget shows `ENOUGH`, less is taken. A column of many values is merged in two ways.
    """
    total, sizes = max(known.total, 1.0), known.sizes
    spread = [_spread(known.marginal((column,))) for column in range(len(sizes))]
    unit = HALF_MEAN * noise_level / total
    least = least_score(2 * len(candidates))
    shown = []
    for triple in candidates:
        cells, kept = math.prod(spread[c] for c in triple), math.prod(1 - 1 / sizes[c] for c in triple)
        if unit * cells * math.sqrt(kept / USED_PART) <= USEFUL:
            groups = [groups_of(sizes[column]) for column in triple]
            freedom = math.prod(size - 1 for size in groups)
            energy = (chi_square(freedom, least) - freedom) * freedom
            ways = 1 if all(groups_of(sizes[column]) == sizes[column] for column in triple) else 2
            shown.append((unit * math.sqrt(energy), triple, ways))
    shown.sort()
    tests = np.cumsum([ways for _, _, ways in shown])
    limits = np.array([limit for limit, _, _ in shown]) * np.sqrt(tests)  # with the whole budget
    within = np.flatnonzero(limits <= SHOWS * math.sqrt(most))
    if not len(within):
        return Scoring((), 0.0)
    last = int(within[-1])
    part = min(float((limits[last] / ENOUGH) ** 2), most)
    kept_ones = shown[: last + 1]
    return Scoring(tuple((triple, way) for _, triple, ways in kept_ones for way in range(ways)), part)


def choose_triples(
    known: Residuals,
    beyond: Mapping[Clique, float],
    candidates: Sequence[Clique],
    noise_level: float,
    spent: float,
    most: float,
) -> Choice:
    """`known` tells rows, columns and pairs, measured with the part `spent` of the budget; `most` is left.

    `noise_level` is the std, in rows, of a count that would get the whole budget.
    """
    found = _Candidates(known, candidates, noise_level)
    pair_error = _pair_errors(known, found.spread, found.total)

    def error(part: float) -> float:
        return pair_error((most + spent - part) / spent)

    choice = _most_rewarding(found, beyond, error)
    if found.are_affordable(error):
        return Choice(tuple(dict.fromkeys((*choice.triples, *candidates))), MOST_FOR_TRIPLES)
    return choice


class _Candidates:
    """Triples with the noise that each would have with the whole budget, and what chance leaves in each of them."""

    def __init__(self, known: Residuals, triples: Sequence[Clique], noise_level: float) -> None:
        sizes = known.sizes
        self.triples, self.total = triples, max(known.total, 1.0)
        self.spread = [_spread(known.marginal((column,))) for column in range(len(sizes))]
        cells = np.array([math.prod(self.spread[column] for column in triple) for triple in triples])
        self.kept = np.array([math.prod(1 - 1 / sizes[column] for column in triple) for triple in triples])
        self.unit = HALF_MEAN * cells * np.sqrt(self.kept) * noise_level / self.total
        self.chance = HALF_MEAN * np.sqrt(cells * self.kept / self.total)
        self.freedom = np.array([math.prod(sizes[column] - 1 for column in triple) for triple in triples])

    def are_affordable(self, pair_error: Callable[[float], float]) -> bool:
        """Whether all of them can be had for a small part of the budget: it would show what chance alone leaves in the
        triples of this table, and take more from their errors than it adds to those of the pairs.
        """
        if not 0 < len(self.triples) <= MOST_FITTED:
            return False
        noise = self.unit * math.sqrt(float(self.kept.sum()) / MOST_FOR_TRIPLES)
        # How far to shrink is itself learned from a table, badly from one of few cells (James & Stein 1961).
        learned = 2 / self.freedom * np.square(np.square(noise)) / (np.square(self.chance) + np.square(noise))
        left = np.minimum(np.sqrt(np.square(_left(self.chance, noise)) + learned), noise)
        gained = float((self.chance - left).mean())
        return gained > GAINED_FOR_LOST * (pair_error(MOST_FOR_TRIPLES) - pair_error(0.0))


def _most_rewarding(found: _Candidates, beyond: Mapping[Clique, float], pair_error: Callable[[float], float]) -> Choice:
    """Of the triples that stand out, as many and with such a part that all errors are least."""
    worthy = [place for place, triple in enumerate(found.triples) if beyond.get(triple, 0.0) > 0]
    if not worthy:
        return Choice((), 0.0)
    distance = np.array([beyond[found.triples[place]] for place in worthy])
    unit = found.unit[worthy]
    order = np.argsort(-(distance - _left(distance, unit / math.sqrt(RANKED_AT))), kind="stable")
    distance, unit, kept = distance[order], unit[order], found.kept[worthy][order]
    all_of_them = len(found.triples)
    best, best_error = Choice((), 0.0), pair_error(0.0) + distance.sum() / all_of_them
    for part in PARTS:
        for count in _numbers(len(worthy)):
            noise = unit[:count] * math.sqrt(kept[:count].sum() / part)
            left = _left(distance[:count], noise).sum() + distance[count:].sum()
            if (error := pair_error(part) + left / all_of_them) < best_error:
                best_error = error
                best = Choice(tuple(found.triples[worthy[place]] for place in order[:count]), part)
    return best


def _numbers(most: int) -> list[int]:
    """1, 2, 3, 4, 5, 6, 8, 10, ... and all."""
    found = [1]
    while found[-1] < most:
        found.append(min(most, max(found[-1] + 1, found[-1] * 5 // 4)))
    return found


def _left(distance: FloatArray, noise: FloatArray) -> FloatArray:
    """What is left of an interaction's error after it was measured with this noise and denoised."""
    left: FloatArray = distance * noise / np.sqrt(np.square(distance) + np.square(noise))
    return left


def _spread(counts: FloatArray) -> float:
    """As many equally likely values would have noise of as much weight, where it is kept in proportion to counts."""
    masses = np.maximum(counts, 0.0)
    return max(float(np.square(np.sqrt(masses).sum()) / max(masses.sum(), 1e-300)), 1.0)


def _pair_errors(known: Residuals, spread: Sequence[float], total: float) -> Callable[[float], float]:
    """The mean error of the pairs, as total variation, if they had so many times the budget they were measured with."""
    pairs = [clique for clique in known.by_clique if len(clique) == 2]
    singles = [known.marginal((column,)) / total for column in range(len(known.sizes))]
    alone = np.array(
        [
            HALF_MEAN * spread[c] * known.by_clique[(c,)].std / total if (c,) in known.by_clique else 0.0
            for c in range(len(known.sizes))
        ]
    )
    distance, noise = np.zeros(len(pairs)), np.zeros(len(pairs))
    for place, pair in enumerate(pairs):
        one, other = (singles[column] - singles[column].mean() for column in pair)
        measured, cells = known.by_clique[pair], math.prod(spread[column] for column in pair)
        freedom = (len(one) - 1) * (len(other) - 1)
        energy = float(np.square(measured.counts / total - np.outer(one, other)).sum())
        net = max(energy - freedom * (measured.std / total) ** 2, 0.0)
        distance[place] = HALF_MEAN * math.sqrt(net * cells) + 1e-12
        noise[place] = HALF_MEAN * cells * math.sqrt(freedom / measured.counts.size) * measured.std / total
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    singly = np.square(alone[columns]).sum(axis=1)

    def error(times: float) -> float:
        together = np.square(_left(distance, noise / math.sqrt(times))) + singly / times
        return float(np.sqrt(together).mean()) if len(pairs) else 0.0

    return error
