"""What neighbours say of each other: estimates along the axis of an ordered column, from groups to single codes.

One column. Its counts in groups of neighbours and in single codes are first made one (inverse variance, from the codes
up), then told from the groups down: a group's mass is split among its parts as a smooth distribution would split it
(monotone cubic through the cumulative masses), and what the parts' own counts say beside that is kept as far as their
noise deserves (`shrinkage.shrink_by_expectation`).

Two columns. The interaction of a pair is p q g: g, the departure of the copula's density from 1, is taken for a
Gaussian field over the *ranks* of the two columns whose correlation falls as exp(-distance / length); for a column
without order, and for codes off an axis, ranks of different codes have nothing to do with each other, which is the
prior N(0, t E) of `shrinkage`. Bins do not occur in this prior, so that more of them change nothing. Given noisy
interactions in groups, the posterior mean over any other groups is a product of small matrices (kriging). Strength and
length are those of greatest likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator

from understudy.pipelines.counting.groups import Starts
from understudy.pipelines.methods.privpgd.projection import project_to_simplex
from understudy.pipelines.methods.privpgd.shrinkage import shrink_by_expectation
from understudy.pipelines.methods.privpgd.stein import Shrunk

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

LENGTHS = (0.03, 0.1, 0.3, 1.0)
"""How far along the ranks a departure reaches; 1 is the whole column."""
STRENGTHS = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 46)])
LEAST_EIGENVALUE = 1e-9


@dataclass(frozen=True, eq=False)
class Counted:
    """Estimated counts of a column's codes, or of groups of them, with the variance of each."""

    starts: Starts
    counts: FloatArray
    variance: float


def column_from_groups(levels: Sequence[Counted], on_axis: int, total: float) -> FloatArray:
    """Probabilities of the codes; `levels` from the coarsest groups to the codes, each within one of the last."""
    joined = _from_codes_up(levels)
    edges = [np.array(level.starts, dtype=np.intp) for level in levels]
    masses = project_to_simplex(joined[0][0] / total)
    for level in range(1, len(levels)):
        counts, variances = joined[level]
        parents = np.searchsorted(edges[level - 1], edges[level], side="right") - 1
        expected = _split(masses, edges[level - 1], edges[level], on_axis)
        beside = counts / total - expected
        beside -= (np.bincount(parents, beside) / np.bincount(parents))[parents]
        kept = shrink_by_expectation(beside, expected, float(np.mean(variances)) / total**2).interaction
        masses = _within(expected + kept, parents, masses)
    return masses


def _from_codes_up(levels: Sequence[Counted]) -> list[tuple[FloatArray, FloatArray]]:
    """Counts and variances of each level, with what all finer ones say of it."""
    joined: list[tuple[FloatArray, FloatArray]] = []
    for place in range(len(levels) - 1, -1, -1):
        level = levels[place]
        counts, variances = level.counts, np.full(len(level.counts), level.variance)
        if joined:
            groups = np.searchsorted(np.array(levels[place + 1].starts), np.array(level.starts))
            below, spread = (np.add.reduceat(each, groups) for each in joined[0])
            trust = spread / (spread + variances)
            counts, variances = trust * counts + (1 - trust) * below, trust * variances
        joined.insert(0, (counts, variances))
    return joined


def _split(masses: FloatArray, starts: IntArray, finer: IntArray, on_axis: int) -> FloatArray:
    """The masses of finer groups of a smooth distribution with these masses; codes off the axis keep theirs."""
    inside, finer_inside = starts < on_axis, finer < on_axis
    edges = np.append(starts[inside], on_axis).astype(np.float64)
    below = np.concatenate([[0.0], np.cumsum(masses[inside])])
    cumulative = PchipInterpolator(edges, below)(np.append(finer[finer_inside], on_axis).astype(np.float64))
    return np.concatenate([np.maximum(np.diff(cumulative), 0.0), masses[~inside]])


def _within(wanted: FloatArray, parents: IntArray, masses: FloatArray) -> FloatArray:
    """The nearest masses that are not negative and sum to their parents'."""
    bounds = np.searchsorted(parents, np.arange(len(masses) + 1))
    found = np.zeros_like(wanted)
    for parent, mass in enumerate(masses):
        its = slice(bounds[parent], bounds[parent + 1])
        if mass > 0.0:
            found[its] = mass * project_to_simplex(wanted[its] / mass)
    return found


