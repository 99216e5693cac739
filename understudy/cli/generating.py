"""`understudy generate`: further synthetic tables from a measurement that is paid for. Spends nothing, reads no row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from understudy.cli.releasing import tell_alarms, tell_published
from understudy.pipelines.publishing.targets.base import Published, open_target
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.checking import require_sound
from understudy.pipelines.releasing.generating import generate_rows, parts_beside
from understudy.pipelines.releasing.keys import signed
from understudy.pipelines.releasing.preparing import prepare_release
from understudy.pipelines.releasing.recording import publish_recorded
from understudy.pipelines.releasing.remembering import remember
from understudy.pipelines.releasing.workspace import Workspace


def generate_from(
    measurement: str, method: str | None, rows: int | None, to: Path, options: dict[str, Any]
) -> Published:
    """Generate, check and publish as a release would, from the stored measurement alone."""
    books = Books.open(Workspace.from_environment())
    found = remember(measurement, method, rows, to, options, books)
    place_of = parts_beside(found.planned.spec, found.approval.mids, books, Path())
    synthetic = generate_rows(found.measured, found.planned, books.generators, place_of=place_of)
    agreements = require_sound(synthetic, found.measured, found.planned)
    release = prepare_release(synthetic, found.measured, agreements, found.planned, found.approval, books.ledger)
    target, account = open_target(found.planned.spec, Path()), found.planned.spec.privacy.account
    published = publish_recorded(target, signed(release, books), books.ledger, account, found.approval.mids)
    charge = found.charge
    click.echo(
        f"spent      nothing: {charge.stage} of {charge.release}, snapshot {charge.snapshot}, was paid for before"
    )
    tell_published(published)
    tell_alarms(published)
    click.echo(f"where      {published.location}")
    return published
