"""How far two tables' exact numbers lie apart in the noise's own measure, as a share of what its event pays for.

Every kind of noise says by its event how far one unit may move what it is added to: Gaussian(z) on numbers x_i with
noise of std s_i holds if sum (x_i - x'_i)^2 / s_i^2 <= 1/z^2. `moved` computes the left side from the exact numbers of
two neighbours, in whole numbers wherever they are whole, and returns it times z^2: above 1 is a privacy violation.
Noise that samples first (`StepsNoise`, `SliceNoise`) is judged by what one record adds to a sample that it is in, and
by how many records differ; draws from a fitted normal by the Renyi divergence of the two normals at the charged orders.

A kind of noise that is not known here is an error, so that no mechanism can be added without its measure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.special import ndtr

from understudy.pipelines.auditing.words import ReplayedWords, with_words
from understudy.pipelines.counting.adaptive import Contest, RoundNoise
from understudy.pipelines.counting.mechanism import MarginalNoise
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.counting.triples import TripleCounts, TriplesNoise
from understudy.pipelines.discovery.mechanism import DiscoveryNoise, Sums
from understudy.pipelines.methods.gaussian.mechanism import MomentNoise
from understudy.pipelines.methods.gaussian.pairs import ProductNoise
from understudy.pipelines.methods.gaussian.sampling_noise import FittedNormal, SampleNoise
from understudy.pipelines.methods.kernel.mechanism import GridRecords, OnceNoise, StepsNoise
from understudy.pipelines.methods.mixing.mechanism import ClassRecords, SliceNoise
from understudy.pipelines.methods.mixing.statistics import StatisticsDesign
from understudy.pipelines.privacy.events import (
    Approximate,
    Event,
    Gaussian,
    PoissonSampled,
    RenyiCurve,
    SelfComposed,
    ZeroConcentrated,
)
from understudy.pipelines.privacy.mechanism import NothingDrawn
from understudy.pipelines.privacy.noise.rounded import RandomSource

FAR = Fraction(10**9)
"""What cannot be compared at all lies this far apart: an excess by any measure."""
_TOLERANCE = 1e-9  # of divergences, which are computed in doubles

Tables = Mapping[str, np.ndarray]


@singledispatch
def moved(noise: Any, one: Any, other: Any) -> Fraction:
    """The square of what moved over the square of what is paid for. `one` and `other` are the exact numbers."""
    raise NotImplementedError(f"no measure is known for {type(noise).__name__}: add it to auditing/moves.py")


@moved.register
def _nothing(noise: NothingDrawn, one: None, other: None) -> Fraction:
    return Fraction(0)


@moved.register
def _marginals(noise: MarginalNoise, one: Tables, other: Tables) -> Fraction:
    return _apart(one, other, noise.stds) * _multiplier(noise.event) ** 2


@moved.register
def _residuals(noise: ResidualNoise, one: Tables, other: Tables) -> Fraction:
    """Of residuals only what differences see: G times the change, centred along every axis, in whole numbers."""
    if list(one) != list(other):
        return FAR
    square, names = Fraction(0), list(one)
    for name, shape, std in zip(names, noise.shapes, noise.stds, strict=False):
        change = (other[name].astype(np.int64) - one[name].astype(np.int64)).reshape(shape).astype(object)
        for axis, size in enumerate(shape):
            change = size * change - change.sum(axis=axis, keepdims=True)
        square += Fraction(_square(np.asarray(change))) / Fraction(std) ** 2
    beside = names[len(noise.shapes) :]
    if noise.beside is not None:
        plain = [{name: tables[name] for name in beside} for tables in (one, other)]
        square += _apart(plain[0], plain[1], noise.beside.stds)
    elif beside:
        return FAR
    return square * _multiplier(noise.event) ** 2


@moved.register
def _round(noise: RoundNoise, one: Contest, other: Contest) -> Fraction:
    """The worse of the choice and of what may be chosen. A score is a distance from a copy that the history decides,
    so that the counts' own distance is what some copy makes of it; the scores that came are looked at as well."""
    if one.candidates != other.candidates:
        return FAR
    worst = Fraction(0)
    for clique, score, twin in zip(one.candidates, one.scores, other.scores, strict=True):
        change = np.abs(other.counts[clique].astype(np.int64) - one.counts[clique].astype(np.int64)).sum()
        by_scores = max(int(change), abs(int(score) - int(twin)))
        worst = max(worst, Fraction(by_scores, noise.score_sensitivity) ** 2)
        before, after = (noise.tables_of(clique, each.counts[clique]) for each in (one, other))
        worst = max(worst, moved(noise.noise_of(clique), before, after))
    return worst


