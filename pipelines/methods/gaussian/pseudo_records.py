"""The theorem without its assumption: public pseudo-records, and a bound that no dataset can break.

Theorem. Add to D the public corners of [-1, 1]^d with total weight n0 (mean 0, second moment n0 I). The fitted
  mu' = sum x / n', Sigma' = (sum x x^T + n0 I)/n' - mu' mu'^T, n' = n + n0, obey the rank-one update of the proof of
  Theorem 3.1 with n' for n, for *every* D, the empty one too. In that proof the data enter only by the distance
  l = (x - mu)^T Sigma^-1 (x - mu) of the differing record x, bounded there by tau = 4d/sigma. Here the scatter
  n' Sigma' is at least n0 (I + mu' mu'^T), so with a = x.mu'/|mu'| and m = |mu'|
    l/n' <= ((a - m)^2/(1 + m^2) + |x|^2 - a^2)/n0 <= (d + 1)/n0,
  the largest value, at m = -1/a, being |x|^2 + 1. So Theorem 3.1 holds with tau = r (n' + 1), r = (d + 1)/n0.
  (Bounding the eigenvalue alone, as the paper's assumption does, gives r = 4d/n0.)
The private size n disappears by taking the worst n' term by term (u = 1/(n'+1) or 1/n' falls as n' grows):
  adding:    alpha r / (2 (n'+1-alpha)) and d * excess(alpha, -u) fall with n': their value at n0.
             excess(alpha, r) - log1p(...) <= excess(alpha, r).
  removing:  n'(n'+alpha)/(n'+1)^2 >= q = min(1, n0(n0+alpha)/(n0+1)^2), since it tends to 1 and has no inner minimum,
             so the mean term is at most alpha r / (2 (n0+1)(q - alpha r)), valid while alpha r < q;
             d * excess(alpha, u) falls with n'; the last term is at most alpha log(1 - r) - log(1 - alpha r / q).
Relation. ADD_REMOVE as above. REPLACE_ONE by the weak triangle inequality (Mironov 2017, Proposition 11) through the
  union, both legs of which are ADD_REMOVE pairs covered by the same bound.
Sensitivity. None is added to; what stands for it is r.
Noise unit. None: the randomness is that of the draw. Plain Sigma + sigma I would *not* be covered by the proof.
Doubles. What is drawn from is N(m, L L^T) in doubles, within T(order) = `fitting.divergence` of the exact normal on
  either side. By the triangle inequality, twice, at each order alpha and for any theta > 0
    (alpha - 1/p)/(alpha - 1) T(p alpha) + (beta - 1/s)/(beta - 1) epsilon(s beta) + T(beta + (beta - 1)/theta)
  with p = 1 + 1/theta, s = 1 + theta, beta = alpha + (alpha - 1) theta. That, at a good theta, is what is charged.
Proof. docs/proofs/sampling-noise.md.
Reference. Miura et al., Theorem 3.1, Lemmas 4.2 to 4.5; Mironov 2017, Proposition 11; checked by brute force in the
  tests.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from understudy.pipelines.methods.gaussian import fitting
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.curves import rdp_orders
from understudy.pipelines.privacy.events import RenyiCurve
from understudy.pipelines.privacy.relation import Budget, Relation

SPLITS = 48
MAX_PSEUDO_RECORDS = 10**12
_INSIDE = 0.999  # of the range of orders: nearer to its end the formulas cancel in doubles
_EVALUATION = 1e-11  # relative, of the formulas below in doubles


@lru_cache(maxsize=256)
def curve(draws: int, dimension: int, pseudo: int, relation: Relation) -> RenyiCurve | None:
    """The cost of `draws` records at every order of the accountant's that the bound covers; None if it covers none."""
    orders = np.array(rdp_orders())
    epsilons = drawn_epsilons(orders, dimension, pseudo, relation)
    known = np.isfinite(epsilons)
    if not known.any():
        return None
    charged = draws * epsilons[known] * (1 + _EVALUATION)
    return RenyiCurve(tuple(map(float, orders[known])), tuple(map(float, charged)))


