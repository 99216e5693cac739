"""Choosing privately: the exponential mechanism, sampled exactly.

Theorem. Picking candidate r with probability proportional to exp(epsilon score_r / (2 Δ)) has privacy losses that
  differ by at most epsilon over all candidates (McSherry & Talwar 2007; Dong, Durfee & Rogers 2020). Such a release is
  mu-GDP with mu = 2 Phi^-1(e^(epsilon/2) / (1 + e^(epsilon/2))) and epsilon^2/8-zCDP: docs/proofs/selection.md.
Relation, sensitivity. Scores are integers, each moved by at most the integer Δ by one unit under the relation.
Noise unit. `epsilon` is the mechanism's pure epsilon, a fraction.
Exactness. Draw a candidate uniformly, accept it with probability exp(-epsilon (best - score) / (2 Δ)), else draw again:
  accepted candidates have exactly the distribution above. Coins with probability exp(-rational) are tossed from random
  integers alone (Canonne, Kamath & Steinke 2020, Algorithm 1), so no floating-point probability is involved.
Reference. As named above; every step in docs/proofs/selection.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from understudy.pipelines.privacy.curves import bounded_range_mu, bounded_range_within
from understudy.pipelines.privacy.events import BoundedRange
from understudy.pipelines.privacy.noise.rounded import RandomSource
from understudy.pipelines.privacy.rounding import up

_DENOMINATOR = 10**6


def selection_epsilon(mu: float) -> Fraction:
    """The epsilon of a selection that is at most `mu`-GDP, as a fraction, rounded down."""
    millionths = int(bounded_range_within(mu) * _DENOMINATOR)
    while millionths > 0 and bounded_range_mu(selection_event(Fraction(millionths, _DENOMINATOR)).epsilon) > mu:
        millionths -= 1
    return Fraction(millionths, _DENOMINATOR)


def selection_event(epsilon: Fraction) -> BoundedRange:
    """What a choice with this epsilon costs; the float is never below the fraction."""
    return BoundedRange(up(epsilon))


def choose(
    scores: Sequence[int] | np.ndarray, sensitivity: int, epsilon: Fraction, randomness: RandomSource
) -> tuple[int, BoundedRange]:
    """The index of one candidate, favouring high scores."""
    if sensitivity < 1 or epsilon <= 0 or len(scores) == 0:
        raise ValueError("choosing needs candidates, a positive integer sensitivity and a positive epsilon")
    gaps = [int(max(scores)) - int(score) for score in scores]
    while True:
        index = uniform_below(len(gaps), randomness)
        if coin_exp(Fraction(gaps[index]) * epsilon / (2 * sensitivity), randomness):
            return index, selection_event(epsilon)


def coin_exp(gamma: Fraction, randomness: RandomSource) -> bool:
    """True with probability exactly exp(-gamma)."""
    while gamma > 1:
        if not _coin_exp_below_one(Fraction(1), randomness):
            return False
        gamma -= 1
    return _coin_exp_below_one(gamma, randomness)


def _coin_exp_below_one(gamma: Fraction, randomness: RandomSource) -> bool:
    """exp(-gamma) is an alternating sum of gamma^k/k!: toss gamma/1, gamma/2, ... until tails; odd counts are True."""
    tosses = 1
    while uniform_below(gamma.denominator * tosses, randomness) < gamma.numerator:
        tosses += 1
    return tosses % 2 == 1


def uniform_below(bound: int, randomness: RandomSource) -> int:
    """A whole number from 0 to bound - 1, each equally likely, by rejection."""
    if bound < 1:
        raise ValueError("bound must be at least 1")
    words = (bound.bit_length() + 63) // 64
    space = 1 << (64 * words)
    largest = space - space % bound
    while True:
        value = 0
        for word in randomness.words(words):
            value = (value << 64) | int(word)
        if value < largest:
            return value % bound