@moved.register
def _triples(noise: TriplesNoise, one: TripleCounts, other: TripleCounts) -> Fraction:
    """The worst of the releases within, each after what the first table's draws gave before it."""
    if one.public_total != other.public_total:
        return FAR
    steps: list[tuple[ResidualNoise, Tables, Mapping[str, np.ndarray]]] = []
    twins: list[tuple[ResidualNoise, Tables]] = []
    drawn = ResidualNoise.draw

    def record(inner: ResidualNoise, exact: Tables, randomness: RandomSource) -> dict[str, np.ndarray]:
        released = drawn(inner, exact, randomness)
        steps.append((inner, exact, released))
        return released

    def replay(inner: ResidualNoise, exact: Tables, randomness: RandomSource) -> dict[str, np.ndarray]:
        twins.append((inner, exact))
        return dict(steps[len(twins) - 1][2])

    drawing = with_words(noise)
    with _drawing(record):
        drawing.draw(one, ReplayedWords(0))
    with _drawing(replay):
        drawing.draw(other, ReplayedWords(0))
    if [inner for inner, _, _ in steps] != [inner for inner, _ in twins]:
        return FAR
    return max(moved(inner, exact, twin) for (inner, exact, _), (_, twin) in zip(steps, twins, strict=True))


@contextmanager
def _drawing(draw: Any) -> Iterator[None]:
    """Residuals are drawn so, within: a noise that is made of several has no other place to look at them."""
    before = ResidualNoise.draw
    ResidualNoise.draw = draw  # type: ignore[method-assign]
    try:
        yield
    finally:
        ResidualNoise.draw = before  # type: ignore[method-assign]


@moved.register
def _discovered(noise: DiscoveryNoise, one: Mapping[str, Sums], other: Mapping[str, Sums]) -> Fraction:
    """The worse of two: how far the sums moved, and how likely it is that a value which only one of the two tables has
    is shown, over the delta that is charged for that. Values are told apart by their texts, whatever their order."""
    if list(one) != list(other):
        return FAR
    square, event = Fraction(0), noise.event
    spilt = [0.0, 0.0]
    for question, std, threshold in zip(noise.questions, noise.stds, noise.thresholds, strict=True):
        sums = [one[question.name], other[question.name]]
        if threshold is None:
            if sums[0].weights.shape != sums[1].weights.shape:
                return FAR
            square += Fraction(_square(sums[1].weights - sums[0].weights)) / Fraction(std) ** 2
            continue
        first, second = (_by_value(each) for each in sums)
        change = [second.get(value, 0) - first.get(value, 0) for value in {**first, **second}]
        square += Fraction(sum(step**2 for step in change)) / Fraction(std) ** 2
        for side, (mine, theirs) in enumerate(((first, second), (second, first))):
            own = np.array([weight for value, weight in mine.items() if value not in theirs], float)
            spilt[side] += float(ndtr(-(threshold - own - 0.5) / std).sum())
    share = square * _multiplier(event) ** 2
    if isinstance(event, Approximate):
        return max(share, Fraction(max(spilt) / event.delta * (1 - _TOLERANCE)) ** 2)
    return FAR if max(spilt) > 0 else share


def _by_value(sums: Sums) -> dict[str, int]:
    assert sums.values is not None
    return dict(zip(sums.values.to_pylist(), sums.weights.tolist(), strict=True))


@moved.register(MomentNoise)
@moved.register(ProductNoise)
def _blocks(noise: MomentNoise | ProductNoise, one: np.ndarray, other: np.ndarray) -> Fraction:
    square = Fraction(0)
    for block in noise.blocks:
        change = _square(block.query(other) - block.query(one))
        if not block.std > 0:
            square += FAR if change else 0
        else:
            square += Fraction(change) / Fraction(block.std) ** 2
    return square * _multiplier(noise.event) ** 2


@moved.register
def _statistics(noise: StatisticsDesign, one: np.ndarray, other: np.ndarray) -> Fraction:
    return Fraction(_square(other - one)) / Fraction(noise.sigma) ** 2 * _multiplier(noise.event) ** 2


@moved.register
def _once(noise: OnceNoise, one: np.ndarray, other: np.ndarray) -> Fraction:
    return Fraction(_square(other - one)) / Fraction(noise.design.sigma) ** 2 * _multiplier(noise.event) ** 2