def drawn_epsilons(orders: np.ndarray, dimension: int, pseudo: int, relation: Relation) -> np.ndarray:
    """The same as `record_epsilons` for the normal in doubles that is really drawn from: the module's triangle."""
    ideal = record_epsilons(orders, dimension, pseudo, relation)
    with np.errstate(all="ignore"):
        # About theta + (order/theta) f^2 / (2 epsilon) is added, relative to epsilon: least at this theta.
        theta = fitting.covariance_error(dimension, pseudo) * np.sqrt(orders / (2 * ideal))
        theta = np.clip(np.where(np.isfinite(theta), theta, 1.0), 1e-12, 1.0)
        p, s = 1 + 1 / theta, 1 + theta
        beta = orders + (orders - 1) * theta
        total = (
            (orders - 1 / p) / (orders - 1) * fitting.divergence(p * orders, dimension, pseudo)
            + (beta - 1 / s) / (beta - 1) * record_epsilons(s * beta, dimension, pseudo, relation)
            + fitting.divergence(beta + (beta - 1) / theta, dimension, pseudo)
        )
    return np.where(np.isfinite(total), total, np.inf)


def record_epsilons(orders: np.ndarray, dimension: int, pseudo: int, relation: Relation) -> np.ndarray:
    """Renyi epsilon of one record at each order, infinite where the bound does not hold."""
    if relation is Relation.ADD_REMOVE:
        return _add_remove(orders, dimension, pseudo)
    share = np.linspace(0.0, 1.0, SPLITS + 2)[1:-1]
    limit = min(pseudo + 1.0, pseudo / (dimension + 1.0))
    with np.errstate(all="ignore"):
        order = orders[:, None]
        low, high = np.log((order - 1) / (limit - order)), np.log((limit - order) / order)
        p = 1 + np.exp(low + share * (high - low))
        first = _add_remove(p * order, dimension, pseudo)
        second = _add_remove((p * order - 1) / (p - 1), dimension, pseudo)
        total = (order - 1 / p) / (order - 1) * first + second
    best: np.ndarray = np.min(np.where(np.isfinite(total), total, np.inf), axis=1)
    return best


def _add_remove(orders: np.ndarray, dimension: int, pseudo: int) -> np.ndarray:
    r = (dimension + 1.0) / pseudo
    with np.errstate(all="ignore"):
        q = np.minimum(1.0, pseudo * (pseudo + orders) / (pseudo + 1.0) ** 2)
        adding = orders * r / (2 * (pseudo + 1 - orders)) + (
            dimension * _excess(orders, -1 / (pseudo + 1)) + _excess(orders, r)
        ) / (2 * (orders - 1))
        removing = orders * r / (2 * (pseudo + 1) * (q - orders * r)) + (
            dimension * _excess(orders, 1 / pseudo)
            + np.maximum(0.0, _excess(orders, -r) + np.log1p(-orders * r) - np.log1p(-orders * r / q))
        ) / (2 * (orders - 1))
    valid = (orders > 1) & (orders < _INSIDE * (pseudo + 1)) & (orders * r < _INSIDE * q)
    return np.where(valid, np.maximum(adding, removing), np.inf)


def _excess(orders: np.ndarray, u: float) -> np.ndarray:
    """orders * log(1 + u) - log(1 + orders * u), as a series where the two nearly cancel."""
    k = np.arange(2, 22)
    powers = orders[..., None]
    series = ((powers**k - powers) * ((-u) ** k / k)).sum(axis=-1)
    excess: np.ndarray = np.where(np.abs(orders * u) > 0.1, orders * np.log1p(u) - np.log1p(orders * u), series)
    return excess


@lru_cache(maxsize=256)
def least_pseudo_records(draws: int, dimension: int, budget: Budget, relation: Relation) -> int | None:
    """The fewest pseudo-records (to a thousandth) at which so many draws fit the budget; None if none do.

    Batches add up order by order, so how the draws are divided does not matter; a sliver of epsilon is left over for
    the rounding of those sums.
    """

    def fits(pseudo: int) -> bool:
        event = curve(draws, dimension, pseudo, relation)
        if event is None:
            return False
        return composed_loss([event], float(budget.delta), relation).epsilon <= float(budget.epsilon) * (1 - 1e-8)

    high = 8 * dimension
    while not fits(high):
        high *= 2
        if high > MAX_PSEUDO_RECORDS:
            return None
    low = high // 2
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
