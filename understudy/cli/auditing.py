"""`understudy audit`: attack the program's promises on made tables, and write what came of it on one page."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from understudy.pipelines.auditing.cases import CASES, PRINCIPAL, planned_case
from understudy.pipelines.auditing.report import audit, page
from understudy.pipelines.errors import SpecError, ValidationFailed
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.spec.reading import load_spec

BUILT_IN = "every method, on made tables"
EPSILON = "10"
"""Of the built-in releases: what an attack can show is sharpest where two tables can be told apart now and then."""


def run_audit(spec: Path | None, pairs: int, releases: int, seed: int, out: Path, at: datetime | None) -> None:
    principal: tuple[str, ...]
    if spec is None:
        subject, planned, principal = BUILT_IN, {name: planned_case(name, EPSILON) for name in CASES}, PRINCIPAL
    else:
        read = load_spec(spec, at)
        subject, planned, principal = f"{read.name}, as its spec declares it", {read.name: plan_release(read)}, ()
    report = audit(subject, planned, pairs, releases, seed, click.echo, principal)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(report), encoding="utf-8")
    except OSError as error:
        reason = error.strerror
    else:
        click.echo(f"wrote {out}; no row of any source was read and nothing was charged")
        if report.holds:
            return
        raise ValidationFailed("the audit found a broken promise", f"do not release with it; report {out}")
    raise SpecError(f"cannot write {out}: {reason}", "name another file as --out")
