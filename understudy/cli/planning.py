"""`understudy plan`: what a release would do and cost. It reads the spec and the ledger, and not one row.

Where a `number` is declared it asks the source's catalogue for types; a source that is not there is no obstacle.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from understudy.cli.advising import print_advice, print_verdict, print_what_if
from understudy.cli.estimating import (
    TableSize,
    cost_lines,
    counting_estimate,
    release_cost,
    table_size,
    types_lost,
)
from understudy.cli.scheduling import check_schedule
from understudy.cli.tables import print_table
from understudy.cli.writing import write_page
from understudy.pipelines.discovery.asking import open_columns
from understudy.pipelines.errors import SourceError
from understudy.pipelines.inference.verdict import Grade, Verdict, rows_needed
from understudy.pipelines.methods.base import MethodPlan, NoiseLine
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import describe, to_json
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.stating import at_most, spent_text
from understudy.pipelines.publishing.manifest import verdict_fact
from understudy.pipelines.publishing.targets.base import check_target
from understudy.pipelines.releasing.advising import advise, plan_verdict
from understudy.pipelines.releasing.apart import require_apart
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.discovering import before_buying
from understudy.pipelines.releasing.domains import assumed_spec, known_domain, without_discovery
from understudy.pipelines.releasing.plan_page import PlanTold, every_fitness, plan_page
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.releasing.standing import standing
from understudy.pipelines.releasing.versions import at_version, means_the_table
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.sources.identity import data_identity
from understudy.pipelines.sources.opening import open_source, place_of
from understudy.pipelines.spec.advice import format_advice
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import load_spec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.fitness import Fitness, shape_advice

MOST_LINES = 12
MOST_CHARGES = 8
MOST_COLUMNS = 30


def print_plan(
    path: Path,
    assume_rows: int | None,
    as_json: bool,
    at: dt.datetime | None = None,
    what_if: Sequence[str] = (),
    html: Path | None = None,
) -> None:
    spec = load_spec(path, at, any_snapshot=not as_json)  # `show_plan` judges it, by the ledger
    if means_the_table(spec):
        spec = _at_version(spec, path.parent)
    if what_if:
        print_what_if(assumed_spec(spec), path.parent, what_if, assume_rows)
        return
    planned = _planned(spec)
    spec, plan = planned.spec, planned.plan
    check_schedule(spec)
    for alone in spec.alone.values():
        open_source(alone.source, path.parent, alone).close()  # refuses what is no source; opens nothing
    check_target(spec)
    rows = table_size(spec, path.parent, assume_rows)
    if as_json:
        lost = types_lost(spec, path.parent)
        click.echo(json.dumps(plan_json(spec, plan, rows, lost), indent=2))
        _write_plan(html, spec, plan, rows, data_identity(spec, path.parent), lost)
        return
    require_apart(spec, path.parent)
    places = [place_of(alone.source.address, path.parent) for alone in spec.alone.values()]
    absent, lost = [place for place in dict.fromkeys(places) if place is not None and not place.exists()], []
    for place in absent:
        click.echo(f"   ! there is no {place} here: a release would fail on this machine")
    if not absent:
        lost = types_lost(spec, path.parent)
    source = data_identity(spec, path.parent)
    show_plan(spec, plan, rows, source, lost)
    _write_plan(html, spec, plan, rows, source, lost)


def page_of(path: Path) -> str:
    """The plan's page, made now."""
    spec = load_spec(path, any_snapshot=True)
    planned = _planned(_at_version(spec, path.parent) if means_the_table(spec) else spec)
    spec, rows = planned.spec, table_size(planned.spec, path.parent, None)
    return plan_page(plan_told(spec, planned.plan, rows, data_identity(spec, path.parent)))


def _write_plan(
    html: Path | None, spec: ReleaseSpec, plan: MethodPlan[Any], rows: TableSize, source: str, lost: Sequence[str]
) -> None:
    if html is not None:
        write_page(html, plan_page(plan_told(spec, plan, rows, source, lost)), "--html", quiet=True)


