"""Privatize: the only stage that spends budget and draws noise. It has no retries: the ledger protects it.

`afford` refuses before a private row is read; `recall` finds what an earlier run paid for; `privatize` counts exactly
and buys the noisy result under the two-transaction protocol of `pipelines.privacy.spend`.
"""

from __future__ import annotations

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from understudy.pipelines.methods.base import MethodPlan, PrivateTable
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.ledger import Charge, Ledger
from understudy.pipelines.privacy.ledger.spend import Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.approving import Approval, approve, remembering, stored_measurement
from understudy.pipelines.releasing.payments import balances_of, payments_of
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.sources.identity import source_identity
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.telling.discretion import discreet
from understudy.tasks.telling.events import announce_charge
from understudy.tasks.telling.reporting import report_spend
from understudy.tasks.telling.stages import stage


@task(persist_result=False, cache_policy=NO_CACHE)
def afford(spec: ReleaseSpec, plan: MethodPlan, base: Path, resume: bool, pay_again: bool) -> Approval:
    ledger, source = Ledger(Workspace.from_environment().ledger_url), source_identity(spec.source, base)
    run = str(flow_run.id or "")
    return approve(ledger, spec, plan, flow_run=run, resume=resume, pay_again=pay_again, source=source)


@task(persist_result=False, cache_policy=NO_CACHE)
def recall(spec: ReleaseSpec, plan: MethodPlan, approval: Approval) -> Measurement | None:
    workspace = Workspace.from_environment()
    ledger = Ledger(workspace.ledger_url)
    measured = stored_measurement(ledger, MeasurementStore(workspace.measurements), approval)
    if measured is not None:
        account = spec.privacy.account
        notes = [f"reused: paid for by an earlier run, from {account}; nothing drawn"]
        report_spend(spec, plan, balances_of(ledger, account), notes)
    return measured


@task(persist_result=False, cache_policy=NO_CACHE)
@stage("counting and measuring")
@discreet("privatize")
def privatize(table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan, approval: Approval) -> Measurement:
    fault_point("before_privatize")
    workspace = Workspace.from_environment()
    happened: list[tuple[str, Charge]] = []
    ledger = Ledger(workspace.ledger_url)
    requests = {request.stage: request for request in approval.requests}
    purchases = Purchases(
        ledger,
        MeasurementStore(workspace.measurements),
        lambda charge: requests[charge.stage],
        on_event=lambda what, charge: happened.append((what, charge)),  # told later: T1 to T2 must stay short
    )
    sold = remembering(purchases, spec) if len(plan.charges) == 1 else purchases
    try:
        measured = method_named(spec.method.name).measure(table, spec, plan, sold)
    finally:
        for what, charge in happened:
            announce_charge(what, charge)
    notes = [f"{what}: {charge.stage}, account {charge.account}" for what, charge in happened]
    paid = payments_of(ledger, [charge for what, charge in happened if what == "charged"])
    notes += [f"spent: {payment.sentence}" for payment in paid]
    report_spend(spec, plan, balances_of(ledger, spec.privacy.account), notes)
    fault_point("after_privatize")
    return measured
