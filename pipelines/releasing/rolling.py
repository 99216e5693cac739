"""Rolling releases: one release a period, and how the periods of one series compose.

**recurring** (the default): an entity may be in any number of periods. Every period is a charge of the account, and the
ledger composes them all.

**disjoint**: the data's owner declares that no unit is in two periods. Then, under ADD_REMOVE, a unit touches one
period's release only, and the worst of them counts (parallel composition; `events.Parallel` with equal branches). The
ledger says it like this, in charges it already knows:

1. The account pays once for the series: a charge of one period's event, stage `disjoint periods`. It buys the
   right to make that event in each period, and what is stored for it is the declaration. No noise is drawn.
2. Each period has an account of its own, `account@series@period`, whose cap is exactly what the series paid for. No
   spec can name it (`@` is not a letter of account names), so only this module spends from it.

Soundness. Let E be the event. A series is its spec without snapshot, addresses and date bounds, together with E, so
nothing but E is ever charged to its periods' accounts, and at most as many copies as their cap has room for. A unit of
period p is touched by the charges of the parent that are not this series', and by those copies, each of which the
parent holds as well. So its loss is at most the parent's composed loss, which the ledger keeps within the cap. A
charge that was burnt and is paid again needs a second copy of E, which the parent pays before the period's cap grows.
Any other change to the spec is another series and is paid for anew.
REPLACE_ONE is refused: a replaced unit may move to another period and touch two.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import MethodPlan, PlannedCharge
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Composed, Event, SelfComposed, to_json
from understudy.pipelines.privacy.ledger.ledger import Account, ChargeRequest, Ledger
from understudy.pipelines.privacy.ledger.spend import Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.releasing.approving import requests_of
from understudy.pipelines.spec.model import ReleaseSpec

STAGE = "disjoint periods"
DECLARATION = "disjoint-periods"
MOST_PERIODS = 1200
SEPARATOR = "@"


@dataclass(frozen=True)
class Forecast:
    """How many further periods the cap pays for, this one not counted if it is paid; None: every one."""

    period: str
    entities: str
    remaining: int | None

    @property
    def sentence(self) -> str:
        if self.remaining is None:
            return f"declared disjoint: what is paid covers every further {self.period}"
        many = f"at least {MOST_PERIODS}" if self.remaining >= MOST_PERIODS else str(self.remaining)
        return f"the cap pays for {many} further {self.period}{'' if self.remaining == 1 else 's'} of this release"


def event_of(plan: MethodPlan) -> Event:
    events = tuple(charge.event for charge in plan.charges)
    return events[0] if len(events) == 1 else Composed(events)


def series_of(spec: ReleaseSpec, plan: MethodPlan) -> str:
    """Equal for the periods of one series: what is measured, apart from which period it is measured in."""
    measured: dict[str, Any] = spec.model_dump(
        mode="json", exclude={"source", "generate", "publish", "compute", "schedule", "rolling"}
    )
    columns = []
    for name, column in measured["columns"].items():
        bounds = ("min", "max") if column["type"] in ("date", "datetime") else ()
        columns.append([name, {key: value for key, value in column.items() if key not in bounds}])
    assert spec.rolling is not None
    return hash_of({**measured, "columns": columns, "period": spec.rolling.period, "event": to_json(event_of(plan))})


def enter_series(
    ledger: Ledger, store: MeasurementStore, spec: ReleaseSpec, plan: MethodPlan, pay_again: bool = False
) -> ReleaseSpec:
    """The spec as its period's account pays for it, once the account has paid for the series. Others are unchanged."""
    if spec.rolling is None or spec.rolling.entities != "disjoint":
        return spec
    if spec.privacy.relation is not Relation.ADD_REMOVE:
        raise SpecError(
            "entities: disjoint needs the relation add_remove: a replaced unit may move from one period to another",
            "use add_remove, or declare entities: recurring",
        )
    parent = ledger.account(spec.privacy.account)
    series = series_of(spec, plan)
    name = f"{parent.name}{SEPARATOR}{series[:10]}{SEPARATOR}{spec.source.snapshot}"
    own = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"account": name})})
    copies = 1 + max(ledger.attempt_for(request, pay_again) for request in requests_of(own, plan))
    for copy in range(1, copies + 1):
        _pay(ledger, store, spec, plan, series, copy)
    _open(ledger, parent, name, event_of(plan), copies)
    return own


def is_period_account(name: str) -> bool:
    return SEPARATOR in name


def forecast(ledger: Ledger, spec: ReleaseSpec, plan: MethodPlan) -> Forecast | None:
    """From the ledger as it stands; reads no row and changes nothing."""
    if spec.rolling is None:
        return None
    remaining = ledger.balance(spec.privacy.account).remaining(event_of(plan), most=MOST_PERIODS)
    if spec.rolling.entities == "disjoint":
        paid = ledger.find(_series_request(spec, plan, series_of(spec, plan), 1).mid) is not None
        return Forecast(spec.rolling.period, "disjoint", None if paid or remaining else 0)
    return Forecast(spec.rolling.period, "recurring", remaining)


def _pay(ledger: Ledger, store: MeasurementStore, spec: ReleaseSpec, plan: MethodPlan, series: str, copy: int) -> None:
    request = _series_request(spec, plan, series, copy)
    if ledger.find(request.mid) is not None:
        return  # paid, in whichever state: nothing is ever drawn under it, so even a burnt one is paid for
    ledger.check([request])
    assert spec.rolling is not None
    declared = {
        "declaration": f"no {spec.privacy.unit.entity or 'row'} is in two {spec.rolling.period}s of {spec.name}",
        "series": series,
        "copy": copy,
    }
    purchases = Purchases(ledger, store, lambda charge: request)
    purchases(PlannedCharge(STAGE, request.event), lambda randomness: Measurement(DECLARATION, declared, {}))


def _open(ledger: Ledger, parent: Account, name: str, event: Event, copies: int) -> None:
    loss = composed_loss([SelfComposed(event, copies)], float(parent.cap.delta), parent.relation)
    cap = Budget(Decimal(repr(loss.epsilon)), parent.cap.delta)
    if any(account.name == name for account in ledger.accounts()):
        if ledger.account(name).cap.epsilon < cap.epsilon:
            ledger.change_cap(name, cap, f"{parent.name} paid for {copies} copies of the series")
        return
    ledger.open_account(name, parent.relation, parent.unit, cap, f"one period of a disjoint series of {parent.name}")


def _series_request(spec: ReleaseSpec, plan: MethodPlan, series: str, copy: int) -> ChargeRequest:
    assert spec.rolling is not None
    return ChargeRequest(
        account=spec.privacy.account,
        relation=spec.privacy.relation,
        unit=spec.privacy.protected_unit,
        release=spec.name,
        spec_hash=series,
        snapshot=f"every {spec.rolling.period}" + ("" if copy == 1 else f", copy {copy}"),
        stage=STAGE,
        event=event_of(plan),
    )


def declared_step(spec: ReleaseSpec) -> str | None:
    """The line a plan and a manifest carry when their guarantee leans on the declaration."""
    if spec.rolling is None or spec.rolling.entities != "disjoint":
        return None
    unit = spec.privacy.unit.entity or "row"
    return (
        f"declared by the data's owner: no {unit} is in two {spec.rolling.period}s, so the {spec.rolling.period}s "
        "compose in parallel; if that is false the guarantee holds only for one of them"
    )


__all__ = ["Forecast", "declared_step", "enter_series", "event_of", "forecast", "series_of"]