def plan_told(
    spec: ReleaseSpec, plan: MethodPlan[Any], rows: TableSize, source: str = "", lost: Sequence[str] = ()
) -> PlanTold:
    """What the plan's page is made of."""
    ledger = Ledger(Workspace.from_environment().ledger_url)
    lines = tuple(standing(ledger, spec, plan, source))
    return PlanTold(
        spec, plan, rows.rows, rows.origin, lines, (*all_cautions(spec), *lost), tuple(cost_lines(spec, plan, rows))
    )


def _at_version(spec: ReleaseSpec, base: Path) -> ReleaseSpec:
    """With the version that a release would be of now; a table that is not there is no obstacle to a plan."""
    try:
        return at_version(spec, base, Ledger(Workspace.from_environment().ledger_url))
    except SourceError as problem:
        told = problem.problem
    click.echo(f"   ! the table's version is not known here, so this is planned as if it were new: {told}", err=True)
    return spec


def _planned(spec: ReleaseSpec) -> Planned:
    """With what the ledger remembers of open columns or, if that is to be bought first, as it might turn out."""
    if not open_columns(spec):
        return plan_release(without_discovery(spec))
    books = Books.open(Workspace.from_environment())
    known = known_domain(spec, books)
    return known.planned() if known is not None else before_buying(spec, books)


def show_plan(
    spec: ReleaseSpec, plan: MethodPlan[Any], rows: TableSize, source: str = "", lost: Sequence[str] = ()
) -> None:
    privacy, ledger = spec.privacy, Ledger(Workspace.from_environment().ledger_url)
    loss = composed_loss([charge.event for charge in plan.charges], float(privacy.delta), privacy.relation)
    click.echo(f"{spec.name}, snapshot {spec.source.snapshot}, method {plan.method}")
    click.echo(f"protects    {spec.protects} ({privacy.relation.value})")
    click.echo(
        f"would spend epsilon {spent_text(loss.epsilon)} at delta {privacy.delta} ({loss.accountant} accountant)"
    )
    for charge in plan.charges[:MOST_CHARGES]:
        click.echo(f"            {charge.stage}: {describe(charge.event)}")
    if len(plan.charges) > MOST_CHARGES:
        more = len(plan.charges) - MOST_CHARGES
        click.echo(f"            ... and {more} more charges, up to {plan.charges[-1].stage}")
    for step in plan.steps:
        click.echo(f"   - {step}")
    for caution in [*all_cautions(spec), *lost]:
        click.echo(f"   ! {caution}")
    click.echo()
    print_noise(plan.noise, rows.rows, plan.rows_a_count, "rows" if spec.tree is None else spec.tree.root.name)
    _print_details(plan)
    for line in cost_lines(spec, plan, rows):
        click.echo(line)
    print_verdict(plan_verdict(spec, plan, rows.rows), rows, _refused(spec))
    print_advice(advise(spec, plan, rows.rows), rows)
    click.echo()
    _print_fitness(every_fitness(spec))
    click.echo()
    for line in standing(ledger, spec, plan, source):
        click.echo(line)


def print_noise(
    lines: tuple[NoiseLine, ...], assume_rows: int, rows_a_count: float = 1.0, counted: str = "rows"
) -> None:
    share = f"share of {assume_rows:,} {counted}"
    rows = [
        (line.query, f"{line.numbers:,}", f"{line.std:.3f}", f"{line.std * rows_a_count / assume_rows:.4%}")
        for line in lines[:MOST_LINES]
    ]
    if len(lines) > MOST_LINES:
        rest = lines[MOST_LINES:]
        low, high = min(line.std for line in rest), max(line.std for line in rest)
        spread = f"{low:.3f}" if high - low < 1e-9 else f"{low:.3f} to {high:.3f}"
        rows.append((f"... and {len(rest)} more", f"{sum(line.numbers for line in rest):,}", spread, ""))
    print_table(("query", "numbers", "noise std", share), rows, right=("numbers", "noise std", share))
    if rows_a_count != 1.0:
        click.echo(
            f"noise is in entities; shares take {rows_a_count:.1f} rows an entity, which nobody knows beforehand"
        )


