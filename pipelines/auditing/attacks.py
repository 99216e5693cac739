"""The strongest test there is against a release, made often: a lower bound on what it loses, beside what it claims.

The attacker knows both neighbours, the method, all noise scales and everything that was released, and decides by the
likelihood ratio, which no test beats (Neyman & Pearson 1933). The pair is a worst case: a table of nobody, and one of a
single unit in the farthest corner, or where units are replaced the farthest of some pairs of corners. Of `releases`
complete releases of either table the errors of both kinds are counted; Clopper & Pearson's interval bounds their
probabilities from above, each with half of the allowed chance, and mu >= Phi^-1(1 - false alarms) - Phi^-1(misses)
holds with that confidence. The threshold is fixed beforehand.

Claimed is, for Gaussians, mu itself; for a release that samples first, the mu of the best test that its privacy loss
distribution allows at the same rate of false alarms. A ratio near 1 says that the noise is no larger than it must be; a
lower bound above 1 would say that the claim is false.

Reference. Nasr et al. 2023 (auditing in the Gaussian measure); Dong, Roth & Su 2022 (trade-off functions).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats
from scipy.special import log_ndtr, ndtr, ndtri

from understudy.pipelines.auditing.made import corner_pairs
from understudy.pipelines.auditing.replay import (
    ADDED,
    Recorder,
    Replayer,
    Step,
    Subject,
    events_of,
    measured,
    released_without_noise,
    replayed,
    spec_of,
)
from understudy.pipelines.auditing.values import Tables
from understudy.pipelines.auditing.words import StreamedWords, same_copies, with_words
from understudy.pipelines.counting.mechanism import MarginalNoise
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.discovery.mechanism import DiscoveryNoise, Sums, shown_values
from understudy.pipelines.methods.gaussian.mechanism import MomentNoise
from understudy.pipelines.methods.gaussian.pairs import ProductNoise
from understudy.pipelines.methods.kernel.mechanism import GridRecords, OnceNoise, StepsNoise
from understudy.pipelines.methods.mixing.mechanism import ClassRecords, SliceNoise
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.curves import leaves_of, mu_squared
from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.measurement import Measurement


@dataclass(frozen=True)
class LowerBound:
    """What an attack reached: at least `mu`, with the confidence, where `claimed` is the most that may be reached."""

    mu: float
    estimate: float
    claimed: float
    reach: float
    """How much of what was paid for the pair of tables uses; no attack on it can show more of the claim."""
    releases: int
    confidence: float
    seconds: float

    @property
    def ratio(self) -> float:
        return self.mu / self.claimed

    @property
    def holds(self) -> bool:
        return self.mu <= self.claimed


def attacked(planned: Subject, releases: int, confidence: float = 0.99, seed: int = 1) -> LowerBound:
    """So many complete releases of nobody and of one row, told apart as well as can be."""
    start = time.process_time()
    pairs = corner_pairs(spec_of(planned))
    reach, number = max((replayed(planned, *pair, seed).share, number) for number, pair in enumerate(pairs))
    one, other = pairs[number]
    scores = [
        np.fromiter(_scores(planned, one, other, truth, releases, seed), float, releases) for truth in (False, True)
    ]
    alarms, misses = int((scores[0] > 0).sum()), int((scores[1] <= 0).sum())
    false_alarms, missed = (at_most(found, releases, (1 - confidence) / 2) for found in (alarms, misses))
    return LowerBound(
        mu=max(0.0, float(ndtri(1 - false_alarms) - ndtri(missed))),
        estimate=_gap(alarms / releases, misses / releases),
        claimed=claimed_mu(events_of(planned), false_alarms, planned),
        reach=reach,
        releases=releases,
        confidence=confidence,
        seconds=time.process_time() - start,
    )


def at_most(found: int, tries: int, chance: float) -> float:
    """Clopper & Pearson: a probability that is exceeded with at most this chance, given what was found."""
    return 1.0 if found == tries else float(stats.beta.ppf(1 - chance, found + 1, tries - found))


def claimed_mu(events: list[Event], false_alarms: float, planned: Subject) -> float:
    """The most that any test may reach at this rate of false alarms if the events tell the truth."""
    relation = spec_of(planned).privacy.relation
    squared = mu_squared(leaves_of(((event, 1) for event in events), relation))
    if squared is not None:
        return math.sqrt(squared)
    losses = (composed_loss(events, float(delta), relation) for delta in np.linspace(0.02, 0.98, 25))
    return _gap(false_alarms, max(1 - loss.delta - math.exp(loss.epsilon) * false_alarms for loss in losses))


def _gap(false_alarms: float, misses: float) -> float:
    least = 1e-12
    return float(ndtri(1 - min(max(false_alarms, least), 1 - least)) - ndtri(min(max(misses, least), 1 - least)))


def _scores(planned: Subject, nobody: Tables, row: Tables, truth: bool, releases: int, seed: int) -> Iterable[float]:
    """The log-likelihood ratio of each release, of the row over nobody."""
    tables, own = (row, nobody) if truth else (nobody, row), seed + 1_000_003 * truth
    steps = _in_step(planned, tables, own)
    if len(steps) == 1:  # a single question does not depend on what was released: it is only drawn anew
        mechanism, twin = steps[0][0].mechanism, steps[0][1].mechanism
        noise, words = with_words(mechanism.noise), StreamedWords(own)
        judge = judging(noise, *((twin.exact, mechanism.exact) if truth else (mechanism.exact, twin.exact)))
        yield from (judge(noise.draw(mechanism.exact, words)) for _ in range(releases))
        return
    for number in range(releases):
        if number:
            steps = _in_step(planned, tables, own + 2_000_006 * number)
        pairs = [(one, other) if not truth else (other, one) for one, other in steps]
        yield sum(
            log_ratio(one.mechanism.noise, one.mechanism.exact, other.mechanism.exact, first.released)
            for (first, _), (one, other) in zip(steps, pairs, strict=True)
        )


def _in_step(planned: Subject, tables: tuple[Tables, Tables], seed: int) -> list[tuple[Step, Step]]:
    """The exact numbers of both tables at every step, after what was released of the first."""
    seller = Recorder(seed)
    with same_copies(seed):
        first = measured(planned, tables[0], seller)
    other = Replayer(seed, seller.steps, draws=False)
    with same_copies(seed):
        second = measured(planned, tables[1], other)
    if isinstance(first, str) or isinstance(second, str):
        raise RuntimeError(f"a made table cannot be measured: {first if isinstance(first, str) else second}")
    return list(zip(seller.steps, other.steps, strict=True))


def judging(noise: Any, one: Any, other: Any) -> Callable[[Mapping[str, np.ndarray]], float]:
    """`log_ratio` of two exact numbers, for many releases."""
    if not isinstance(noise, ADDED):
        return lambda arrays: log_ratio(noise, one, other, Measurement("", {}, arrays))
    weights, middle = _weighed(noise, one, other)
    return lambda arrays: sum(float(weight @ arrays[name].ravel()) for name, weight in weights.items()) - middle


@singledispatch
def log_ratio(noise: Any, one: Any, other: Any, released: Measurement) -> float:
    """Log-likelihood of what was released under the exact numbers `other`, over that under `one`."""
    if not isinstance(noise, ADDED):
        raise NotImplementedError(f"no likelihood is known for {type(noise).__name__}: add it to auditing/attacks.py")
    return judging(noise, one, other)(released.arrays)


def _weighed(noise: Any, one: Any, other: Any) -> tuple[dict[str, np.ndarray], float]:
    """Of noise that is added the ratio is linear: what each released number weighs, and the sum halfway between."""
    first, second = (_coordinates(noise, released_without_noise(noise, each)) for each in (one, other))
    weights, middle = {}, 0.0
    shapes = dict(zip(first, noise.shapes, strict=False)) if isinstance(noise, ResidualNoise) else {}
    for name, (mine, std) in first.items():
        apart = second[name][0] - mine
        if std > 0 and apart.any():
            weight = apart / std**2
            middle += float((weight * (mine + second[name][0])).sum()) / 2
            weights[name] = (_on_differences(weight) if name in shapes else weight).ravel()
    return weights, middle


def _on_differences(weight: np.ndarray) -> np.ndarray:
    """The weights of differences that make the same sum as `weight` of a table; `weight` sums to zero along axes."""
    for axis in range(weight.ndim):
        after = np.flip(np.cumsum(np.flip(weight, axis), axis), axis)
        weight = np.take(after, range(1, weight.shape[axis]), axis)
    return weight


@log_ratio.register
def _mixtures(noise: SliceNoise, one: ClassRecords, other: ClassRecords, released: Measurement) -> float:
    """Each mixture of the record's class holds it with the public probability; the others tell nothing."""
    label, record = _added(one, other)
    start = sum(min(count, noise.mixtures) for count in one.wanted[:label])
    sums = released.arrays["sums"][start : start + min(one.wanted[label], noise.mixtures)].astype(float)
    return _sampled(sums @ record, float(record @ record), noise.design.sigma, noise.design.inclusion)


