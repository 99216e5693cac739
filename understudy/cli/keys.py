"""`understudy keys`: the key that signs releases, and its public half to hand out."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.signing import SigningKey
from understudy.pipelines.releasing.keys import current_key, release_key, use_key
from understudy.pipelines.releasing.workspace import SIGNING_KEY, Workspace


def new_key(file: Path | None) -> None:
    workspace = Workspace.from_environment()
    if file is not None:
        key = SigningKey.create(file.absolute())
        click.echo(f"key {key.public.id} in {file}; `understudy keys use {file}` makes it the one that signs")
        return
    if current_key(workspace) is not None:
        raise SpecError(
            "there is a key that signs here, and it is never overwritten",
            "make another with --file and change to it with `understudy keys use FILE`",
        )
    made = release_key(workspace)
    click.echo(f"key {made.secret.public.id} in {made.path}; hand out what `understudy keys show` prints")


def show_key() -> None:
    """The PEM alone on stdout, so that it can be sent into a file."""
    found = current_key(Workspace.from_environment())
    if found is None:
        raise SpecError(
            "no key signs here yet", "make one with `understudy keys new`; the first release does so itself"
        )
    click.echo(f"key {found.secret.public.id}, of {found.path}", err=True)
    click.echo(found.secret.public.pem, nl=False)


def change_key(file: Path) -> None:
    workspace = Workspace.from_environment()
    key, aside = use_key(workspace, file.absolute())
    click.echo(f"key {key.secret.public.id} signs here from now on")
    if aside is not None:
        click.echo(f"the one before it is in {aside}: keep it safe or delete it; its releases stay believed here")
    if workspace.brought_key is not None:
        click.echo(f"{SIGNING_KEY} is set and wins: that key signs until it is unset", err=True)


def tell_if_made(workspace: Workspace) -> None:
    """Before a release: a key is made if there is none, and that is said once."""
    key = release_key(workspace)
    if key.new:
        click.echo(f"made a signing key: {key.path}; hand out what `understudy keys show` prints", err=True)
