"""`understudy serve`: the pages of releases, ledger and plans for a team; `site` says what can be reached."""

from __future__ import annotations

import datetime as dt
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from understudy.cli.site import LEAST_TOKEN, LOOPBACK, TOKEN, Approvals, Site, run_site, site_app
from understudy.pipelines.errors import SpecError, UnderstudyError
from understudy.pipelines.publishing.shelves import shelf_at


def serve(releases: Sequence[str], plans: Sequence[Path], host: str, port: int, with_ledger: bool) -> None:
    inside = host in (*LOOPBACK, "::1")
    site = Site(
        tuple(shelf_at(place) for place in releases),
        _ledger if with_ledger else None,
        {_name_of(path): _plan(path) for path in plans},
        _approvals(),
        LOOPBACK if inside else ("*",),
    )
    if not inside:
        click.echo(f"   ! whoever reaches {host} sees these pages: put a server with logins before it", err=True)
    listening = _listening(host, port)
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"serving http://{shown}:{listening.getsockname()[1]}/ (Ctrl-C ends it)")
    run_site(site_app(site), listening)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        problem = error.strerror
    else:
        return listening
    raise UnderstudyError(f"cannot listen on {host}:{port}: {problem}", "name another --port or --host")


def _ledger() -> str:
    from understudy.cli.ledger_copy import ledger_to_read
    from understudy.pipelines.releasing.ledger_report import ledger_page

    with ledger_to_read() as ledger:
        return ledger_page(ledger, dt.datetime.now(dt.UTC), where=False)


def _name_of(path: Path) -> str:
    from understudy.pipelines.spec.reading import load_spec

    return load_spec(path, any_snapshot=True).name


def _plan(path: Path) -> Callable[[], str]:
    from understudy.cli.planning import page_of

    return lambda: page_of(path)


def _approvals() -> Approvals | None:
    """None without a token: then nothing here can be changed by anybody."""
    token = os.environ.get(TOKEN)
    if not token:
        return None
    if len(token) < LEAST_TOKEN:
        raise SpecError(f"{TOKEN} is too short to keep anybody out", f"use at least {LEAST_TOKEN} random characters")
    from understudy.cli.approving import resumed
    from understudy.pipelines.releasing.policy import POLICY, Policy

    approvers = Policy.from_environment().approvers
    if not approvers:
        raise SpecError(f"{TOKEN} is set and nobody may approve", f"list `approvers` in the file that {POLICY} names")
    return Approvals(token, approvers, resumed)