@log_ratio.register
def _discovered(
    noise: DiscoveryNoise, one: Mapping[str, Sums], other: Mapping[str, Sums], released: Measurement
) -> float:
    """Of public cells as ever; of a value that is shown by its sum, of one that is not by the chance of that. A value
    that only one table has decides everything where it is shown, which delta is charged for."""
    total = 0.0
    for question, std, threshold in zip(noise.questions, noise.stds, noise.thresholds, strict=True):
        sums = one[question.name], other[question.name]
        if threshold is None:
            first, second = (each.weights.astype(float) for each in sums)
            seen = released.arrays[question.name].astype(float)
            total += float(((second - first) * (2 * seen - first - second)).sum()) / (2 * std * std)
            continue
        shown = shown_values(released.arrays, question.name)
        weights = [dict(zip((each.values or pa.array([])).to_pylist(), each.weights, strict=True)) for each in sums]
        for value in {**weights[0], **weights[1]}:
            lower, upper = (float(each.get(value, 0)) for each in weights)
            if value in shown:
                apart = (upper - lower) * (2 * shown[value] - lower - upper) / (2 * std * std)
                total += math.inf if value not in weights[0] else -math.inf if value not in weights[1] else apart
            else:
                hidden = [log_ndtr((threshold - 0.5 - weight) / std) for weight in (lower, upper)]
                total += float(hidden[1] - hidden[0])
    return total


