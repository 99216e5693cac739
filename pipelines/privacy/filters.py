"""The rule that holds an account's cap although every release may be chosen after looking at the ones before.

That is a *privacy filter*: a stopping rule over losses that are chosen adaptively. Composing all charges by the best
accountant and stopping at the cap is none: whoever chooses the next mechanism by the last output passes it
(docs/proofs/filters.md has the example, `tests/privacy/test_adaptive_analyst.py` computes it). An account has one of
two filters, fixed when it is opened:

Theorem (gdp). If every release is mu_i-GDP given all earlier outputs, and the sum of mu_i^2 never exceeds mu_cap^2 on
  any path, everything together is mu_cap-GDP. mu_cap is the largest mu with delta(epsilon_cap) <= delta_cap.
Theorem (renyi). If the Renyi epsilons of the releases at one order a, fixed in advance, never add up to more than R on
  any path, everything together has Renyi divergence at most R at order a. R is the largest that converts to
  epsilon_cap at delta_cap.
Deltas that events have of their own. A part of delta_cap is set aside for them at opening (`own_delta`, 0 unless
  asked for); they never add up to more than that part, and the theorems are used at the rest of delta_cap. Checking
  the theorems at delta_cap minus the deltas *charged so far* would again be a rule that an adaptive choice passes.
Relation, sensitivity, noise unit. Those of the events, which have them divided out; one relation an account.
Proofs. docs/proofs/filters.md. Reference. Smith & Thakurta 2022 (gdp); Feldman & Zrnic 2021, Lecuyer 2021 (renyi).

What an account has *spent* is epsilon at the cap's delta of what its filter has counted. It is compared with the cap;
it is not the loss of a release, which `accounting.composed_loss` tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from understudy.pipelines.privacy.accounting import Loss, rounded_up
from understudy.pipelines.privacy.curves import (
    gaussian_delta,
    gaussian_epsilon,
    leaves_of,
    mu_squared,
    own_delta,
    rdp_orders,
    renyi_conversion,
    renyi_epsilon,
    renyi_sums,
)
from understudy.pipelines.privacy.events import Event, Gaussian
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.privacy.rounding import down
from understudy.pipelines.privacy.stating import at_most

EventCounts: TypeAlias = tuple[tuple[Event, int], ...]
"""Different events, each with how many charges bought it."""


class Unholdable(ValueError):
    """An event that the account's filter has no theorem for."""


@dataclass(frozen=True)
class GaussianFilter:
    """Accepts while the sum of mu^2 stays within that of the cap."""

    own_delta: Decimal = Decimal(0)

    kind: ClassVar[str] = "gdp"
    theorem: ClassVar[str] = "Gaussian DP filter (Smith & Thakurta 2022)"

    @property
    def name(self) -> str:
        return "gdp" + _aside(self.own_delta)

    def counted(self, events: EventCounts, relation: Relation) -> float:
        """The sum of mu^2."""
        squared = mu_squared(leaves_of(events, relation))
        if squared is None:
            raise Unholdable("its filter gdp holds releases with Gaussian noise and choices among candidates only")
        return squared

    def epsilon(self, counted: float, delta: float) -> float:
        return gaussian_epsilon(math.sqrt(counted), delta)

    def limit(self, cap: Budget) -> float:
        """mu_cap^2."""
        low, high = 0.0, 1.0
        epsilon, delta = float(cap.epsilon), usable_delta(self, cap)
        while gaussian_delta(high, epsilon) <= delta:
            low, high = high, 2 * high
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if gaussian_delta(middle, epsilon) <= delta else (low, middle)
        return low * low

    def unit_text(self, counted: float) -> str:
        return f"mu {at_most(math.sqrt(counted))}"


