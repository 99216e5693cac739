"""Many canaries in one release: a lower bound from a single run, where thousands of runs are too dear.

Of m made units, the canaries, each is put into the table or left out by a fair coin. One release of that table is
looked at; the attacker, who knows all canaries, the noise and the released numbers, guesses which were in, abstaining
where the numbers say little. How many of its guesses may be right is bounded

- for (epsilon, delta): right ones are dominated by Binomial(guesses, e^epsilon / (1 + e^epsilon)) but for a part of
  order m delta (Steinke, Nasr & Jagielski 2023, Theorem 5.2);
- for Gaussian differential privacy of mu, by its whole trade-off function f: with p_i the chance of i right guesses of
  c, R_j = sum_(i >= j) i p_i / m and H_j = sum_(i >= j) (c - i) p_i / m, every j has R_j <= 1 - f(H_(j-1))
  (Mahloujifar, Melis & Chaudhuri 2024, Theorem 9). Whether so many right guesses can have a chance of tau is a
  recursion from the tail down: if R_0 + H_0 must exceed c / m, they cannot.

How many guesses are made is chosen among a few numbers that were fixed beforehand; the allowed chance of error is
shared among them (Bonferroni).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

from understudy.pipelines.auditing.attacks import claimed_mu, whitened
from understudy.pipelines.auditing.made import canaries_of
from understudy.pipelines.auditing.replay import ADDED, Recorder, measured
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.releasing.planning import Planned

PARTS = (0.05, 0.1, 0.2)
"""Of the canaries that are guessed at, the surest ones first."""


@dataclass(frozen=True)
class OneRun:
    """What one release gave away: at least `mu`, and at least `epsilon`, with the confidence."""

    canaries: int
    guesses: int
    right: int
    mu: float
    epsilon: float
    claimed: float
    claimed_epsilon: float
    confidence: float
    seconds: float

    @property
    def holds(self) -> bool:
        return self.mu <= self.claimed and self.epsilon <= self.claimed_epsilon


def one_run(planned: Planned, canaries: int, confidence: float = 0.95, seed: int = 1) -> OneRun:
    """Canaries in the table by fair coins, one release, and the best guesses about it."""
    start, rng = time.process_time(), random.Random(f"{seed} canaries")  # noqa: S311 (made tables, nothing private)
    made = canaries_of(planned.spec, canaries, rng)
    inside = np.array([rng.random() < 0.5 for _ in range(canaries)])
    nobody, table = made.table([]), made.table(list(np.flatnonzero(inside)))
    _, nothing = _looked_at(planned, nobody, seed)
    alone = np.array([_looked_at(planned, made.table([i]), seed)[1] - nothing for i in range(canaries)])
    released, _ = _looked_at(planned, table, seed)
    right, sure = _guessed(alone, released - nothing, inside)
    chance = (1 - confidence) / len(PARTS)
    privacy, events = planned.spec.privacy, [charge.event for charge in planned.plan.charges]
    delta = float(privacy.delta)
    tried = [max(1, round(part * canaries)) for part in PARTS]
    hits = [int(right[sure[:guesses]].sum()) for guesses in tried]
    bounds = [largest_mu(canaries, *each, chance) for each in zip(tried, hits, strict=True)]
    best = int(np.argmax(bounds))
    return OneRun(
        canaries=canaries,
        guesses=tried[best],
        right=hits[best],
        mu=bounds[best],
        epsilon=max(largest_epsilon(canaries, *each, delta, chance) for each in zip(tried, hits, strict=True)),
        claimed=claimed_mu(events, 0.5, planned),
        claimed_epsilon=composed_loss(events, delta, privacy.relation).epsilon,
        confidence=confidence,
        seconds=time.process_time() - start,
    )


def _looked_at(planned: Planned, table: object, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What was released, and what lies below it, as vectors whose noise has variance 1."""
    seller = Recorder(seed)
    found = measured(planned, table, seller)
    if isinstance(found, str):
        raise RuntimeError(f"a made table cannot be measured: {found}")
    [step] = seller.steps
    if not isinstance(step.mechanism.noise, ADDED):
        raise NotImplementedError(f"no canaries are told apart in {type(step.mechanism.noise).__name__}")
    return whitened(step.mechanism.noise, step.mechanism.exact, step.released)


def _guessed(alone: np.ndarray, seen: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each guess is right, and the canaries by how sure the guess is: the best linear estimate of the coins."""
    half = np.full(len(alone), 0.5)
    gram = alone @ alone.T / 4
    estimate = np.linalg.solve(gram + np.eye(len(alone)), alone @ (seen - half @ alone)) / 4
    return (estimate > 0) == inside, np.argsort(-np.abs(estimate), kind="stable")


def largest_mu(canaries: int, guesses: int, right: int, chance: float) -> float:
    """The largest mu under which so many right guesses have at most this chance."""
    return _largest(lambda mu: _impossible(canaries, guesses, right, mu, chance), 64.0)


def largest_epsilon(canaries: int, guesses: int, right: int, delta: float, chance: float) -> float:
    return _largest(lambda epsilon: p_value(canaries, guesses, right, epsilon, delta) <= chance, 64.0)


def _largest(refuted: Callable[[float], bool], most: float) -> float:
    """The largest value that is refuted; refutation is monotone in it."""
    low, high = 0.0, most
    if not refuted(low):
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The chance of so many right guesses, at most, under (epsilon, delta) (Steinke et al. 2023, Theorem 5.2)."""
    fair = 1 / (1 + math.exp(-epsilon))
    steps = np.arange(1, right + 1)
    below = np.cumsum(stats.binom.pmf(right - steps, guesses, fair)) / steps if right else np.zeros(1)
    return min(1.0, float(stats.binom.sf(right - 1, guesses, fair)) + 2 * canaries * delta * float(below.max()))


def _impossible(canaries: int, guesses: int, right: int, mu: float, chance: float) -> bool:
    """Whether `right` of `guesses` guesses cannot have this chance under a Gaussian trade-off of mu."""
    if right >= guesses and guesses == 0:
        return False
    reached, missed = chance * right / canaries, chance * (guesses - right) / canaries
    for correct in range(right - 1, -1, -1):
        least = max(missed, float(ndtr(ndtri(min(reached, 1.0)) - mu)))
        reached += correct / (guesses - correct) * (least - missed)
        missed = least
        if reached + missed > guesses / canaries:
            return True
    return False