def _print_details(plan: MethodPlan[Any]) -> None:
    """Numbers and tables that the method adds, such as the mixture sizes it compared."""
    for name, value in plan.details.items():
        if isinstance(value, int | float | str):
            told = at_most(value) if name.startswith("epsilon") and isinstance(value, float) else _short(value)
            click.echo(f"{name.replace('_', ' ')}: {told}")
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            headings = tuple(value[0])
            click.echo(f"\n{name.replace('_', ' ')}:")
            print_table(headings, [tuple(_short(row[key]) for key in headings) for row in value], right=headings)


def _print_fitness(columns: Sequence[Fitness]) -> None:
    """What the copy will be good for: what each column tells apart, and what it does not."""
    rows = [(one.column, one.resolution, "; ".join([*one.exact[:4], one.caution]).strip("; ")) for one in columns]
    more = [(f"... and {len(rows) - MOST_COLUMNS} more", "", "")] if len(rows) > MOST_COLUMNS else []
    print_table(("column", "told apart", "exactly, and what to mind"), rows[:MOST_COLUMNS] + more)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def all_cautions(spec: ReleaseSpec) -> list[str]:
    """With what a careful person would declare otherwise."""
    shapes = [each for alone in spec.alone.values() for each in shape_advice(alone, TableDomain.of(alone))]
    return [*cautions(spec), *shapes]


def cautions(spec: ReleaseSpec) -> list[str]:
    """Choices in a spec that are allowed but that a careful person would look at twice."""
    found = []
    declared = {
        name if spec.tables is None else f"{table}.{name}": column
        for table, alone in spec.alone.items()
        for name, column in alone.columns.items()
    }
    strict = [
        name
        for name, column in declared.items()
        if column.type not in ("identifier", "text", "tensor") and not getattr(column, "nullable", False)
        and not getattr(column, "other", False)
    ]  # fmt: skip
    if strict:
        found.append(f"{', '.join(strict)}: neither nullable nor `other`; unreadable values count as the first value")
    found += [line for alone in spec.alone.values() for line in format_advice(alone)]
    if spec.tree is not None:
        found.append("how much of each column is understood is not measured where a release has entities or tables")
    elif spec.method.name != "privpgd":
        found.append(f"{spec.method.name} does not measure how much of each column is understood")
    elif spec.privacy.quality is None:
        found.append("how much of each column is understood is not measured; privacy.quality: 0.02 buys it")
    if float(spec.privacy.delta) > 1e-4:
        found.append(f"delta {spec.privacy.delta} is large; it should be far below one over the number of entities")
    return found


def plan_json(spec: ReleaseSpec, plan: MethodPlan[Any], rows: TableSize, lost: Sequence[str]) -> dict[str, Any]:
    counting, advice = counting_estimate(spec, plan, rows), advise(spec, plan, rows.rows)
    cost = release_cost(spec, plan, rows)
    return {
        "name": spec.name,
        "snapshot": spec.source.snapshot,
        "spec_hash": spec.hash,
        "method": plan.method,
        "charges": [{"stage": charge.stage, "event": to_json(charge.event)} for charge in plan.charges],
        "noise": [asdict(line) for line in plan.noise],
        "steps": list(plan.steps),
        "details": plan.details,
        "advice": None if advice is None else {**asdict(advice), "rows_from": rows.origin},
        "verdict": _verdict_json(plan_verdict(spec, plan, rows.rows), rows, _refused(spec)),
        "fitness": [asdict(one) for one in every_fitness(spec)],
        "types_lost": list(lost),
        "counting": None if counting is None else {**asdict(counting), "rows_from": rows.origin},
        "cost": None if cost is None else {**asdict(cost), "rows_from": rows.origin},
    }


def _refused(spec: ReleaseSpec) -> Grade | None:
    return None if spec.publish.refuse_if is None else spec.publish.refuse_if.verdict


def _verdict_json(verdict: Verdict | None, rows: TableSize, refused: Grade | None) -> dict[str, Any] | None:
    fact = verdict_fact(verdict)
    if fact is None or verdict is None:
        return None
    told = {**fact.model_dump(mode="json"), "rows_needed": rows_needed(verdict), "rows_from": rows.origin}
    return {**told, "refused": refused is not None and verdict.is_refused(refused)}
