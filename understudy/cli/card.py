"""`understudy card`: the card of a release, from wherever the release lies, as a file to open."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.pipelines.errors import PublishError
from understudy.pipelines.publishing.verifying import stored_release


def run_card(release: str, to: Path | None) -> None:
    found = stored_release(release)
    manifest = found.manifest
    path = to or Path(f"{manifest.name}-card.html")
    try:
        path.write_text(found.card(), encoding="utf-8")
    except OSError as error:
        raise PublishError(f"cannot write {path}: {error.strerror}", "name another file with --to") from None
    click.echo(f"release    {manifest.name} {manifest.release_id}, snapshot {manifest.snapshot}")
    if manifest.verdict is not None:
        click.echo(f"verdict    {manifest.verdict.grade}: {manifest.verdict.sentence}")
    click.echo(f"card       {path}")
    click.echo("open it in a browser; whether the release was changed, `understudy verify` says", err=True)