@log_ratio.register
def _steps(noise: StepsNoise, one: GridRecords, other: GridRecords, released: Measurement) -> float:
    design, total = noise.design, 0.0
    for step in range(noise.steps):
        record = np.zeros((design.classes, design.numbers), dtype=np.int64)
        design.features.add(noise.first + step, other.records, other.labels, record)
        record[other.labels, -1] += design.count_weight
        flat, seen = record.ravel().astype(float), released.arrays["embedding"][step].ravel().astype(float)
        total += _sampled(np.array([seen @ flat]), float(flat @ flat), design.sigma, design.rate)
    return total


def _sampled(inner: np.ndarray, square: float, sigma: float, rate: float) -> float:
    """Of sums in which the record is with probability `rate`: log((1 - q) + q exp(...)) of each."""
    exponents = (2 * inner - square) / (2 * sigma**2)
    return float(np.logaddexp(math.log1p(-rate) if rate < 1 else -math.inf, math.log(rate) + exponents).sum())


def _added(one: ClassRecords, other: ClassRecords) -> tuple[int, np.ndarray]:
    label = next(k for k, rows in enumerate(other.rows) if len(rows) > len(one.rows[k]))
    return label, other.records[other.rows[label][-1]].astype(float)


def whitened(noise: Any, exact: Any, released: Measurement) -> tuple[np.ndarray, np.ndarray]:
    """What was released and the exact numbers below it, as vectors in which the noise has variance 1."""
    seen, below = (_coordinates(noise, arrays) for arrays in (released.arrays, released_without_noise(noise, exact)))
    kept = [name for name, (_, std) in seen.items() if std > 0]
    one, two = (np.concatenate([(found[name][0] / found[name][1]).ravel() for name in kept]) for found in (seen, below))
    return one, two


def _coordinates(noise: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[np.ndarray, float]]:
    """Released numbers in coordinates whose noise has one std and, in every direction that matters, no ties."""
    match noise:
        case MarginalNoise():
            return _with_std(arrays, noise.stds)
        case ResidualNoise():
            names = list(arrays)
            found = {
                name: (_centred(arrays[name], shape), std)
                for name, shape, std in zip(names, noise.shapes, noise.stds, strict=False)
            }
            beside = {name: arrays[name] for name in names[len(noise.shapes) :]}
            return found | (_with_std(beside, noise.beside.stds) if noise.beside is not None else {})
        case MomentNoise() | ProductNoise():
            return {block.name: (arrays[block.name].astype(float), block.std) for block in noise.blocks}
        case _:
            sigma = noise.design.sigma if isinstance(noise, OnceNoise) else noise.sigma
            return {name: (array.astype(float), sigma) for name, array in arrays.items()}


def _with_std(arrays: Mapping[str, np.ndarray], stds: Iterable[float]) -> dict[str, tuple[np.ndarray, float]]:
    return {name: (array.astype(float), std) for (name, array), std in zip(arrays.items(), stds, strict=True)}


def _centred(differences: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The one table with these differences along every axis whose sums along every axis are zero."""
    table = differences.astype(float).reshape(tuple(size - 1 for size in shape))
    for axis in range(len(shape)):
        table = np.cumsum(np.insert(table, 0, 0.0, axis=axis), axis=axis)
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def power(mu: float) -> float:
    """How often the better of two guesses is right, at best."""
    return float(ndtr(mu / 2))


def could_show(mu: float, releases: int, confidence: float) -> float:
    """The lower bound that the best test comes to, if its errors are as often as is expected of it."""
    errors = round(releases * float(ndtr(-mu / 2)))
    return max(0.0, -2 * float(ndtri(at_most(errors, releases, (1 - confidence) / 2))))
