"""Where an account stands before a release: what it has spent, what this release would take, how far the cap reaches.

Each as a line that people read, for the command and for the plan's page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from understudy.pipelines.errors import BudgetRefused, ChargeBurnt
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.privacy.events import Composed
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.stating import spent_text
from understudy.pipelines.releasing.approving import approve
from understudy.pipelines.releasing.rolling import Entry, declared_steps, entry_of, forecast
from understudy.pipelines.spec.model import ReleaseSpec

MOST_RELEASES = 1000


def standing(ledger: Ledger, spec: ReleaseSpec, plan: MethodPlan[Any], source: str = "") -> list[str]:
    """`source` is the identity of the data, where it is known."""
    return list(_standing(ledger, spec, plan, entry_of(ledger, spec, plan), source))


def _standing(ledger: Ledger, spec: ReleaseSpec, plan: MethodPlan[Any], entry: Entry, source: str) -> Iterator[str]:
    balance = ledger.balance(spec.privacy.account)
    cap, spent = balance.account.cap, spent_text(balance.spent.epsilon)
    yield f"account {balance.account.name}: spent {spent} of {cap.epsilon} at delta {cap.delta}"
    yield f"   filter {balance.account.filter.name}: {balance.account.filter.theorem}"
    paid = entry.spec.privacy.account
    try:
        if entry.series is not None and not any(account.name == paid for account in ledger.accounts()):
            yield from _of_series(ledger, spec, entry)
            yield from _ahead(ledger, spec, plan)
            return
        approval = approve(ledger, entry.spec, plan, source=source)
    except (BudgetRefused, ChargeBurnt) as refusal:
        yield f"this release would be refused: {refusal}"
        return
    if all(ledger.find(mid) is not None for mid in approval.mids):
        yield "this release is paid for already: running it spends nothing"
    elif entry.series is not None:
        yield from _of_series(ledger, spec, entry)
    else:
        more = balance.remaining(Composed(tuple(charge.event for charge in plan.charges)), most=MOST_RELEASES)
        fits = f"{more}" if more < MOST_RELEASES else f"at least {MOST_RELEASES}"
        after = spent_text(approval.loss_after.epsilon)
        yield f"after this release: {after} spent; the cap pays for {fits} such, this one included"
    yield from _ahead(ledger, spec, plan)


def _of_series(ledger: Ledger, spec: ReleaseSpec, entry: Entry) -> Iterator[str]:
    """Who pays for a period of a disjoint series that was not measured yet."""
    assert spec.rolling is not None
    if not entry.unpaid:
        yield (
            f"{spec.privacy.account} has paid for the series: this {spec.rolling.period} is charged to "
            f"{entry.spec.privacy.account} and costs {spec.privacy.account} nothing more"
        )
        return
    after = ledger.check(entry.unpaid)
    times = "once" if len(entry.unpaid) == 1 else f"{len(entry.unpaid)} times"
    yield f"{spec.privacy.account} pays for the series {times}: {spent_text(after.epsilon)} spent afterwards"


def _ahead(ledger: Ledger, spec: ReleaseSpec, plan: MethodPlan[Any]) -> Iterator[str]:
    """For rolling releases: how far the cap reaches, and what that leans on."""
    ahead = forecast(ledger, spec, plan)
    if ahead is None:
        return
    yield f"rolling ({ahead.entities} entities): {ahead.sentence}"
    for step in declared_steps(spec):
        yield f"   ! {step}"