@dataclass(frozen=True)
class RenyiFilter:
    """Accepts while the Renyi epsilons at one order stay within what converts to the cap."""

    order: float
    own_delta: Decimal = Decimal(0)

    kind: ClassVar[str] = "renyi"
    theorem: ClassVar[str] = "Renyi filter at one fixed order (Feldman & Zrnic 2021)"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.order) and self.order > 1):
            raise ValueError("a Renyi order exceeds 1")

    @property
    def name(self) -> str:
        return f"renyi at order {self.order:g}" + _aside(self.own_delta)

    def counted(self, events: EventCounts, relation: Relation) -> float:
        """The sum of Renyi epsilons at the order."""
        sums = renyi_sums(leaves_of(events, relation), relation, (self.order,))
        if sums is None:
            raise Unholdable(f"no Renyi bound is known for some of its events under {relation.value}")
        if not math.isfinite(sums[0]):
            raise Unholdable(f"some of its events have no bound at the account's Renyi order {self.order:g}")
        return float(sums[0])

    def epsilon(self, counted: float, delta: float) -> float:
        return renyi_epsilon(counted, self.order, delta)

    def limit(self, cap: Budget) -> float:
        return float(cap.epsilon) - renyi_conversion(self.order, usable_delta(self, cap))

    def unit_text(self, counted: float) -> str:
        return f"Renyi epsilon {at_most(counted)} at order {self.order:g}"


Filter: TypeAlias = GaussianFilter | RenyiFilter

GDP = GaussianFilter()


def spent(rule: Filter, events: EventCounts, cap: Budget, relation: Relation) -> Loss:
    """Epsilon at the cap's delta of what the filter counts; infinite if own deltas exceed what was set aside."""
    name = f"{rule.kind} filter"
    if not any(times for _, times in events):
        return Loss(0.0, float(cap.delta), name)
    counted = rule.counted(events, relation)
    if own_delta_of(events) > 0 and rule.own_delta == 0:
        raise Unholdable("it has a delta of its own, and the account set none aside for that when it was opened")
    if own_delta_of(events) > rule.own_delta:
        return Loss(math.inf, float(cap.delta), name)
    return Loss(rounded_up(rule.epsilon(counted, usable_delta(rule, cap))), float(cap.delta), name)


def own_delta_of(events: EventCounts) -> Decimal:
    return sum((times * own_delta(event) for event, times in events), Decimal(0))


def usable_delta(rule: Filter, cap: Budget) -> float:
    """The cap's delta without what is set aside, rounded down."""
    rest = cap.delta - rule.own_delta
    if rest <= 0:
        raise ValueError("what is set aside for events with a delta of their own must be less than the cap's delta")
    return down(Fraction(rest))


def needed_filter(events: Iterable[Event], cap: Budget, relation: Relation) -> Filter:
    """gdp if it holds all the events, else renyi at the order that leaves most of the cap after them."""
    counts = tuple((event, 1) for event in events)
    try:
        GaussianFilter().counted(counts, relation)
    except Unholdable:
        return RenyiFilter(best_order(cap, relation, counts))
    return GaussianFilter()


def best_order(cap: Budget, relation: Relation, events: EventCounts = (), aside: Decimal = Decimal(0)) -> float:
    """The order at which the events use the smallest share of what the cap allows; by default those of a Gaussian."""
    delta = usable_delta(GaussianFilter(aside), cap)
    leaves = leaves_of(events or ((Gaussian(1.0), 1),), relation)
    shares = {}
    for order in rdp_orders():  # one by one, as an account with that order will count
        sums = renyi_sums(leaves, relation, (order,))
        if sums is None:
            raise Unholdable(f"no Renyi bound is known for some of its events under {relation.value}")
        limit = float(cap.epsilon) - renyi_conversion(order, delta)
        if limit > 0 and math.isfinite(sums[0]):
            shares[order] = float(sums[0]) / limit
    if not shares:
        raise Unholdable("at no Renyi order at which its events have a bound is anything left of such a cap")
    return min(shares, key=lambda order: (shares[order], order))


def to_json(rule: Filter) -> dict[str, Any]:
    """As accounts and their history keep it."""
    facts: dict[str, Any] = {"kind": rule.kind}
    if isinstance(rule, RenyiFilter):
        facts["order"] = rule.order
    if rule.own_delta:
        facts["own_delta"] = str(rule.own_delta)
    return facts


def from_json(tree: dict[str, Any]) -> Filter:
    aside = Decimal(tree.get("own_delta", "0"))
    match tree:
        case {"kind": "gdp"}:
            return GaussianFilter(aside)
        case {"kind": "renyi", "order": order}:
            return RenyiFilter(float(order), aside)
    raise ValueError(f"not a filter: kind {tree.get('kind')!r}")


def _aside(own: Decimal) -> str:
    return f", delta {own} set aside" if own else ""