@moved.register
def _steps(noise: StepsNoise, one: GridRecords, other: GridRecords) -> Fraction:
    design = noise.design
    rows = [[(int(k), tuple(r.tolist())) for r, k in zip(x.records, x.labels, strict=True)] for x in (one, other)]
    if len(differing := _differing(*rows)) > 1:
        return FAR
    worst = Fraction(0)
    for label, record in differing:
        for block in range(noise.first, noise.first + noise.steps):
            totals = np.zeros((design.classes, design.numbers), dtype=np.int64)
            grid = np.array([record], dtype=one.records.dtype)
            design.features.add(block, grid, np.array([label]), totals)
            totals[label, -1] += design.count_weight
            worst = max(worst, Fraction(_square(totals)))
    return worst / Fraction(design.sigma) ** 2 * _multiplier(noise.event) ** 2


@moved.register
def _mixtures(noise: SliceNoise, one: ClassRecords, other: ClassRecords) -> Fraction:
    if one.wanted != other.wanted:
        return FAR
    rows = [[(k, tuple(x.records[row].tolist())) for k, its in enumerate(x.rows) for row in its] for x in (one, other)]
    if len(differing := _differing(*rows)) > 1:
        return FAR
    worst = max((sum(value**2 for value in record) for _, record in differing), default=0)
    return Fraction(worst, noise.design.norm_bound**2)


@moved.register
def _samples(noise: SampleNoise, one: FittedNormal, other: FittedNormal) -> Fraction:
    """The largest Renyi divergence of one record over the charged one, over orders and both directions; squared."""
    event = noise.event
    assert isinstance(event, RenyiCurve)
    chosen = range(0, len(event.orders), max(1, len(event.orders) // 12))
    worst = 0.0
    for order, epsilon in ((event.orders[place], event.epsilons[place] / noise.rows) for place in chosen):
        for p, q in ((one, other), (other, one)):
            worst = max(worst, renyi_divergence(p, q, order) / epsilon - _TOLERANCE)
    return Fraction(min(max(worst, 0.0), 1e6)) ** 2


def renyi_divergence(p: FittedNormal, q: FittedNormal, order: float) -> float:
    """Of two normals (Gil, Alajaji & Linder 2013, Table 2); infinite where it does not exist."""
    first, second = p.factor @ p.factor.T, q.factor @ q.factor.T
    mixed = order * second + (1 - order) * first
    sign, size = np.linalg.slogdet(mixed)
    if sign <= 0 or np.linalg.eigvalsh(mixed)[0] <= 0:
        return math.inf
    gap = p.mean - q.mean
    log_sizes = (1 - order) * np.linalg.slogdet(first)[1] + order * np.linalg.slogdet(second)[1]
    return float(order / 2 * gap @ np.linalg.solve(mixed, gap) - (size - log_sizes) / (2 * (order - 1)))


def _multiplier(event: Event) -> Fraction:
    """z of the Gaussian that an event is, or that is applied to a sample."""
    match event:
        case Gaussian(z) | PoissonSampled(_, Gaussian(z)) | SelfComposed(PoissonSampled(_, Gaussian(z)), _):
            return Fraction(z)
        case Approximate(Gaussian(z), _):
            return Fraction(z)
        case ZeroConcentrated(rho):
            return Fraction(math.sqrt(1 / (2 * rho)))
    raise NotImplementedError(f"no multiplier is known for {event}")


def _apart(one: Tables, other: Tables, stds: Iterable[float]) -> Fraction:
    if list(one) != list(other) or any(one[name].shape != other[name].shape for name in one):
        return FAR
    changes = (np.asarray(other[name], np.int64) - np.asarray(one[name], np.int64) for name in one)
    return sum((Fraction(_square(c)) / Fraction(std) ** 2 for c, std in zip(changes, stds, strict=True)), Fraction(0))


def _square(change: np.ndarray) -> int:
    """Exact: squares of large sums do not fit 64 bits."""
    return sum(int(value) ** 2 for value in change.ravel()[np.flatnonzero(change.ravel())])


def _differing(one: list[Any], other: list[Any]) -> list[Any]:
    """What is in one list and not in the other; of a replacement the two count once, since both are of one unit."""
    less, more = Counter(one) - Counter(other), Counter(other) - Counter(one)
    if less.total() == more.total() == 1:
        return [max([*less, *more], key=lambda each: sum(value**2 for value in each[1]))]
    return [*less.elements(), *more.elements()]
