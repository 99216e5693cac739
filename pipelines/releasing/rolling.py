"""Rolling releases: one release a period, and how the periods of one series compose.

A period is named by its own label and by nothing else (`spec.periods`), so that one period cannot be measured under two
names. What was measured under other names before that was asked for stays readable; nothing new is measured under one.

**recurring** (the default): an entity may be in any number of periods. Every period is a charge of the account, and the
ledger composes them all. The same period from another source or under another spec is a further charge.

**disjoint**: no unit is in two periods. Where the unit is a row, `rolling.column` makes that true by construction: only
rows whose value lies in the period are read. Where it is an entity, it is the word of the data's owner. Then, under
ADD_REMOVE, a unit touches one period's release only, and the worst of them counts (parallel composition;
`events.Parallel` with equal branches). The ledger says it like this, in charges it already knows:

1. The account pays once for the series: a charge of one period's event, stage `disjoint periods`. It buys the
   right to make that event in each period, and what is stored for it is the declaration. No noise is drawn.
2. Each period has an account of its own, `account@series@period`, with the filter of the account that pays, whose cap
   is exactly what the series paid for by that filter. Nobody can open or name it (`@` is not a letter of account
   names), so only this module spends from it.

Soundness. Let E be the event. A series is its spec without snapshot, addresses and date bounds, together with E, so
nothing but E is ever charged to its periods' accounts. T1 refuses a period's account a second spec, hence a second
source (`rows.require_one_measurement`), so what a period draws is E as often as it was attempted. A charge that was
burnt and is paid again needs a second copy of E, which the parent pays before the period's cap grows. A unit of period
p is touched by the charges of the parent that are not this series', and by p's copies of E, each of which the parent
holds as well. So its loss is at most the parent's composed loss, which the ledger keeps within the cap. Any other
change to the spec is another series and is paid for anew.

Periods that an older version measured under other names may hold the units of any period. Their owner declared that
no unit is in two *of them*: they are a series of their own, and the parent pays for as many more copies as the largest
of them took before a period is measured under its label.
REPLACE_ONE is refused: a replaced unit may move to another period and touch two.
Theorem, relation, sensitivity, noise unit, reference. Step by step in docs/proofs/periods.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.privacy.events import Composed, Event, to_json
from understudy.pipelines.privacy.ledger.ledger import Account, ChargeRequest, Ledger
from understudy.pipelines.privacy.ledger.names import SEPARATOR, period_account, series_prefix
from understudy.pipelines.privacy.ledger.records import loss_of
from understudy.pipelines.privacy.ledger.rows import measured_otherwise
from understudy.pipelines.privacy.ledger.spend import EventCallback, Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.mechanism import Mechanism, NothingDrawn, PlannedCharge
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.releasing.approving import nothing_to_resume, requests_of
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.periods import Period, is_label, period_named

STAGE = "disjoint periods"
DECLARATION = "disjoint-periods"
MOST_PERIODS = 1200


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


@dataclass(frozen=True)
class Entry:
    """How a release enters its period: the spec as it is charged, and what its account has to pay for first."""

    spec: ReleaseSpec
    series: str | None = None
    copies: int = 0
    unpaid: tuple[ChargeRequest, ...] = ()
    charged_before: bool = False


def require_period(ledger: Ledger, spec: ReleaseSpec) -> None:
    """Refuse a snapshot that is no period's label at once, unless something was charged under that name before."""
    if spec.rolling is None or is_label(spec.rolling.period, spec.source.snapshot):
        return
    name = spec.privacy.account
    paying = [a.name for a in ledger.accounts() if a.name == name or a.name.startswith(name + SEPARATOR)]
    if not any(ledger.charges_of(account, spec.name, spec.source.snapshot) for account in paying):
        period_named(spec.rolling.period, spec.source.snapshot)


def new_period(spec: ReleaseSpec) -> Period:
    """The period that a rolling spec would measure, or why nothing new may be measured under it; asks no ledger."""
    assert spec.rolling is not None
    if spec.rolling.entities == "disjoint":
        if spec.privacy.relation is not Relation.ADD_REMOVE:
            raise SpecError(
                "entities: disjoint needs the relation add_remove: a replaced unit may move from one period to another",
                "use add_remove, or declare entities: recurring",
            )
        if spec.privacy.unit.entity is None and spec.rolling.column is None:
            raise SpecError(
                "entities: disjoint needs rolling.column where the unit is a row: nothing else says which "
                f"{spec.rolling.period} a row belongs to",
                "name the date column that puts a row into its period, as rolling.column; or declare recurring",
            )
    return period_named(spec.rolling.period, spec.source.snapshot)


