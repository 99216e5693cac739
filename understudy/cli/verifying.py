"""`understudy verify`: whoever holds a release and a public key can check it, without a ledger and without Prefect."""

from __future__ import annotations

import time
from pathlib import Path

import click

from understudy.pipelines.errors import ValidationFailed
from understudy.pipelines.publishing.verifying import verify_release
from understudy.pipelines.releasing.keys import read_public, vouched
from understudy.pipelines.releasing.workspace import Workspace


def run_verify(release: str, keys: tuple[Path, ...]) -> None:
    started = time.perf_counter()
    trusted = [read_public(path) for path in keys] or vouched(Workspace.from_environment())
    certificate = verify_release(release, trusted)
    manifest, guarantee = certificate.manifest, certificate.manifest.guarantee
    click.echo(_plain(f"{manifest.name} {manifest.release_id}, snapshot {manifest.snapshot}, {manifest.created_at}"))
    for finding in certificate.findings:
        click.echo(_plain(f"{'yes' if finding.holds else 'NO '}  {finding.what}: {finding.detail}"))
    broken = [finding.what for finding in certificate.findings if not finding.holds]
    milliseconds = 1000 * (time.perf_counter() - started)
    if broken:
        raise ValidationFailed(
            _plain(f"does not hold: {', '.join(broken)}"), "do not use the release; ask its publisher for another copy"
        )
    # What was signed, digit for digit: a rounded epsilon would be another claim.
    claim = f"epsilon {guarantee.epsilon!r} at delta {guarantee.delta!r} for {guarantee.unit}"
    click.echo(_plain(f"holds: {claim}; checked in {milliseconds:.0f} ms"))


def _plain(text: str) -> str:
    """What a forger wrote must not move the cursor of whoever reads it."""
    return "".join(char if char.isprintable() else "?" for char in text)
