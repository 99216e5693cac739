"""Rolling releases in the flow: who pays for this period, and whether the cap will pay for the next ones."""

from __future__ import annotations

from pathlib import Path

from prefect.artifacts import create_markdown_artifact

from understudy.pipelines.privacy.ledger.ledger import Charge
from understudy.pipelines.releasing import planning
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.releasing.rolling import entry_of, forecast
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.preflight import require_ready
from understudy.tasks.telling.events import announce, announce_charge
from understudy.tasks.telling.reporting import artifact_key
from understudy.tasks.telling.retrying import unstored


@unstored
def enter_period(planned: Planned, books: Books, base: Path, resume: bool, pay_again: bool) -> Planned:
    """The snapshot is a period. Of disjoint ones the series is paid for, and this one is charged to its own account."""
    happened: list[tuple[str, Charge]] = []
    if entry_of(books.ledger, planned.spec, planned.plan, pay_again).unpaid:
        require_ready(planned.spec, books, base)
    entered = planning.enter_period(
        planned, books, pay_again, resume, on_event=lambda what, charge: happened.append((what, charge))
    )
    for what, charge in happened:
        announce_charge(what, charge)
    return entered


@unstored
def look_ahead(spec: ReleaseSpec, planned: Planned, books: Books) -> None:
    """Warn, by an event that automations can act on, before the cap runs out."""
    ahead = forecast(books.ledger, spec, planned.plan)
    if ahead is None or spec.rolling is None:
        return
    create_markdown_artifact(
        f"# {spec.name}\n\nAfter snapshot {spec.source.snapshot}, {ahead.sentence}.\n",
        key=artifact_key(spec.name, "forecast"),
        description="How long the account's cap lasts",
    )
    if ahead.remaining is not None and ahead.remaining < spec.rolling.warn_below:
        announce(
            "budget.low",
            spec.privacy.account,
            release=spec.name,
            snapshot=spec.source.snapshot,
            period=ahead.period,
            remaining=ahead.remaining,
        )
