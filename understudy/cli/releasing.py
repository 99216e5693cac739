"""`understudy release`: the release flow, run from a terminal."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path

import click

from understudy.cli.environment import prepare
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.publishing.targets.base import Published
from understudy.pipelines.releasing.payments import charges_known, payments_since
from understudy.pipelines.releasing.rolling import require_period
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import load_spec


def run_release(
    path: Path,
    *,
    resume: bool = False,
    pay_again: bool = False,
    approved: bool = False,
    at: dt.datetime | None = None,
) -> Published:
    spec = load_spec(path, at, any_snapshot=True)  # the flow judges it, by the ledger
    return release_and_report(spec, path.parent, resume=resume, pay_again=pay_again, approved=approved)


def release_and_report(
    spec: ReleaseSpec, base: Path, *, resume: bool = False, pay_again: bool = False, approved: bool = False
) -> Published:
    if spec.publish.approval == "required" and not approved and "PREFECT_API_URL" not in os.environ:
        raise SpecError(
            f"{spec.name!r} wants a person's approval before it is published, and no server is there to ask one",
            "release with --approve to say yes yourself, or set PREFECT_API_URL and resume the run when it pauses",
        )
    workspace = Workspace.from_environment()
    ledger = Ledger(workspace.ledger_url)
    ledger.account(spec.privacy.account)  # or refuse before anything starts
    require_period(ledger, spec)
    known = charges_known(ledger, spec)
    click.echo(f"releasing {spec.name}, snapshot {spec.source.snapshot} ...", err=True)
    started = time.monotonic()
    prepare(workspace)
    from understudy.flows.release import release  # after `prepare`: importing it imports prefect

    published = release(spec, base.absolute(), resume=resume, pay_again=pay_again, approved=approved)
    _report(published, ledger, spec, known, time.monotonic() - started)
    return published


def _report(published: Published, ledger: Ledger, spec: ReleaseSpec, known: frozenset[str], seconds: float) -> None:
    balance = ledger.balance(spec.privacy.account)
    payments = payments_since(ledger, spec, known)
    for payment in payments:
        click.echo(f"spent      {payment.sentence}")
    if not payments:
        paid = published.manifest.account.name
        click.echo(f"spent      nothing: this snapshot was measured and paid for before, by {paid}")
    click.echo(
        f"account    {balance.account.name}: {balance.spent.epsilon:.4f} of {balance.account.cap.epsilon} spent, "
        f"{float(balance.left):.4f} left"
    )
    click.echo(f"published  {published.manifest.rows:,} rows x {len(published.manifest.columns)} columns")
    click.echo(f"where      {published.location}")
    click.echo(f"card       {published.card}")
    click.echo(f"took       {seconds:.0f} s")
