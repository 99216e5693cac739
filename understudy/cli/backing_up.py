"""`understudy ledger backup` and `restore`."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.pipelines.errors import SpecError
from understudy.pipelines.releasing.backing_up import back_up, restore
from understudy.pipelines.releasing.stores import store_of
from understudy.pipelines.releasing.workspace import SIGNING_KEY, Workspace


def run_backup(place: Path, incomplete: bool) -> None:
    workspace = Workspace.from_environment()
    made = back_up(workspace, store_of(workspace), place.absolute(), incomplete)
    click.echo(
        f"{place}: {len(made.heads)} accounts, {made.measurements} measurements, {len(made.keys)} key files; verified."
    )
    if workspace.brought_key is not None:
        click.echo(f"Not in it: the key that {SIGNING_KEY} names.")
    if made.missing:
        click.echo(f"Not in it: {len(made.missing)} measurements that could not be read; backup.json names them.")


def run_restore(place: Path, releases: tuple[str, ...], older_is_fine: bool, reason: str) -> None:
    if older_is_fine != bool(reason.strip()):
        raise SpecError("--older-is-fine and --reason go together", "give both, or neither")
    missing = [where for where in releases if "://" not in where and not Path(where).is_dir()]
    if missing:
        raise SpecError(f"--releases {missing[0]} is not there", "name a directory, or a release as `verify` takes it")
    workspace = Workspace.from_environment()
    done = restore(workspace, store_of(workspace), place.absolute(), releases, reason)
    if done.ledger:
        click.echo(f"Restored the ledger as of {done.backup.at}: {len(done.backup.heads)} accounts; verified.")
    else:
        click.echo(f"The ledger that is there knows all that the backup of {done.backup.at} does; it stays as it is.")
    click.echo(f"Put back {done.measurements} measurements and {done.keys} key files.")
    if done.newer:
        click.echo("Older than what is known elsewhere; the reason is in the history of every account:")
        for line in done.newer:
            click.echo(f"  {line}")
