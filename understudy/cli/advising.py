"""What `plan` says about columns that drown, and its `--what-if` tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from understudy.cli.estimating import TableSize, table_size
from understudy.cli.tables import print_table
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.verdict import Grade, Verdict, rows_needed
from understudy.pipelines.releasing.advising import GROUP, Advice, ColumnAdvice, what_if
from understudy.pipelines.spec.model import ReleaseSpec

LARGE_GROUP = 10 * GROUP
MOST_JUDGED = 8
_MARKS = {"noise": "!", "usable with care": "~"}
_STATES = {"drowns": "! {} drowns", "blurs": "~ {} is blurred"}


def print_advice(advice: Advice | None, size: TableSize) -> None:
    """In words, the worst first."""
    if advice is None:
        return
    click.echo(f"\nadvice for {size.rows:,} rows ({size.origin}):")
    click.echo(
        f"   a group of {GROUP} rows (of one combination of two columns) will be off by about "
        f"{_percent(advice.off_by())}, one of {LARGE_GROUP:,} rows by {_percent(advice.off_by(LARGE_GROUP))}"
    )
    troubled = [column for column in advice.columns if column.state != "holds"]
    for column in troubled:
        for line in told(column):
            click.echo(f"   {line}")
    fine = [column.column for column in advice.columns if column.state == "holds"]
    if fine:
        click.echo(f"   {len(fine)} columns hold: {', '.join(fine)}")
    if troubled:
        click.echo("   see what a larger epsilon does: --what-if epsilon=0.5,1,2 (docs/choosing.md)")


def print_verdict(verdict: Verdict | None, size: TableSize, refused: Grade | None = None) -> None:
    """What the copy would be good for, the worst first, how many rows it takes not to be noise, and whether that is a
    verdict at which the spec publishes nothing."""
    if verdict is None:
        return
    click.echo(f"\nverdict for {size.rows:,} {verdict.of} ({size.origin}), all values alike: {verdict.sentence}")
    for table in [table for table in verdict.tables if table.grade != "good"][:MOST_JUDGED]:
        off = f"a typical cell is off by {_percent(table.off)}"
        click.echo(f"   {_MARKS[table.grade]} {table.name}: {table.grade}, {off}")
    needed = rows_needed(verdict)
    if needed > 1:
        click.echo(f"   below {needed:,} {verdict.of} it would be noise")
    if refused is not None and verdict.is_refused(refused):
        click.echo(
            "   ! publish.refuse_if: of so many rows nothing would be published, and what is measured is charged "
            "all the same"
        )


def told(column: ColumnAdvice) -> list[str]:
    head = _STATES[column.state].format(f"{column.column} ({column.codes:,} codes)")
    lines = [f"{head}: noise alone moves {_percent(column.moved)} of the rows in its tables"]
    for suggestion in column.suggestions:
        after = suggestion.gain if suggestion.moved is None else f"noise then moves {_percent(suggestion.moved)}"
        lines.append(f"    {suggestion.change}: {after}")
    return lines


def print_what_if(spec: ReleaseSpec, base: Path, asked: Sequence[str], assume_rows: int | None) -> None:
    """A table for each `key=a,b,c`. Needs no ledger."""
    size = table_size(spec, base, assume_rows)
    for question in asked:
        key, _, listed = question.partition("=")
        values = [value.strip() for value in listed.split(",") if value.strip()]
        if not values:
            raise SpecError(f"--what-if {question[:40]!r} asks nothing", "give values, as epsilon=0.5,1,2")
        headings = (key, "noise std", f"{GROUP} rows off by", f"{LARGE_GROUP:,} rows off by", "drowned", "blurred")
        lines = [
            _line(value, advice)
            for value, (_, advice) in zip(values, what_if(spec, key, values, size.rows), strict=True)
        ]
        click.echo(f"{spec.name} at {size.rows:,} rows ({size.origin}), if {key} were ...")
        print_table(headings, lines, right=headings[:4])


def _line(value: str, advice: Advice | None) -> tuple[str, ...]:
    if advice is None:
        raise SpecError("this method measures no tables of counts, so there is nothing to compare", "see its plan")
    states = {state: [c.column for c in advice.columns if c.state == state] for state in ("drowns", "blurs")}
    return (value, f"{advice.std:.1f}", _percent(advice.off_by()), _percent(advice.off_by(LARGE_GROUP)),
            _some(states["drowns"]), _some(states["blurs"]))  # fmt: skip


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") or "none"


def _percent(part: float) -> str:
    """Two digits at most: these are expectations, not measurements."""
    if part >= 1:
        return f"{part:.0%}" if part < 10 else f"{part:.0f} times"
    return f"{part:.0%}" if part >= 0.1 else f"{part:.1%}"
