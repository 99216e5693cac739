"""`understudy recertify`: the same checks from a terminal, without an orchestrator."""

from __future__ import annotations

import click

from understudy.cli.tables import print_table
from understudy.pipelines.errors import ValidationFailed
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.releasing.keys import vouched
from understudy.pipelines.releasing.recertifying import recertify_release
from understudy.pipelines.releasing.stores import store_of
from understudy.pipelines.releasing.workspace import Workspace


def run_recertify(places: tuple[str, ...], without_ledger: bool) -> None:
    workspace = Workspace.from_environment()
    ledger = None if without_ledger else Ledger(workspace.ledger_url)
    store = None if without_ledger else store_of(workspace)
    broken = []
    for place in places:
        certificate = recertify_release(place, ledger, store, vouched(workspace))
        manifest = certificate.manifest
        click.echo(f"{manifest.name} {manifest.release_id}: epsilon {at_most(certificate.epsilon, 6)} at "
                   f"delta {at_most(manifest.guarantee.delta, 6)}")  # fmt: skip
        print_table(
            ("check", "holds", "detail"),
            [(f.what, "yes" if f.holds else "NO", f.detail) for f in certificate.findings],
        )
        broken += [f.what for f in certificate.findings if not f.holds]
    if broken:
        raise ValidationFailed(
            f"does not hold: {', '.join(broken)}", "stop using the release and find out who changed it"
        )