def event_of(plan: MethodPlan[Any]) -> Event:
    events = tuple(charge.event for charge in plan.charges)
    return events[0] if len(events) == 1 else Composed(events)


def series_of(spec: ReleaseSpec, plan: MethodPlan[Any]) -> str:
    """Equal for the periods of one series: what is measured, apart from which period it is measured in."""
    return _series(spec, event_of(plan))


def _series(spec: ReleaseSpec, event: Event) -> str:
    measured: dict[str, Any] = spec.model_dump(
        mode="json", exclude={"source", "generate", "publish", "compute", "schedule", "rolling"}
    )
    columns = []
    for name, column in measured["columns"].items():
        if name in spec.derived:  # not measured
            continue
        bounds = ("min", "max") if column["type"] in ("date", "datetime") else ()
        columns.append([name, {key: value for key, value in column.items() if key not in bounds}])
    assert spec.rolling is not None
    parted: dict[str, str] = {"period": spec.rolling.period}
    if spec.rolling.column is not None:
        parted["column"] = spec.rolling.column
    return hash_of({**measured, "columns": columns, **parted, "event": to_json(event)})


def entry_of(ledger: Ledger, spec: ReleaseSpec, plan: MethodPlan[Any], pay_again: bool = False) -> Entry:
    """Who would pay for this period, and what. Reads the ledger only, and refuses what must not be measured."""
    if spec.rolling is None:
        return Entry(spec)
    parent = ledger.account(spec.privacy.account)
    if (before := _charged_before(ledger, spec, plan, pay_again)) is not None:
        return before
    period = new_period(spec)
    if spec.rolling.entities != "disjoint":
        return Entry(spec)
    series = series_of(spec, plan)
    own = charged_to(spec, period_account(parent.name, series, period.label))
    if any(charge.spec_hash != own.hash for charge in ledger.charges(own.privacy.account)):
        raise measured_otherwise(own.privacy.account, spec.source.snapshot)
    copies = 1 + max(ledger.attempt_for(request, pay_again) for request in requests_of(own, plan))
    asked = range(1, copies + _named_otherwise(ledger, spec, series) + 1)
    requests = (_series_request(spec, event_of(plan), series, copy) for copy in asked)
    # One that was made is paid, in whichever state: nothing is ever drawn under it, so even a burnt one is paid for.
    return Entry(own, series, copies, tuple(request for request in requests if ledger.find(request.mid) is None))


def enter_series(
    ledger: Ledger,
    store: MeasurementStore,
    spec: ReleaseSpec,
    plan: MethodPlan[Any],
    pay_again: bool = False,
    resume: bool = False,
    on_event: EventCallback | None = None,
) -> ReleaseSpec:
    """The spec as its period's account pays for it, once the account has paid for the series. Others are unchanged."""
    entry = entry_of(ledger, spec, plan, pay_again)
    if entry.series is None or entry.charged_before:
        return entry.spec
    if resume and not ledger.charges(entry.spec.privacy.account):
        raise nothing_to_resume(spec)
    if entry.unpaid:
        ledger.check(entry.unpaid)
    for request in entry.unpaid:
        _pay(ledger, store, spec, request, on_event)
    _open(ledger, ledger.account(spec.privacy.account), entry, event_of(plan))
    return entry.spec


def forecast(ledger: Ledger, spec: ReleaseSpec, plan: MethodPlan[Any]) -> Forecast | None:
    """From the ledger as it stands; reads no row and changes nothing."""
    if spec.rolling is None:
        return None
    remaining = ledger.balance(spec.privacy.account).remaining(event_of(plan), most=MOST_PERIODS)
    if spec.rolling.entities == "disjoint":
        paid = ledger.find(_series_request(spec, event_of(plan), series_of(spec, plan), 1).mid) is not None
        return Forecast(spec.rolling.period, "disjoint", None if paid or remaining else 0)
    return Forecast(spec.rolling.period, "recurring", remaining)


def charged_to(spec: ReleaseSpec, account: str) -> ReleaseSpec:
    """The spec as it is measured and hashed when this account is the one that is charged."""
    return spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"account": account})})


