"""`understudy approve`: a token that says yes to one release, by a key that the operator's policy lists."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.cli.environment import prepare
from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.releasing.tokens import sign_approval
from understudy.pipelines.releasing.workspace import Workspace


def say_yes(release_id: str, spec_hash: str, key: Path, run: str | None) -> None:
    token = sign_approval(key, release_id, spec_hash)
    if run is None:
        click.echo(token)
        return
    prepare(Workspace.from_environment())
    if not resumed(run, token):
        raise UnderstudyError(f"the run {run} does not wait for approval", "look at it in Prefect; nothing was said")
    click.echo(f"approved   {release_id}; the run goes on and publishes it")


def resumed(run: str, token: str) -> bool:
    """Give a paused run the token; False if no such run waits."""
    from prefect import get_client
    from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

    with get_client(sync_client=True) as client:
        try:
            answer = client.resume_flow_run(run, run_input={"token": token})  # type: ignore[arg-type]
        except (ObjectNotFound, PrefectHTTPStatusError):
            return False
        return str(answer.status.value) == "ACCEPT"