@dataclass(frozen=True, eq=False)
class Axis:
    """How an interaction varies along one column: over all groups it was measured in, and onto those it is wanted in.

    The prior covariance of the former, in units of their noise, is `vectors` diag(`values`) `vectors`^T; `onto` is that
    between the latter and the former, times `vectors`. All sum to zero, as interactions do.
    """

    values: FloatArray
    vectors: FloatArray
    onto: FloatArray


@dataclass(frozen=True)
class Grouped:
    """A column's codes in groups, by the first code of each, and the std of their noise beside other groupings'."""

    starts: Starts
    std: float = 1.0


def axis_of(
    masses: FloatArray, on_axis: int | None, length: float, measured: Sequence[Grouped], wanted: IntArray
) -> Axis:
    """`masses` of the codes, the first `on_axis` of them in order, or None; `wanted` is the wanted group of each.

    Wanted groups of a column with order hold neighbours. One without is measured code by code.
    """
    stds = np.concatenate([np.full(len(each.starts), each.std) for each in measured])
    if on_axis is None:
        own, both = np.diag(masses), np.zeros((int(wanted.max()) + 1, len(masses)))
        both[wanted, np.arange(len(masses))] = masses
    else:
        ranks = np.concatenate([[0.0], np.cumsum(masses)])
        firsts = np.concatenate([[0], np.flatnonzero(np.diff(wanted)) + 1])
        groups = [np.array(each.starts, dtype=np.intp) for each in measured]
        own = np.block([[_covariance(a, b, ranks, on_axis, length) for b in groups] for a in groups])
        both = np.hstack([_covariance(firsts, b, ranks, on_axis, length) for b in groups])
    # Given that all sum to zero: the covariance with the sum of any one grouping, that is of all codes, is taken out.
    first = len(measured[0].starts)
    sums, wanted_sums = own[:, :first].sum(axis=1), both[:, :first].sum(axis=1)
    total = float(sums[:first].sum())
    own = (own - np.outer(sums, sums) / total) / np.outer(stds, stds)
    both = (both - np.outer(wanted_sums, sums) / total) / stds
    values, vectors = np.linalg.eigh(own)
    kept = values > LEAST_EIGENVALUE * max(values[-1], 1e-300)
    return Axis(values[kept], vectors[:, kept], both @ vectors[:, kept])


def _covariance(these: IntArray, those: IntArray, ranks: FloatArray, on_axis: int, length: float) -> FloatArray:
    """Between groups with these and those first codes. A code off the axis has nothing to do with any other."""
    found = np.zeros((len(these), len(those)))
    here, there = (np.append(ranks[each[each < on_axis]], ranks[on_axis]) for each in (these, those))
    found[: len(here) - 1, : len(there) - 1] = _correlated(here, there, length)
    for code in range(on_axis, len(ranks) - 1):
        found[np.searchsorted(these, code), np.searchsorted(those, code)] = ranks[code + 1] - ranks[code]
    return found


def _correlated(these: FloatArray, those: FloatArray, length: float) -> FloatArray:
    """exp(-|x - y| / length) / (2 length), integrated over the intervals between `these` and between `those` edges."""
    gap = np.abs(these[:, None] - those[None, :])
    twice = 0.5 * length * np.exp(-gap / length) + 0.5 * gap
    return np.asarray(-np.diff(np.diff(twice, axis=0), axis=1))


def kriged(seen: FloatArray, axes: Sequence[tuple[Axis, Axis]]) -> Shrunk:
    """The posterior mean, over the wanted groups, of an interaction: `seen` in all measured groups of one column by all
    of the other, in units of their noise.

    `axes` are those of the two columns for each length that may be.
    """
    least, best = np.inf, None
    everything = float(np.sum(np.square(seen)))
    for rows, columns in axes:
        along = rows.vectors.T @ seen @ columns.vectors
        prior = np.outer(rows.values, columns.values)
        if not prior.size:
            continue
        squares = np.square(along)
        outside = everything - float(squares.sum())  # what a prior does not reach it takes for noise
        for strength in STRENGTHS / prior.mean():
            spread = strength * prior + 1.0
            misfit = float(np.sum(np.log(spread) + squares / spread)) + outside
            if misfit < least:
                freedom = float(np.sum(strength * prior / spread))
                least, best = misfit, (rows.onto, along * (strength / spread), columns.onto, freedom)
    if best is None:
        return Shrunk(np.zeros((axes[0][0].onto.shape[0], axes[0][1].onto.shape[0])), 0.0)
    return Shrunk(np.asarray(best[0] @ best[1] @ best[2].T), best[3])
