"""Total variation of tables of one, two and three columns, from exact counts on both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from understudy.pipelines.comparing.model import Distance
from understudy.pipelines.table.domain import TableDomain

Clique = tuple[int, ...]
Counts = Callable[[Sequence[Clique]], list[np.ndarray]]
MOST_TRIPLES = 300
MOST_CELLS = 2_000_000
_AT_ONCE = 100


def distances(real: Counts, synthetic: Counts, cliques: Sequence[Clique], domain: TableDomain) -> list[Distance]:
    """Worst first. Counted a hundred tables at a time, so that memory does not grow with their number."""
    found = []
    for start in range(0, len(cliques), _AT_ONCE):
        some = cliques[start : start + _AT_ONCE]
        for clique, one, other in zip(some, real(some), synthetic(some), strict=True):
            names = tuple(domain.names[i] for i in clique)
            found.append(Distance(names, total_variation(one, other), another_sample(one)))
    return sorted(found, key=lambda each: -each.distance)


def total_variation(one: np.ndarray, other: np.ndarray) -> float:
    """Half of the sum of differences of shares; a table without rows is as far from any other as can be."""
    if not one.sum() or not other.sum():
        return float(bool(one.sum()) != bool(other.sum()))
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def another_sample(counts: np.ndarray) -> float:
    """The distance to be expected to as many rows drawn anew from the same population.

    Shares of two samples differ by a normal of variance 2 p (1 - p) / n, whose mean size is sqrt(2 / pi) times its
    deviation.
    """
    rows = int(counts.sum())
    if not rows:
        return 0.0
    shares = counts.ravel() / rows
    return float(np.sqrt(4 * shares * (1 - shares) / (math.pi * rows)).sum() / 2)


def pairs_of(domain: TableDomain) -> list[Clique]:
    return [pair for pair in combinations(range(len(domain.columns)), 2) if _fits(pair, domain)]


def triples_of(domain: TableDomain) -> tuple[list[Clique], int]:
    """All triples of columns or, if there are many, some of them spread evenly over all; and how many there are."""
    possible = [triple for triple in combinations(range(len(domain.columns)), 3) if _fits(triple, domain)]
    places = np.unique(np.linspace(0, max(0, len(possible) - 1), min(MOST_TRIPLES, len(possible))).astype(int))
    return [possible[place] for place in places], math.comb(len(domain.columns), 3)


def _fits(clique: Clique, domain: TableDomain) -> bool:
    return math.prod(domain.sizes[i] for i in clique) <= MOST_CELLS
