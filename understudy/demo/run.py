"""`understudy demo`: a made-up clinic in DuckDB, an account, a plan, a release, and the same release again for free."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import click

from understudy.cli.environment import choose_workspace
from understudy.pipelines.errors import SpecError

SPEC = """\
# Everything in this file is public: it is what you are willing to say about the table without looking at it.
name: clinic-visits
source:
  uri: "duckdb:///clinic.duckdb"
  table: visits
  snapshot: "2026-10"                 # a new snapshot is a new release, charged to the account
privacy:
  account: clinic
  relation: add_remove
  unit: {entity: patient_id, max_rows: 4}   # hides a whole patient; at most 4 of their visits are used
  epsilon: 1.0
  delta: 1e-6
  quality: 0.02                       # of the budget, to learn how much of each column was understood
columns:
  visit_id:    {type: identifier, action: surrogate}
  patient_id:  {type: identifier, action: drop}
  visited_on:  {type: date, min: 2026-01-01, max: 2026-10-31, bins: month}
  age:         {type: integer, min: 0, max: 104, bins: 21}
  sex:         {type: category, values: [F, M, X]}
  region:      {type: category, values: [north, east, south, west, centre], other: true}
  insurance:   {type: category, values: [public, private, none], nullable: true}
  ward:        {type: category, values: [emergency, general, surgery, cardiology, maternity, paediatrics, oncology]}
  severity:    {type: category, values: [minor, moderate, serious, critical], ordered: true}
  smoker:      {type: boolean, nullable: true}
  bmi:         {type: number, min: 12, max: 52, bins: 20, decimals: 1, nullable: true}
  stay_days:   {type: integer, min: 0, max: 60, bins: 14, scale: log}
  charge:      {type: number, min: 0, max: 40000, bins: 24, scale: log, decimals: 2, nullable: true}
  readmitted:  {type: boolean}
method:
  name: privpgd
  marginals: all-2way
publish:
  to: releases/
"""


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

    spec = directory / "clinic-visits.yaml"
    _say(1, "a warehouse with a sensitive table")
    warehouse = directory / "clinic.duckdb"
    if not warehouse.exists():
        build_warehouse(warehouse, visits)
    spec.write_text(SPEC, encoding="utf-8")
    click.echo(f"{warehouse}: table visits, one row a visit, several visits a patient")
    _say(2, "an account with a budget, and the spec")
    open_account("clinic", "3", "1e-6", "add_remove", "patient_id", 4)
    click.echo(f"{spec}: what is public about the table and what to do with it")
    _say(3, "the plan, which reads no row")
    print_plan(spec, assume_rows=visits, as_json=False)
    _say(4, "the release")
    published = run_release(spec)
    _say(5, "the same release again: nothing is spent, drawn or published twice")
    run_release(spec)
    click.echo()
    click.echo(f"Open the card in a browser: {published.card}")
    click.echo(f"Then edit {spec}: a new `snapshot` is a new charge, and past the cap it is refused.")


def _say(step: int, title: str) -> None:
    click.secho(f"\n[{step}/5] {title}", bold=True)
