"""`understudy demo`: a made-up clinic in DuckDB, an account, a plan, a release of its tables, and it again for free."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import click

from understudy.cli.environment import choose_workspace
from understudy.demo.specs import FLAT, TABLES
from understudy.pipelines.errors import SpecError


def run_demo(directory: Path, visits: int) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)  # until this process ends
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SpecError(f"another demo is running in {directory}", "wait for it, or name another --directory") from None
    except OSError as error:
        raise SpecError(f"no demo can be made in {directory}: {error.strerror}", "name another --directory") from None
    choose_workspace(
        str(directory / ".understudy"), f"sqlite:///{(directory / '.understudy' / 'ledger.db').absolute()}"
    )
    from understudy.cli.ledger import open_account
    from understudy.cli.planning import print_plan
    from understudy.cli.releasing import run_release
    from understudy.demo.clinic import build_warehouse

    spec = directory / "clinic.yaml"
    _say(1, "a warehouse with sensitive tables")
    warehouse = directory / "clinic.duckdb"
    if not warehouse.exists():
        build_warehouse(warehouse, visits)
    spec.write_text(TABLES, encoding="utf-8")
    (directory / "clinic-visits.yaml").write_text(FLAT, encoding="utf-8")
    click.echo(f"{warehouse}: tables patients, visits and prescriptions, which belong together by their keys")
    _say(2, "an account with a budget, and the spec")
    open_account("clinic", "3", "1e-6", "add_remove", "patients", 1)
    click.echo(f"{spec}: what is public about the tables and what to do with them")
    _say(3, "the plan, which reads no row")
    print_plan(spec, assume_rows=visits * 2 // 5, as_json=False)
    _say(4, "the release of all three tables, or of none")
    published = run_release(spec)
    _say(5, "the same release again: nothing is spent, drawn or published twice")
    run_release(spec)
    click.echo()
    click.echo(f"Open the card in a browser: {published.card}")
    click.echo(f"Then edit {spec}: a new `snapshot` is a new charge, and past the cap it is refused.")


def _say(step: int, title: str) -> None:
    click.secho(f"\n[{step}/5] {title}", bold=True)
