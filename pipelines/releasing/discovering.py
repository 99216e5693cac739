"""Buying a domain: what it costs, whether the account can pay for it and the release after it, and the purchase.

A charge like any other for each of two rounds (stages `discover` and `discover further`), under the same protocol:
charged before it is drawn, drawn once, stored, never drawn again. The release that buys has so much less for its own
measurement (`spec.protection.split_budget`), so that all of it together is within the spec's budget; its manifest names
every charge. Killed between the rounds, a run goes on with the second; killed between a charge and its stored
measurement, that charge is burnt, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from understudy.pipelines.discovery.asking import (
    KIND,
    STAGES,
    DiscoveryPlan,
    declaration_of,
    discovery_unit,
    first_round,
    nominal_events,
    open_columns,
    purchase_key,
    second_round,
    subject_of,
    terms_of,
)
from understudy.pipelines.discovery.mechanism import Sums
from understudy.pipelines.discovery.record import CLOSING
from understudy.pipelines.discovery.rules import VERSION
from understudy.pipelines.discovery.tally import Asked
from understudy.pipelines.discovery.tallying import tally_table
from understudy.pipelines.discovery.thresholds import grain
from understudy.pipelines.discovery.tree_tallying import tally_tree
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.accounting import calibrate_gaussian, composed_loss
from understudy.pipelines.privacy.filters import Filter, needed_filter
from understudy.pipelines.privacy.ledger.ledger import ChargeRequest
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.privacy.ledger.spend import EventCallback, Purchases
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.relation import Budget, Unit, counts_sensitivity
from understudy.pipelines.releasing.approving import nothing_to_resume, requests_of
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.discretion import discreet
from understudy.pipelines.releasing.domains import (
    Bought,
    Known,
    assumed_spec,
    is_own,
    known_domain,
    purchases_of,
    unknown_columns,
)
from understudy.pipelines.releasing.measuring import contribution_key
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.open import ASSUMED_BINS, ASSUMED_VALUES, OpenColumn

OpenSource = Callable[[ReleaseSpec], AbstractContextManager[Source | TreeSource]]
Tallying = Callable[[Source, Sequence[Asked], Unit, bytes], dict[str, Sums]]
"""How the exact sums are found: `tally_table`, or another engine with the same result."""


@dataclass(frozen=True)
class Terms:
    """Who asks, and on which terms."""

    flow_run: str = ""
    source: str = ""
    resume: bool = False
    pay_again: bool = False
    rediscover: bool = False


@dataclass(frozen=True)
class Priced:
    """A release that has to buy its domain first: both rounds, and the release as it might turn out."""

    first: DiscoveryPlan
    planned: Planned
    columns: Mapping[str, OpenColumn]


def priced(spec: ReleaseSpec, columns: Mapping[str, OpenColumn]) -> Priced:
    """What discovering these columns would draw, and what the release would then do, as far as can be said before."""
    planned = plan_release(assumed_spec(spec))
    together = [*nominal_events(spec), *(charge.event for charge in planned.plan.charges)]
    privacy = spec.privacy
    loss = composed_loss(together, float(privacy.delta), privacy.relation)
    if loss.epsilon > float(privacy.epsilon):
        raise SpecError(
            f"with method {spec.method.name} and noise {privacy.noise}, discovery and measurement together would cost "
            f"epsilon {loss.epsilon:.6g} at delta {privacy.delta}, not {privacy.epsilon}",
            "use privpgd with rounded noise, or discover by one release and measure by another with the same account",
        )
    return Priced(first_round(spec, columns), planned, columns)


def before_buying(spec: ReleaseSpec, books: Books) -> Planned:
    """The plan of a release that buys its domain first, as far as it can be said: what that costs, and what the release
    would do if columns turned out as assumed. For showing; nothing is ever measured by it."""
    price = priced(spec, unknown_columns(spec, books))
    events, planned = nominal_events(spec), price.planned
    alone = composed_loss(events, float(spec.privacy.delta), spec.privacy.relation)
    step = (
        f"buy once what {_counted(len(price.columns), 'column')} can hold: epsilon {alone.epsilon:.3g} of "
        f"{spec.privacy.epsilon} by itself, of delta at most {terms_of(spec).delta:.0%}; later snapshots reuse it for "
        f"nothing. Until then a category is assumed to have {ASSUMED_VALUES} values and a number {ASSUMED_BINS} bins"
    )
    charges = (*(PlannedCharge(stage, event) for stage, event in zip(STAGES, events, strict=True)),)
    plan = replace(planned.plan, charges=(*charges, *planned.plan.charges), steps=(step, *planned.plan.steps))
    return Planned(planned.spec, planned.domain, planned.method, plan, domains=planned.domains)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def require_affordable(spec: ReleaseSpec, books: Books, terms: Terms) -> Priced:
    """Refuse now what would be refused later: an account that cannot pay for all of it, a series, nothing to resume."""
    if terms.resume:
        raise nothing_to_resume(spec)
    if spec.rolling is not None and spec.rolling.entities == "disjoint":
        raise SpecError(
            "a period of a disjoint series cannot buy a domain for the periods after it",
            "release once without `rolling`, under this account and name, or list what the open columns can hold",
        )
    price = priced(spec, unknown_columns(spec, books, terms.rediscover))
    wanted = [_request(spec, price.columns, place, event, terms) for place, event in enumerate(nominal_events(spec))]
    after = requests_of(price.planned.spec, price.planned.plan, terms.flow_run, terms.source)
    books.ledger.check([*wanted, *after], pay_again=terms.pay_again)
    return price


def buy_domain(
    spec: ReleaseSpec, price: Priced, open_source: OpenSource, books: Books, terms: Terms,
    on_event: EventCallback | None = None, tallying: Tallying = tally_table,
) -> Known:  # fmt: skip
    """Both rounds, or the one that is left; and the spec with what was found."""

    def request(charge: PlannedCharge) -> ChargeRequest:
        return _request(spec, price.columns, STAGES.index(charge.stage), charge.event, terms)

    purchases = Purchases(books.ledger, books.store, request, on_event=on_event, pay_again=terms.pay_again)
    with open_source(assumed_spec(spec)) as source:
        bought = _half_bought(spec, books, price)
        if bought is None:
            _buy(spec, price.first, _facts(spec, price), source, purchases, tallying)
            bought = _half_bought(spec, books, price)
            assert bought is not None
        further = second_round(spec, price.columns, bought.record.first_found)
        if further is not None:
            facts = {**_facts(spec, price), "after": bought.charges[0].mid, CLOSING: bought.record.version}
            _buy(spec, further, facts, source, purchases, tallying)
    known = known_domain(spec, books)
    assert known is not None  # it was just bought
    return known


def suitable_filter(spec: ReleaseSpec, cap: Budget, planned: Planned | None = None) -> Filter:
    """Of an account that is opened for this spec: with a part of delta set aside, where something is left open."""
    charges = (planned or plan_release(assumed_spec(spec))).plan.charges
    rule = needed_filter([charge.event for charge in charges], cap, spec.privacy.relation)
    return replace(rule, own_delta=suitable_aside(cap.delta, spec) if open_columns(spec) else Decimal(0))


def suitable_aside(delta: Decimal, spec: ReleaseSpec) -> Decimal:
    """For five discoveries, half of delta at most."""
    own = Decimal(repr(terms_of(spec).delta)) * spec.privacy.delta
    return min(5 * own, delta / 2).normalize()


@discreet("discover")
def _buy(
    spec: ReleaseSpec, plan: DiscoveryPlan, facts: Mapping[str, Any], source: Source | TreeSource, purchases: Purchases,
    tallying: Tallying,
) -> None:  # fmt: skip
    """Sum exactly, and buy the noisy result under the protocol of `privacy.ledger.spend`."""
    asked, unit = [one.asked for one in plan.columns], discovery_unit(spec)
    if isinstance(source, TreeSource):
        sums = tally_tree(source, spec, asked, unit)
    else:
        sums = tallying(source, asked, unit, contribution_key(spec))
    noise = plan.noise
    told = {
        "columns": [[one.name, declaration_of(one.column)] for one in plan.columns],
        "stds": {question.name: std for question, std in zip(noise.questions, noise.stds, strict=True)},
    }
    purchases(plan.charge, Mechanism(noise, sums, KIND, {**facts, **told}))


def _facts(spec: ReleaseSpec, price: Priced) -> dict[str, Any]:
    unit, rest, planned = discovery_unit(spec), price.planned.spec.privacy.budget, price.planned
    noise = calibrate_gaussian(rest) * counts_sensitivity(spec.privacy.relation, 1)
    domains = planned.domains.values() if spec.tables is not None else [planned.domain]
    sizing = {"noise": noise, "columns": sum(len(domain.columns) for domain in domains)}
    return {"subject": subject_of(spec), "grain": grain(unit), "sizing": sizing, CLOSING: VERSION}


def _half_bought(spec: ReleaseSpec, books: Books, price: Priced) -> Bought | None:
    """What this very release has bought of its domain already, of these columns, and has not finished."""
    own = [each for each in purchases_of(spec, books) if is_own(each.charges[0], spec)]
    unfinished = [each for each in own if each.record.columns == price.columns and each.record.second is None]
    return unfinished[-1] if unfinished else None


def _request(
    spec: ReleaseSpec, columns: Mapping[str, OpenColumn], place: int, event: Any, terms: Terms
) -> ChargeRequest:
    return ChargeRequest(
        account=parent_of(spec.privacy.account),
        relation=spec.privacy.relation,
        unit=spec.privacy.protected_unit,
        release=spec.name,
        spec_hash=purchase_key(subject_of(spec), columns),
        snapshot=spec.source.snapshot,
        stage=STAGES[place],
        event=event,
        flow_run=terms.flow_run,
        source=terms.source,
    )