def _charged_before(ledger: Ledger, spec: ReleaseSpec, plan: MethodPlan[Any], pay_again: bool) -> Entry | None:
    """The entry of an earlier run of this very spec that no rule of today may undo.

    Its snapshot may be no label, its event that of a version which calibrated otherwise: it was paid for then.
    """
    assert spec.rolling is not None
    if spec.rolling.entities != "disjoint":
        return Entry(spec, charged_before=True) if _stands(ledger, spec, plan, pay_again) else None
    paid = [charge for charge in ledger.charges(spec.privacy.account) if charge.stage == STAGE]
    for charge in paid:
        if charge.release == spec.name and _series(spec, charge.event) == charge.spec_hash:
            own = charged_to(spec, period_account(charge.account, charge.spec_hash, spec.source.snapshot))
            if _stands(ledger, own, plan, pay_again):
                return Entry(own, charge.spec_hash, charged_before=True)
    return None


def _stands(ledger: Ledger, own: ReleaseSpec, plan: MethodPlan[Any], pay_again: bool) -> bool:
    """Whether every charge of the release was made, and no further attempt is asked for."""
    for request in requests_of(own, plan):
        attempt = ledger.attempt_for(request)
        if ledger.find(replace(request, attempt=attempt).mid) is None:
            return False
        if pay_again and ledger.attempt_for(request, pay_again) != attempt:
            return False
    return True


def _named_otherwise(ledger: Ledger, spec: ReleaseSpec, series: str) -> int:
    """The most copies that a period of this series took under a name that is no label."""
    assert spec.rolling is not None
    prefix = series_prefix(spec.privacy.account, series)
    named = [account.name for account in ledger.accounts() if account.name.startswith(prefix)]
    odd = [name for name in named if not is_label(spec.rolling.period, name.removeprefix(prefix))]
    return max((1 + max((c.attempt for c in ledger.charges(name)), default=-1) for name in odd), default=0)


def _pay(
    ledger: Ledger, store: MeasurementStore, spec: ReleaseSpec, request: ChargeRequest, on_event: EventCallback | None
) -> None:
    assert spec.rolling is not None
    declared = {
        "declaration": f"no {spec.privacy.unit.entity or 'row'} is in two {spec.rolling.period}s of {spec.name}",
        "series": request.spec_hash,
        "snapshot": request.snapshot,
    }
    purchases = Purchases(ledger, store, lambda charge: request, on_event=on_event)
    declaration = Mechanism(NothingDrawn(request.event), None, DECLARATION, declared)
    purchases(PlannedCharge(STAGE, request.event), declaration)


def _open(ledger: Ledger, parent: Account, entry: Entry, event: Event) -> None:
    assert entry.series is not None
    loss = loss_of(((event, entry.copies),), parent)
    cap = Budget(Decimal(repr(loss.epsilon)), parent.cap.delta)
    name = entry.spec.privacy.account
    if any(account.name == name for account in ledger.accounts()):
        if ledger.account(name).cap.epsilon < cap.epsilon:
            ledger.change_cap(name, cap, f"{parent.name} paid for {entry.copies} copies of the series")
        return
    ledger.open_period_account(parent.name, entry.series, entry.spec.source.snapshot, cap)


def _series_request(spec: ReleaseSpec, event: Event, series: str, copy: int) -> ChargeRequest:
    assert spec.rolling is not None
    return ChargeRequest(
        account=spec.privacy.account,
        relation=spec.privacy.relation,
        unit=spec.privacy.protected_unit,
        release=spec.name,
        spec_hash=series,
        snapshot=f"every {spec.rolling.period}" + ("" if copy == 1 else f", copy {copy}"),
        stage=STAGE,
        event=event,
    )


def declared_steps(spec: ReleaseSpec) -> tuple[str, ...]:
    """The lines a plan and a manifest carry: which rows are the period's, and what its guarantee leans on."""
    if spec.rolling is None:
        return ()
    kind, unit, column = spec.rolling.period, spec.privacy.unit.entity or "row", spec.rolling.column
    chosen = () if column is None else (f"only rows whose {column} lies in {spec.source.snapshot} are read",)
    if spec.rolling.entities != "disjoint":
        return chosen
    if column is not None and spec.privacy.unit.entity is None:
        return (*chosen, f"a row has one {column}, so it is in one {kind} only, and the {kind}s compose in parallel")
    return (
        *chosen,
        f"declared by the data's owner: no {unit} is in two {kind}s, so the {kind}s "
        "compose in parallel; if that is false the guarantee holds only for one of them",
    )
