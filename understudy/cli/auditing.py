"""`understudy audit`: attack the program's promises on made tables, and write what came of it on one page."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from understudy.pipelines.auditing.cases import PRINCIPAL, subjects
from understudy.pipelines.auditing.page import page
from understudy.pipelines.auditing.replay import Subject
from understudy.pipelines.auditing.report import Plan, audit
from understudy.pipelines.discovery.asking import open_columns
from understudy.pipelines.errors import SpecError, ValidationFailed
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.spec.reading import load_spec

BUILT_IN = "every method, on made tables"
EPSILON = "10"
"""Of the built-in releases: what an attack can show is sharpest where two tables can be told apart now and then."""
A_TRY = 100
"""So many releases that are asked for make one try of each attack that people fear."""


def run_audit(
    spec: Path | None,
    pairs: int,
    releases: int,
    seed: int,
    out: Path,
    at: datetime | None,
    keep: Path | None = None,
    minutes: float | None = None,
) -> None:
    if spec is None:
        plan = Plan(BUILT_IN, subjects(EPSILON), pairs, releases, seed, PRINCIPAL, min(releases // A_TRY, 40))
    else:
        read = load_spec(spec, at)
        subject: Subject = read if open_columns(read) else plan_release(read)
        plan = Plan(f"{read.name}, as its spec declares it", {read.name: subject}, pairs, releases, seed)
    report = audit(plan, click.echo, keep, minutes)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(report), encoding="utf-8")
    except OSError as error:
        reason = error.strerror
    else:
        click.echo(f"wrote {out}; no row of any source was read and nothing was charged")
        if report.missing:
            click.echo(f"{report.missing:,} of {report.pieces:,} parts did not run; the page says which")
        if report.holds:
            return
        raise ValidationFailed("the audit found a broken promise", f"do not release with it; report {out}")
    raise SpecError(f"cannot write {out}: {reason}", "name another file as --out")
