"""What was released, described apart from how: frozen, serialisable, and known to every accountant.

Units. `Gaussian.noise_multiplier` is the standard deviation divided by the L2 sensitivity *under the account's
relation*. Inside `PoissonSampled` it is the standard deviation divided by the norm bound of *one unit's own
contribution* (the ADD_REMOVE sensitivity), because a replaced unit may be sampled before and after: the accountant
knows how to treat it. (dp-accounting's PLD and RDP accountants read a plain Gaussian under REPLACE_ONE with these two
different meanings; `accounting` translates, so that an event has one meaning here.)

Theorem, relation, sensitivity, noise unit, reference. Those of the mechanism that an event is charged for. What an
event means is for ever: docs/proofs/events.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from understudy.pipelines.privacy.stating import at_least, at_most


def _require_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive and finite")


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise (or its rounding) added to a vector query. See the module for the unit."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        _require_positive("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True)
class ZeroConcentrated:
    """A rho-zCDP release: the discrete Gaussian (rho = 1/(2 z^2)); in old ledgers the exponential mechanism too."""

    rho: float

    def __post_init__(self) -> None:
        _require_positive("rho", self.rho)


@dataclass(frozen=True)
class BoundedRange:
    """A release whose privacy losses, over all outcomes, differ by at most `epsilon`: the exponential mechanism."""

    epsilon: float

    def __post_init__(self) -> None:
        _require_positive("epsilon", self.epsilon)


@dataclass(frozen=True)
class RenyiCurve:
    """A release known only by Renyi bounds: epsilon(order) at some orders above 1."""

    orders: tuple[float, ...]
    epsilons: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.orders or len(self.orders) != len(self.epsilons):
            raise ValueError("a Renyi curve needs one epsilon for each order")
        if any(order <= 1 for order in self.orders) or any(not epsilon >= 0 for epsilon in self.epsilons):
            raise ValueError("Renyi orders must exceed 1 and their epsilons must not be negative")


@dataclass(frozen=True)
class PoissonSampled:
    """Every unit is included independently with probability `rate`, then the Gaussian is applied."""

    rate: float
    event: Gaussian

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError("a sampling rate lies in (0, 1]")


@dataclass(frozen=True)
class Approximate:
    """A release that is `event` except with probability `delta`, under either neighbour.

    P = (1 - delta) P' + delta P'' and Q = (1 - delta) Q' + delta Q'' where the pair P', Q' costs what `event` says
    and nothing is known of P'', Q''. Such deltas add up beside the loss of the events.
    """

    event: Event
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ValueError("an event's own delta lies strictly between 0 and 1")


@dataclass(frozen=True)
class SelfComposed:
    """The same release `count` times, with fresh randomness each."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("count must be at least 1")


@dataclass(frozen=True)
class Composed:
    """Releases that all touch the same units."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class Parallel:
    """Releases of disjoint parts: a unit touches exactly one of them, so the worst one counts (ADD_REMOVE only)."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not self.events:
            raise ValueError("parallel composition needs at least one event")


Event: TypeAlias = (
    Gaussian
    | ZeroConcentrated
    | BoundedRange
    | RenyiCurve
    | PoissonSampled
    | Approximate
    | SelfComposed
    | Composed
    | Parallel
)


def to_json(event: Event) -> dict[str, Any]:
    """A plain tree that `from_json` reads back to an equal event."""
    match event:
        case Gaussian(z):
            return {"kind": "gaussian", "noise_multiplier": z}
        case ZeroConcentrated(rho):
            return {"kind": "zcdp", "rho": rho}
        case BoundedRange(epsilon):
            return {"kind": "bounded_range", "epsilon": epsilon}
        case RenyiCurve(orders, epsilons):
            return {"kind": "renyi", "orders": list(orders), "epsilons": list(epsilons)}
        case PoissonSampled(rate, inner):
            return {"kind": "poisson_sampled", "rate": rate, "event": to_json(inner)}
        case Approximate(inner, delta):
            return {"kind": "approximate", "delta": delta, "event": to_json(inner)}
        case SelfComposed(inner, count):
            return {"kind": "self_composed", "count": count, "event": to_json(inner)}
        case Composed(events):
            return {"kind": "composed", "events": [to_json(inner) for inner in events]}
        case Parallel(events):
            return {"kind": "parallel", "events": [to_json(inner) for inner in events]}


def from_json(tree: dict[str, Any]) -> Event:
    match tree:
        case {"kind": "gaussian", "noise_multiplier": z}:
            return Gaussian(float(z))
        case {"kind": "zcdp", "rho": rho}:
            return ZeroConcentrated(float(rho))
        case {"kind": "bounded_range", "epsilon": epsilon}:
            return BoundedRange(float(epsilon))
        case {"kind": "renyi", "orders": orders, "epsilons": epsilons}:
            return RenyiCurve(tuple(map(float, orders)), tuple(map(float, epsilons)))
        case {"kind": "poisson_sampled", "rate": rate, "event": inner}:
            gaussian = from_json(inner)
            if not isinstance(gaussian, Gaussian):
                raise ValueError("only a Gaussian can be Poisson-sampled")
            return PoissonSampled(float(rate), gaussian)
        case {"kind": "approximate", "delta": delta, "event": inner}:
            return Approximate(from_json(inner), float(delta))
        case {"kind": "self_composed", "count": count, "event": inner}:
            return SelfComposed(from_json(inner), int(count))
        case {"kind": "composed", "events": events}:
            return Composed(tuple(from_json(inner) for inner in events))
        case {"kind": "parallel", "events": events}:
            return Parallel(tuple(from_json(inner) for inner in events))
    raise ValueError(f"not an event: kind {tree.get('kind')!r}")


def describe(event: Event) -> str:
    """The event in one line, for plans, manifests and cards."""
    match event:
        case Gaussian(z):
            return f"Gaussian(noise multiplier {at_least(z, 6)})"
        case ZeroConcentrated(rho):
            return f"zCDP(rho {at_most(rho, 6)})"
        case BoundedRange(epsilon):
            return f"choice(range {at_most(epsilon, 6)})"
        case RenyiCurve(orders, _):
            return f"Renyi curve at {len(orders)} orders"
        case PoissonSampled(rate, inner):
            return f"Poisson sample at rate {at_most(rate, 6)} of {describe(inner)}"
        case Approximate(inner, delta):
            return f"{describe(inner)} but for probability {at_most(delta, 6)}"
        case SelfComposed(inner, count):
            return f"{count} x {describe(inner)}"
        case Composed(events):
            return " + ".join(describe(inner) for inner in events) or "nothing"
        case Parallel(events):
            return "worst of [" + ", ".join(describe(inner) for inner in events) + "]"
