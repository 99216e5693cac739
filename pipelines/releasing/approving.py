"""What a release asks of the ledger: one request for each planned charge, checked before a private row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.ledger.ledger import Charge, ChargeRequest, Ledger, State
from understudy.pipelines.privacy.ledger.records import charged_loss
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.publishing.manifest import public_spec
from understudy.pipelines.releasing.extras import require_extras
from understudy.pipelines.spec.model import ReleaseSpec


@dataclass(frozen=True)
class Approval:
    """The requests of a release that the ledger would accept, and what the account will then have spent."""

    requests: tuple[ChargeRequest, ...]
    loss_after: Loss

    @property
    def mids(self) -> tuple[str, ...]:
        return tuple(request.mid for request in self.requests)


def approve(
    ledger: Ledger,
    spec: ReleaseSpec,
    plan: MethodPlan[Any],
    *,
    flow_run: str = "",
    resume: bool = False,
    pay_again: bool = False,
    source: str = "",
) -> Approval:
    """Refuse now what the ledger would refuse later: unknown account, other relation or unit, cap, changed spec, other
    data than was measured (`source` is its identity)."""
    require_extras(spec)
    requests = requests_of(spec, plan, flow_run, source)
    if resume:
        _require_something_to_resume(ledger, spec)
    loss = ledger.check(requests, pay_again=pay_again)
    attempts = (ledger.attempt_for(request, pay_again=pay_again) for request in requests)
    return Approval(tuple(replace(r, attempt=n) for r, n in zip(requests, attempts, strict=True)), loss)


def requests_of(
    spec: ReleaseSpec, plan: MethodPlan[Any], flow_run: str = "", source: str = ""
) -> tuple[ChargeRequest, ...]:
    """Every planned charge in the terms of the spec's account."""
    return tuple(
        ChargeRequest(
            account=spec.privacy.account,
            relation=spec.privacy.relation,
            unit=spec.privacy.protected_unit,
            release=spec.name,
            spec_hash=spec.hash,
            snapshot=spec.source.snapshot,
            stage=charge.stage,
            event=charge.event,
            flow_run=flow_run,
            source=source,
        )
        for charge in plan.charges
    )


def stored_measurement(ledger: Ledger, store: MeasurementStore, approval: Approval) -> Measurement | None:
    """What an earlier run of this very release bought, if it bought all of it at once."""
    if len(approval.requests) != 1:
        return None
    charge = ledger.find(approval.mids[0])
    if charge is None or charge.state is not State.MEASURED or charge.measurement_sha256 is None:
        return None
    return store.load(charge.mid, charge.measurement_sha256)


def remembering(purchase: Purchase, spec: ReleaseSpec, types: Mapping[str, Any]) -> Purchase:
    """A purchase whose stored measurement says what it is of, so that it can be used again without the spec's file,
    and of what types the source's columns are."""

    remembered = public_spec(spec)
    remembered["columns"] = list(remembered["columns"].items())  # stored JSON sorts its keys; order matters
    if spec.tables is not None:
        named = remembered["tables"].items()
        remembered["tables"] = [[name, {**each, "columns": list(each["columns"].items())}] for name, each in named]

    def buy(charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        return purchase(charge, mechanism.remembering(spec=remembered, **({"types": dict(types)} if types else {})))

    return buy


def loss_without(ledger: Ledger, account: str, mids: tuple[str, ...]) -> Loss:
    """What the account had spent, by its filter, on everything but these charges."""
    others = tuple((charge.event, 1) for charge in ledger.charges(account) if charge.mid not in mids)
    return charged_loss(others, ledger.account(account))


def settled_charges(ledger: Ledger, approval: Approval) -> list[Charge]:
    """The committed charges behind a release, without which nothing is published."""
    return settled(ledger, approval.mids)


def settled(ledger: Ledger, mids: tuple[str, ...]) -> list[Charge]:
    found = [ledger.find(mid) for mid in mids]
    measured = [charge for charge in found if charge is not None and charge.state is State.MEASURED]
    if len(measured) != len(mids):
        raise AssertionError("a release without a committed charge must never reach publication")
    return measured


def all_measured(ledger: Ledger, approval: Approval) -> bool:
    """Whether every charge of the release was made and measured."""
    found = (ledger.find(mid) for mid in approval.mids)
    return all(charge is not None and charge.state is State.MEASURED for charge in found)


def _require_something_to_resume(ledger: Ledger, spec: ReleaseSpec) -> None:
    ledger.account(spec.privacy.account)
    earlier = ledger.charges_of(spec.privacy.account, spec.name, spec.source.snapshot)
    if any(charge.spec_hash == spec.hash for charge in earlier):
        return
    if earlier:
        raise SpecError(
            f"the spec of {spec.name!r} was edited after snapshot {spec.source.snapshot!r} was charged: its "
            f"measurement belongs to spec {earlier[-1].spec_hash[:12]}, this one is {spec.hash[:12]}",
            "undo the edit to resume for free (only `generate`, `publish` and `compute` may change), or release "
            "without --resume and pay for a new measurement",
        )
    raise nothing_to_resume(spec)


def nothing_to_resume(spec: ReleaseSpec) -> SpecError:
    return SpecError(
        f"nothing to resume: {spec.name!r} was never charged for snapshot {spec.source.snapshot!r}",
        "release without --resume",
    )
