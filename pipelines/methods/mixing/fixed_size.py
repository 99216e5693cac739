"""What a mixture of exactly l records costs: a Renyi curve for draws without replacement whose population is private.

Theorem. A class of n records is filled up with zero records to a population of max(n, M); a mixture is the sum of a
  uniform l-subset of it plus Gaussian noise. Records have norm at most C; z = std/C, s = 1/z^2, q = l/M. When one
  record comes or goes, the Renyi divergence of one mixture at a whole order alpha is, either way, at most
  1/(alpha - 1) times the logarithm of the larger of
    full class (n >= M):   sum_j B(alpha, j) (1 - q)^(alpha - j) q^j exp(2 s j (j - 1)),
    small class (n < M):   1 + sum_(j >= 2) B(alpha, j) q^j M_j,
  B the binomial coefficient, M_2 = e^(4s) - 2 e^(2s) + e^s, M_j for j > 2 the smaller of e^(2s j(j-1)) + e^(s j(j-1)/2)
  and (c_j(2)^(1/j) + c_j(1)^(1/j))^j, c_j(D) = sum_i B(j, i) (-1)^(j-i) e^(s D^2 i(i-1)/2) for even j; odd ones lie
  below the root of their neighbours' product.
Why two cases. In a full class the neighbour's draw is (1-q) times the same law plus q times one at distance 2C: a
  subsampled Gaussian. In a small class the new record takes a zero record's place, so *both* laws are mixtures,
  (1-q) A + q B0 against (1-q) A + q B1, and no Poisson-sampled Gaussian dominates such a pair: its loss is unbounded on
  both sides, theirs on one. So the release is charged by Renyi divergence, which needs no dominating pair.
Relation. ADD_REMOVE of one record.
Sensitivity. C between B0 and B1 or A and B0, 2C between A and B1, in L2.
Noise unit. `noise_multiplier` is the std of a mixture's sum over C.
Proof. docs/proofs/fixed-size-mixtures.md.
Reference. Mironov, Talwar & Zhang 2019, section 3.3 (full class); Wang, Balle & Kasiviswanathan 2019 for the expansion
  of the small class, here with the moments of this pair; Zhu, Dong & Wang 2022 on why one pair does not suffice.
"""

from __future__ import annotations

from functools import lru_cache

import mpmath
import numpy as np
from scipy.special import gammaln, logsumexp

from understudy.pipelines.privacy.events import RenyiCurve

ORDERS = (*range(2, 64), 128, 256)
_EXACT_MOMENTS = 16  # up to here central moments are computed; above, exponentials alone decide
_EVALUATION = 1e-9  # relative, of the formulas below in doubles


@lru_cache(maxsize=1024)
def fixed_size_curve(rate: float, noise_multiplier: float) -> RenyiCurve:
    """The cost of one mixture at every order of `ORDERS`."""
    square = noise_multiplier**-2
    moments = _log_moments(square)
    costs = [max(_full_class(order, rate, square), _small_class(order, rate, moments)) for order in ORDERS]
    return RenyiCurve(tuple(map(float, ORDERS)), tuple(float(cost) * (1 + _EVALUATION) for cost in costs))


def _full_class(order: int, rate: float, square: float) -> float:
    """The sum of the header less the binomial probabilities, which add up to 1: what is left loses no digit."""
    j = np.arange(2.0, order + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        untouched = np.where(j == order, 0.0, (order - j) * np.log1p(-rate))
    growth = 2 * square * j * (j - 1)
    terms = _log_binomials(order)[2:] + untouched + j * np.log(rate) + growth + np.log(-np.expm1(-growth))
    return float(np.logaddexp(0.0, logsumexp(terms))) / (order - 1)


def _small_class(order: int, rate: float, log_moments: np.ndarray) -> float:
    j = np.arange(2, order + 1)
    terms = _log_binomials(order)[2:] + j * np.log(rate) + log_moments[j]
    return float(np.logaddexp(0.0, logsumexp(terms))) / (order - 1)


def _log_binomials(order: int) -> np.ndarray:
    j = np.arange(order + 1.0)
    logs: np.ndarray = gammaln(order + 1.0) - gammaln(j + 1) - gammaln(order - j + 1)
    return logs


def _log_moments(square: float) -> np.ndarray:
    """log M_j by j, for 2 <= j <= the largest order."""
    j = np.arange(max(ORDERS) + 1.0)
    logs: np.ndarray = np.logaddexp(2 * square * j * (j - 1), square * j * (j - 1) / 2)
    with mpmath.workdps(120):  # what is left of these alternating sums may be 1e-60 of their terms
        s = mpmath.mpf(square)
        logs[2] = float(mpmath.log(mpmath.exp(4 * s) - 2 * mpmath.exp(2 * s) + mpmath.exp(s)))
        for even in range(4, _EXACT_MOMENTS + 1, 2):
            sides = [_central_moment(even, s * distance**2) ** (mpmath.mpf(1) / even) for distance in (1, 2)]
            logs[even] = min(logs[even], float(even * mpmath.log(mpmath.fsum(sides))))
    for odd in range(3, _EXACT_MOMENTS, 2):
        logs[odd] = min(logs[odd], (logs[odd - 1] + logs[odd + 1]) / 2)
    return logs


def _central_moment(order: int, square: mpmath.mpf) -> mpmath.mpf:
    """E |p/q - 1|^order under q, for normal densities whose means lie sqrt(square) standard deviations apart."""
    return mpmath.fsum(
        (-1) ** (order - i) * mpmath.binomial(order, i) * mpmath.exp(square * i * (i - 1) / 2) for i in range(order + 1)
    )
