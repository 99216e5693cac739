"""Privatize: the only stage that spends budget and draws noise. It has no retries: the ledger protects it.

`afford` refuses before a private row is read; `recall` finds what an earlier run paid for; `privatize` counts exactly
and buys the noisy result under the two-transaction protocol of `pipelines.privacy.ledger.spend`.
"""

from __future__ import annotations

from pathlib import Path

from prefect.runtime import flow_run

from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.ledger import Charge
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.approving import Approval, approve, stored_measurement
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.measuring import measure
from understudy.pipelines.releasing.payments import balances_of, payments_of
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.sources.identity import data_identity
from understudy.tasks.telling.events import announce_charge
from understudy.tasks.telling.reporting import report_spend
from understudy.tasks.telling.retrying import unstored
from understudy.tasks.telling.stages import stage


@unstored
def afford(planned: Planned, books: Books, base: Path, resume: bool, pay_again: bool) -> Approval:
    spec, run = planned.spec, str(flow_run.id or "")
    source = data_identity(spec, base)
    return approve(books.ledger, spec, planned.plan, flow_run=run, resume=resume, pay_again=pay_again, source=source)


@unstored
def recall(planned: Planned, approval: Approval, books: Books) -> Measurement | None:
    measured = stored_measurement(books.ledger, books.store, approval)
    if measured is not None:
        account = planned.spec.privacy.account
        _report(planned, books, [f"reused: paid for by an earlier run, from {account}; nothing drawn"])
    return measured


@unstored
@stage("counting and measuring")
def privatize(table: PrivateTable | LocalTree, planned: Planned, approval: Approval, books: Books) -> Measurement:
    fault_point("before_privatize")
    happened: list[tuple[str, Charge]] = []  # told later: T1 to T2 must stay short
    try:
        measured = measure(
            table, planned, approval, books, on_event=lambda what, charge: happened.append((what, charge))
        )
    finally:
        for what, charge in happened:
            announce_charge(what, charge)
    notes = [f"{what}: {charge.stage}, account {charge.account}" for what, charge in happened]
    paid = payments_of(books.ledger, [charge for what, charge in happened if what == "charged"])
    _report(planned, books, [*notes, *(f"spent: {payment.sentence}" for payment in paid)])
    fault_point("after_privatize")
    return measured


def _report(planned: Planned, books: Books, notes: list[str]) -> None:
    report_spend(planned.spec, planned.plan, balances_of(books.ledger, planned.spec.privacy.account), notes)
