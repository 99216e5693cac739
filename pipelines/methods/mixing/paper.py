"""The paper's own accounting (DP-CDA, Theorem 1), corrected, as a reference: nothing is ever charged by it.

Theorem 1. A mixture of l records drawn without replacement from N, with Gaussian noise of std sigma_x on
  the mean of vectors of norm at most c and sigma_y on the mean of one-hot labels, T times, is (epsilon,
  delta)-DP under REPLACE_ONE with epsilon = min over integers alpha >= 3 of T eps'(alpha) +
  log(1/delta)/(alpha - 1), where eps' is the sampling-without-replacement bound of Wang, Balle &
  Kasiviswanathan 2019 at eps(alpha) = alpha/l^2 (2 c^2/sigma_x^2 + 1/sigma_y^2).
Corrections. (1) G(alpha) is printed with sqrt(B(2 floor(j/2)) B(ceil(j/2))); the second argument is 2
  ceil(j/2). As printed the root is of a negative number from alpha = 5. (2) The rate l/N is that of draws
  from the whole table, but Algorithm 1 draws within a class: pass N_k and T_k for the honest figure.
What it assumes and the code cannot check. That z-scores computed from the data leave the norm bound alone
  (they do not), that N is public, and that labels need noise (they do not: all l labels of a mixture are
  equal).
Noise unit. Standard deviations of the *mean* of l records, as in the paper.
"""

from __future__ import annotations

import math
from functools import lru_cache

import mpmath
import numpy as np
from scipy.special import gammaln, logsumexp

MAX_ALPHA = 128


def theorem_1_epsilon(
    order: int,
    sigma_x: float,
    sigma_y: float,
    population: int,
    mixtures: int,
    delta: float,
    norm_bound: float = 1.0,
) -> float:
    """Epsilon of the corrected Theorem 1, over orders alpha up to `MAX_ALPHA`."""
    slope = (2 * norm_bound**2 / sigma_x**2 + 1 / sigma_y**2) / order**2
    rate = order / population
    best = math.inf
    for alpha in range(3, MAX_ALPHA + 1):
        epsilon = mixtures * _subsampled(alpha, rate, slope) + math.log(1 / delta) / (alpha - 1)
        if epsilon > 2 * best:
            break
        best = min(best, epsilon)
    return best


def theorem_1_noise(
    epsilon: float, order: int, population: int, mixtures: int, delta: float, norm_bound: float = 1.0
) -> float:
    """The common std sigma_x = sigma_y at which the corrected theorem gives `epsilon`, within 0.1%, rounded up."""
    low = high = norm_bound / order
    while theorem_1_epsilon(order, high, high, population, mixtures, delta, norm_bound) > epsilon:
        low, high = high, 2 * high
    while theorem_1_epsilon(order, low, low, population, mixtures, delta, norm_bound) <= epsilon:
        low, high = low / 2, low
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        fits = theorem_1_epsilon(order, middle, middle, population, mixtures, delta, norm_bound) <= epsilon
        low, high = (low, middle) if fits else (middle, high)
    return high


def _subsampled(alpha: int, rate: float, slope: float) -> float:
    """eps'(alpha) of Wang et al. 2019, Theorem 9, for the Gaussian curve eps(alpha) = slope * alpha."""
    logs = [0.0, 2 * math.log(rate) + _log_binomial(alpha, 2) + _log_pair_term(slope)]
    for j in range(3, alpha + 1):
        pair = (_log_alternating(2 * (j // 2), slope) + _log_alternating(2 * ((j + 1) // 2), slope)) / 2
        logs.append(math.log(4) + j * math.log(rate) + _log_binomial(alpha, j) + pair)
    return float(logsumexp(np.array(logs))) / (alpha - 1)


def _log_pair_term(slope: float) -> float:
    """log min{4 (e^eps(2) - 1), 2 e^eps(2)}, without overflow."""
    two = 2 * slope
    return min(math.log(4) + (math.log(math.expm1(two)) if two < 50 else two), math.log(2) + two)


def _log_binomial(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


@lru_cache(maxsize=65536)
def _log_alternating(even: int, slope: float) -> float:
    """log B(l), B(l) = sum over i of (-1)^i C(l, i) e^((i-1) eps(i)): B is about slope^(l/2), hence the digits."""
    digits = 40 + even * (1 + max(0, math.ceil(-math.log10(slope))))
    with mpmath.workdps(digits):
        s = mpmath.mpf(slope)
        terms = ((-1) ** i * mpmath.binomial(even, i) * mpmath.exp((i - 1) * i * s) for i in range(even + 1))
        return float(mpmath.log(mpmath.fsum(terms)))
