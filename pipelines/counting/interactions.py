"""What three columns have in common that their pairs do not explain: from noisy numbers that were released before.

What the pairs explain of a triple is the table of greatest entropy with these pairs. What its noisy three-way residual,
over few groups of each column (`merging`), shows beyond that is held against its noise: of the scores, of the pairs,
and of chance in a table of so many rows. What stands out is looked at twice more:
- merging alone can make an interaction, where groups hide how two columns follow each other. So the table of greatest
  entropy is also made over all values and merged then, and the smaller distance counts;
- one interaction shows in all triples that hold columns related to its own. Such echoes go with what they echo: what a
  stronger triple implies, if the others' columns follow its columns and nothing else, is taken away.

Nothing here touches a private number, and nothing can fail, whatever the noisy numbers are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.merging import Groups, even_groups, merged, other_groups
from understudy.pipelines.counting.workload import Clique

FloatArray = npt.NDArray[np.float64]
Grouping = tuple[Groups, ...]
"""The groups of every column."""

FITTING_ROUNDS = 15
BY_CHANCE = 0.1
"""How many triples may be taken for more than noise by chance, of all."""

MOST_FINE_CELLS = 4_000_000
"""Of all tables over all values together, that are made: the strongest triples first. It takes a second or two."""

MOST_ECHOED = 100
"""So many of the strongest triples are asked what they imply of others."""

HALF_MEAN = math.sqrt(2 / math.pi) / 2
"""Of |N(0, 1)|, halved: from a standard deviation to total variation."""


@dataclass(frozen=True, eq=False)
class Score:
    """A three-way residual over the groups of each column, in rows, and the std of its cells before it was centred."""

    triple: Clique
    grouping: Grouping
    residual: FloatArray
    std: float


@dataclass(frozen=True, eq=False)
class _Judged:
    """A score as shares: what its pairs explain, what is beyond, and the energy of its noise."""

    score: Score
    expected: FloatArray
    beyond: FloatArray
    noise: float
    least: float

    @property
    def distance(self) -> float:
        """The total variation beyond the pairs, net of noise; 0 where it may be noise."""
        freedom = math.prod(size - 1 for size in self.beyond.shape)
        energy = float(np.square(self.beyond).sum())
        if not energy > self.noise * chi_square(freedom, self.least) / freedom:
            return 0.0
        cells = float(np.square(np.sqrt(self.expected).sum()))
        return HALF_MEAN * math.sqrt(max(energy - self.noise, 0.0) * cells)

    def nearer(self, other: FloatArray) -> _Judged:
        """The same with what is beyond by another account of what is explained, if that leaves less."""
        changed = replace(self, beyond=other)
        return changed if changed.distance < self.distance else self


def groupings(known: Residuals, ordered: Sequence[bool]) -> tuple[Grouping, Grouping]:
    """Two ways to merge the values of every column: by its noisy counts, and by the order of its codes."""
    counts = [known.marginal((column,)) for column in range(len(known.sizes))]
    return (
        tuple(even_groups(each, order) for each, order in zip(counts, ordered, strict=True)),
        tuple(other_groups(size) for size in known.sizes),
    )


def least_score(tests: int) -> float:
    """How many standard deviations something must stand out by, where so many are looked at."""
    return -NormalDist().inv_cdf(min(BY_CHANCE / max(tests, 1), 0.5))


def unexplained(known: Residuals, scores: Sequence[Score]) -> dict[Clique, float]:
    """The total variation of each triple beyond what its pairs explain, net of noise; 0 where it may be noise."""
    told = _Pairs(known)
    found = [one for one in _judged(told, scores) if one.distance > 0]
    found = list(_over_all_values(told, sorted(found, key=lambda one: -one.distance)))
    distances = {score.triple: 0.0 for score in scores}
    for one in _without_echoes(told, found):
        distances[one.score.triple] = max(distances[one.score.triple], one.distance)
    return distances


class _Pairs:
    """Noisy shares of pairs and columns, none negative, over groups and over all values."""

    def __init__(self, known: Residuals) -> None:
        self.known = known
        self.total = max(known.total, 1.0)
        self._merged: dict[tuple[int, Clique], tuple[FloatArray, FloatArray]] = {}
        self._fine: dict[Clique, FloatArray] = {}

    def merged(self, pair: Clique, grouping: Grouping) -> tuple[FloatArray, FloatArray]:
        """Shares, and the variance of each."""
        key = id(grouping), pair
        if key not in self._merged:
            shares: FloatArray = merged(self.known.marginal(pair), [grouping[column] for column in pair]) / self.total
            rows, columns = (np.bincount(grouping[column]).astype(np.float64) for column in pair)
            variance: FloatArray = self.known.variance(pair) / self.total**2 * np.outer(rows, columns)
            self._merged[key] = np.maximum(shares, 0.0), variance
        return self._merged[key]

    def fine(self, pair: Clique) -> FloatArray:
        """Shares of all cells, pulled towards what the two columns imply as far as noise asks (James & Stein 1961)."""
        if pair not in self._fine:
            one, other = (self._alone(column) for column in pair)
            implied = np.outer(one, other)
            beyond = self.known.marginal(pair) / self.total - implied
            energy, noise = float(np.square(beyond).sum()), self.known.variance(pair) / self.total**2 * beyond.size
            kept = max(0.0, 1.0 - noise / energy) if energy > 0 else 0.0
            self._fine[pair] = np.maximum(implied + kept * beyond, 0.0)
        return self._fine[pair]

    def _alone(self, column: int) -> FloatArray:
        shares = np.maximum(self.known.marginal((column,)), 0.0) + 1e-12
        return np.asarray(shares / shares.sum())


def _judged(told: _Pairs, scores: Sequence[Score]) -> Iterator[_Judged]:
    """Tables of one shape at a time."""
    by_shape: dict[tuple[int, ...], list[Score]] = defaultdict(list)
    for score in scores:
        by_shape[score.residual.shape].append(score)
    least = least_score(len(scores))
    for shape, alike in by_shape.items():
        pairs = [[told.merged(pair, score.grouping) for pair in _pairs(score.triple)] for score in alike]
        sides = [np.stack([shares for shares, _ in side]) for side in zip(*pairs, strict=True)]
        variances = [np.stack([variance for _, variance in side]) for side in zip(*pairs, strict=True)]
        expected = _greatest_entropy(sides)
        beyond = np.stack([score.residual for score in alike]) / told.total - _centred(expected)
        by_pairs = _noise_of_pairs(expected, variances).tolist()
        by_chance = math.prod(1 - 1 / size for size in shape) / told.total
        freedom = math.prod(size - 1 for size in shape)
        for score, table, rest, noise in zip(alike, expected, beyond, by_pairs, strict=True):
            yield _Judged(score, table, rest, freedom * (score.std / told.total) ** 2 + noise + by_chance, least)


def _over_all_values(told: _Pairs, found: Sequence[_Judged]) -> Iterator[_Judged]:
    """Those that stand out from what the pairs explain over all values, too."""
    left = MOST_FINE_CELLS
    for one in found:
        triple, grouping = one.score.triple, one.score.grouping
        left -= math.prod(told.known.sizes[column] for column in triple)
        if left >= 0:
            fine = _greatest_entropy([told.fine(pair)[None] for pair in _pairs(triple)])[0]
            expected = merged(fine, [grouping[column] for column in triple])
            one = one.nearer(one.score.residual / told.total - _centred(expected[None])[0])
        if one.distance > 0:
            yield one


def _without_echoes(told: _Pairs, found: Sequence[_Judged]) -> Iterator[_Judged]:
    """The strongest first, and of the others what it does not imply."""
    waiting = sorted(found, key=lambda one: -one.distance)
    for _ in range(MOST_ECHOED):
        if not waiting:
            return
        strongest, *rest = waiting
        yield strongest
        heard = (_less_implied(told, one, strongest) for one in rest)
        waiting = sorted((one for one in heard if one.distance > 0), key=lambda one: -one.distance)
    yield from waiting


def _less_implied(told: _Pairs, one: _Judged, strongest: _Judged) -> _Judged:
    """What is left of one triple if its other columns follow those of a stronger one, by the pairs."""
    mine, its = one.score.triple, strongest.score.triple
    new, gone = [c for c in mine if c not in its], [c for c in its if c not in mine]
    if one.score.grouping is not strongest.score.grouping or not 1 <= len(new) <= 2:
        return one
    whole = np.maximum(strongest.expected + strongest.beyond, 0.0)
    for order in permutations(gone):
        table, columns = whole, list(its)
        for follower, followed in zip(new, order, strict=True):
            axis = columns.index(followed)
            table = np.moveaxis(np.tensordot(table, _given(told, follower, followed, one), (axis, 0)), -1, axis)
            columns[axis] = follower
        table = table.transpose([columns.index(column) for column in mine])
        sides = [table.sum(axis=axis)[None] for axis in (2, 1, 0)]
        implied = _centred(table[None] - _greatest_entropy(sides))[0]
        one = one.nearer(one.beyond - implied)
    return one


def _given(told: _Pairs, follower: int, followed: int, one: _Judged) -> FloatArray:
    """The shares of one column's groups given the other's: (followed, follower)."""
    pair = (min(follower, followed), max(follower, followed))
    shares, _ = told.merged(pair, one.score.grouping)
    joint = shares if pair[0] == followed else shares.T
    sums = joint.sum(axis=1, keepdims=True)
    return np.asarray(np.where(sums > 0, joint / np.where(sums > 0, sums, 1.0), 1 / joint.shape[1]))


def _noise_of_pairs(expected: FloatArray, variances: Sequence[FloatArray]) -> FloatArray:
    """What the noise of the pairs adds to the energy of a table of greatest entropy, centred, to first order.

    Noise e in the share of a pair moves the cells above it by e times the conditional shares of the third column.
    """
    added = np.zeros(len(expected))
    for axis, variance in zip((3, 2, 1), variances, strict=True):
        below = expected.sum(axis=axis, keepdims=True)
        size = expected.shape[axis]
        given = np.divide(expected, below, out=np.full_like(expected, 1 / size), where=below > 0) - 1 / size
        kept = math.prod(1 - 1 / side for side in variance.shape[1:])
        added += kept * (np.square(given).sum(axis=axis) * variance).sum(axis=(1, 2))
    return added


def _pairs(triple: Clique) -> tuple[Clique, Clique, Clique]:
    a, b, c = triple
    return (a, b), (a, c), (b, c)


def _centred(tables: FloatArray) -> FloatArray:
    for axis in range(1, tables.ndim):
        tables = tables - tables.mean(axis=axis, keepdims=True)
    return tables


def _greatest_entropy(sides: Sequence[FloatArray]) -> FloatArray:
    """Many tables with these pairs, of all axes but the last, the second and the first, by proportional fitting."""
    shape = (*sides[0].shape, sides[1].shape[-1])
    tables = np.full(shape, 1.0 / math.prod(shape[1:]))
    for _ in range(FITTING_ROUNDS):
        for axis, side in zip((3, 2, 1), sides, strict=True):
            now = tables.sum(axis=axis)
            ratio = np.divide(side, now, out=np.zeros_like(now), where=now > 1e-300)
            tables = tables * np.expand_dims(ratio, axis)
    sums = tables.sum(axis=(1, 2, 3), keepdims=True)
    return tables / np.where(sums > 0, sums, 1.0)


def chi_square(freedom: int, normal: float) -> float:
    """The quantile of chi-square that has the place `normal` has among normals (Wilson & Hilferty 1931)."""
    step = 2 / (9 * freedom)
    return freedom * (1 - step + normal * math.sqrt(step)) ** 3
