"""Functional Renyi differential privacy: what releasing a noisy *function* costs, at a list of Renyi orders.

A mechanism that returns a function is (alpha, eps)-f-RDP when its values at every finite set of points are (alpha,
eps)-RDP. Everything is stated for curves: `epsilons[i]` bounds the divergence at `orders[i]`. The ledger does not
use this file: it accounts the same releases by events (`privacy.accounting`), which agree with it (tests). It is
here to state what the paper proves and to reproduce its table.

Relation. ADD_REMOVE of one record throughout.
Reference. Jiang, Sun & Yu, Functional Renyi Differential Privacy for Generative Modeling, NeurIPS 2023.
  Proposition and theorem numbers are the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64), 128, 256, 512)


@dataclass(frozen=True)
class FunctionalRenyi:
    """A released function's Renyi curve."""

    orders: tuple[float, ...]
    epsilons: tuple[float, ...]


def functional_gaussian(noise_multiplier: float, orders: Sequence[float] = ORDERS) -> FunctionalRenyi:
    """Gaussian mechanism for functions.

    Theorem (Corollary 2). For f_D in the RKHS H of a kernel k with ||f_D - f_D'||_H <= Delta, releasing f_D + sigma
      Delta G, G a path of the Gaussian process with covariance k, is (alpha, alpha / (2 sigma^2))-f-RDP.
    Sensitivity. In the norm of H, hence independent of how many points the function is looked at.
    Noise unit. `noise_multiplier` is sigma: the process's scale divided by Delta. It multiplies the *path*, so the
      covariance is scaled by its square.
    """
    curve = tuple(order / (2 * noise_multiplier**2) for order in orders)
    return FunctionalRenyi(tuple(map(float, orders)), curve)


def subsampled_functional_gaussian(
    rate: float, noise_multiplier: float, orders: Sequence[float] = ORDERS
) -> FunctionalRenyi:
    """The same with every record entering independently with probability `rate` and a divisor that is not data.

    Theorem (section 3.6). Any finite set of values is a subsampled Gaussian mechanism on vectors in a rotated basis,
      so its curve is that of the sampled Gaussian (Mironov, Talwar & Zhang 2019), which does not grow with the set.
    """
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(list(orders))
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise_multiplier)))
    return FunctionalRenyi(tuple(map(float, orders)), tuple(np.asarray(accountant._rdp, dtype=float).tolist()))


def sequential(parts: Sequence[tuple[FunctionalRenyi, int]]) -> FunctionalRenyi:
    """Releases one after the other, each `times` over; later ones may depend on earlier ones.

    Theorem (Theorem 5). Curves add, order by order.
    """
    orders = _common_orders([curve for curve, _ in parts])
    total = np.sum([times * np.array(curve.epsilons) for curve, times in parts], axis=0)
    return FunctionalRenyi(orders, tuple(total.tolist()))


def parallel(parts: Sequence[FunctionalRenyi]) -> FunctionalRenyi:
    """Releases of disjoint parts of the data, such as classes.

    Theorem (Theorem 4). The largest curve counts, order by order. Needs ADD_REMOVE: a replaced record may leave
      one part and enter another.
    """
    orders = _common_orders(parts)
    worst = np.max([curve.epsilons for curve in parts], axis=0)
    return FunctionalRenyi(orders, tuple(worst.tolist()))


def converted(curve: FunctionalRenyi, delta: float) -> float:
    """Epsilon at `delta`, by the paper's own rule.

    Theorem (Proposition 3). (alpha, eps)-f-RDP implies (eps + log(1/delta)/(alpha - 1), delta)-f-DP.
    """
    return min(
        epsilon + math.log(1 / delta) / (order - 1) for order, epsilon in zip(curve.orders, curve.epsilons, strict=True)
    )


def tightly_converted(curve: FunctionalRenyi, delta: float) -> float:
    """Epsilon at `delta` by Canonne, Kamath & Steinke 2020, Proposition 12: never above the paper's rule."""
    from dp_accounting.rdp import compute_epsilon

    return float(compute_epsilon(np.array(curve.orders), np.array(curve.epsilons), delta)[0])


def _common_orders(curves: Sequence[FunctionalRenyi]) -> tuple[float, ...]:
    if not curves:
        raise ValueError("nothing to compose")
    if any(curve.orders != curves[0].orders for curve in curves):
        raise ValueError("curves compose at the same orders only")
    return curves[0].orders
