"""`understudy evidence`: what a release can show to an auditor, from its manifest alone."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.pipelines.publishing.evidence.subject import Subject
from understudy.pipelines.publishing.evidence.writing import write_evidence
from understudy.pipelines.publishing.verifying import stored_release, verify_release
from understudy.pipelines.releasing.keys import read_public, vouched
from understudy.pipelines.releasing.workspace import Workspace


def run_evidence(release: str, to: Path, curator: str, terms: str, keys: tuple[Path, ...]) -> None:
    trusted = [read_public(path) for path in keys] or vouched(Workspace.from_environment())
    found, certificate = stored_release(release), verify_release(release, trusted)
    subject = Subject(certificate, found.envelope, curator, terms)
    place = Path(release)
    if place.is_dir() and found.directory is not None and place.resolve().name != found.directory:
        place = place / found.directory  # the folder of all releases of a name was meant
    written = write_evidence(subject, to, place if place.is_dir() else None)
    for path in written:
        click.echo(str(path))
    if not subject.is_signed:
        click.echo("not signed by a key that is believed here: pass --key, or say so to whoever reads it", err=True)
    click.echo(f"open {written[0]} in a browser, or print it", err=True)
