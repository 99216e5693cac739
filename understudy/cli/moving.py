"""`understudy ledger moved`: a person's word that the data that was measured lies elsewhere now."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.releasing.rolling import entry_of
from understudy.pipelines.releasing.versions import at_version
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.sources.identity import data_identity
from understudy.pipelines.spec.reading import load_spec


def move(path: Path, reason: str, at: dt.datetime | None) -> None:
    spec = load_spec(path, at, any_snapshot=True)
    ledger = Ledger(Workspace.from_environment().ledger_url)
    spec = at_version(spec, path.parent, ledger, resume=True)
    source = data_identity(spec, path.parent)
    if not source:
        raise SpecError("this process cannot tell which data source.uri names", "set the variable that it names")
    plan = plan_release(spec).plan
    own = entry_of(ledger, spec, plan).spec
    made = ledger.charges_of(own.privacy.account, own.name, own.source.snapshot)
    mids = [charge.mid for charge in made if charge.spec_hash == own.hash]
    if not mids:
        raise SpecError(
            f"snapshot {spec.source.snapshot!r} of {spec.name!r} was never measured under this spec",
            "release it: it is measured where it lies now",
        )
    for known in dict.fromkeys(ledger.move_source(mids, source, reason)):
        click.echo(f"was        {known or 'not recorded'}")
    click.echo(f"is         {source}")
    click.echo(f"recorded   for {len(mids)} charge(s) of {own.privacy.account}; releasing snapshot "
               f"{spec.source.snapshot} spends nothing")  # fmt: skip
