"""`understudy release`: the release flow, run from a terminal."""

from __future__ import annotations

import datetime as dt
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from understudy.cli import orchestrator
from understudy.cli.keys import tell_if_made
from understudy.cli.progress import stages_shown
from understudy.cli.stopping import before_stopping
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.ledger import Who
from understudy.pipelines.privacy.stating import left_text, spent_text
from understudy.pipelines.publishing.targets.base import Published, open_target
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.domains import known_domain
from understudy.pipelines.releasing.payments import charges_known, payments_since
from understudy.pipelines.releasing.policy import Policy
from understudy.pipelines.releasing.rolling import require_period
from understudy.pipelines.releasing.versions import at_version
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import load_spec


def run_release(
    path: Path,
    *,
    resume: bool = False,
    pay_again: bool = False,
    approved: bool = False,
    rediscover: bool = False,
    at: dt.datetime | None = None,
) -> Published:
    spec = load_spec(path, at, any_snapshot=True)  # the flow judges it, by the ledger
    options = {"resume": resume, "pay_again": pay_again, "approved": approved, "rediscover": rediscover}
    return release_and_report(spec, path.parent, **options)


def release_and_report(
    spec: ReleaseSpec,
    base: Path,
    *,
    resume: bool = False,
    pay_again: bool = False,
    approved: bool = False,
    rediscover: bool = False,
) -> Published:
    Policy.from_environment().require_allowed(spec, base)
    if approved and spec.publish.approval == "required":
        _require_terminal()
    if spec.publish.approval == "required" and not approved and not orchestrator.has_users_server():
        raise SpecError(
            f"{spec.name!r} wants a person's approval before it is published, and no server is there to ask one",
            "say yes yourself with --approve at a terminal, or set PREFECT_API_URL and resume the run when it pauses",
        )
    workspace = Workspace.from_environment()
    books = Books.open(workspace)
    ledger = books.ledger
    ledger.account(spec.privacy.account)  # or refuse before anything starts
    require_period(ledger, spec)
    spec = at_version(spec, base, ledger, resume=resume)
    known = charges_known(ledger, spec)
    tell_if_made(workspace)
    click.echo(f"releasing {spec.name}, snapshot {spec.source.snapshot} ...", err=True)
    started = time.monotonic()
    with stages_shown() as show:
        show("waiting for Prefect")
        orchestrator.begin(workspace, staged_in(workspace, spec, base))
        from understudy.tasks.approval import said_yes
        from understudy.tasks.books import lent
        from understudy.tasks.telling.stages import listen, watch  # after `begin`: importing a task imports prefect

        release = _release_flow()
        orchestrator.ready()
        unlisten, unwatch = listen(show), watch(show.far)
        try:
            with orchestrator.suited(), lent(books), said_yes(Who.here().user) if approved else nullcontext():
                again = {"pay_again": pay_again, "rediscover": rediscover}
                published: Published = release(spec, base.absolute(), resume=resume, **again)
        finally:
            unlisten()
            unwatch()
    _report(published, books, spec, known, time.monotonic() - started)
    return published


def at_a_terminal() -> bool:
    return sys.stdin.isatty()


def _require_terminal() -> None:
    if Policy.from_environment().approvers:
        raise SpecError(
            "the policy of this machine lists approvers, so --approve is not enough",
            "set PREFECT_API_URL, release without --approve, and let one of them answer with `understudy approve`",
        )
    if not at_a_terminal():
        raise SpecError(
            "--approve is a person's yes, and there is nobody at a terminal here",
            "run it from a terminal, or set PREFECT_API_URL and resume the run when it pauses; nothing was spent",
        )


def staged_in(workspace: Workspace, spec: ReleaseSpec, base: Path) -> tuple[Path, ...]:
    """Folders in which a release that is killed may leave something half written."""
    place = open_target(spec, base).staged_in(spec.name)
    return (workspace.measurements, *(() if place is None else (place,)))


def _release_flow() -> Any:
    from understudy.flows.release import release

    if not orchestrator.has_users_server():
        return release

    def remember(flow: Any, flow_run: Any, state: Any) -> None:
        before_stopping(lambda by: _tell_stopped(flow_run.id, by))

    return release.with_options(on_running=[remember])


def _tell_stopped(flow_run: Any, by: str) -> None:
    """The user's server would show a run for ever whose process is gone."""
    from prefect import get_client
    from prefect.states import Crashed

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run, Crashed(message=f"stopped by {by}"), force=True)


def _report(published: Published, books: Books, spec: ReleaseSpec, known: frozenset[str], seconds: float) -> None:
    ledger = books.ledger
    balance = ledger.balance(spec.privacy.account)
    payments = payments_since(ledger, spec, known)
    for payment in payments:
        click.echo(f"spent      {payment.sentence}")
    if not payments:
        paid = published.manifest.account.name
        click.echo(f"spent      nothing: this snapshot was measured and paid for before, by {paid}")
    domain = known_domain(spec, books)
    if domain is not None and domain.reused:
        click.echo(f"domain     what columns hold, as bought by {domain.reused}: nothing was spent on it")
    account, spent = balance.account, spent_text(balance.spent.epsilon)
    click.echo(
        f"account    {account.name}: {spent} of {account.cap.epsilon} spent, "
        f"{left_text(balance.left)} left (filter {account.filter.name})"
    )
    tell_published(published)
    tell_alarms(published)
    click.echo(f"where      {published.location}")
    click.echo(f"card       {published.card}")
    click.echo(f"took       {seconds:.0f} s")


def tell_published(published: Published) -> None:
    manifest = published.manifest
    told = ", ".join(f"{table.rows:,} {table.name}" for table in manifest.tables) or f"{manifest.rows:,} rows"
    click.echo(f"published  {told} x {len(manifest.columns)} columns")


def tell_alarms(published: Published) -> None:
    """In red: the columns of which much was not understood, by noisy numbers that were paid for."""
    for fact in published.manifest.quality:
        if fact.alarming:
            share = f"{min(fact.shares['unreadable'], 1):.0%}"
            click.secho(f"warning    about {share} of {fact.column} was not understood (docs/formats.md)", fg="red")
    if left_out := published.manifest.left_out:
        told = (
            f"{', '.join(left_out)} {'is' if len(left_out) == 1 else 'are'} not in the copy, nothing stood above noise"
        )
        click.secho(f"warning    {told}: declare what you know of it (docs/discovery.md, docs/formats.md)", fg="red")
    for unlisted in published.manifest.unlisted:
        told = (
            f"{unlisted.share:.0%} of {unlisted.column} is `other`, values that were not found when it was discovered"
        )
        click.secho(f"warning    about {told}; --rediscover buys it anew (docs/discovery.md)", fg="yellow")
