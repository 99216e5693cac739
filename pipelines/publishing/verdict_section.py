"""The verdict on a card: what the copy is good for, in words and numbers, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from understudy.pipelines.publishing.manifest import Manifest, TableGrade

_COLOURS = {"good": "#1b7f4b", "usable with care": "#b26a00", "noise": "#b3261e"}
_MEANT = {
    "good": "Numbers of groups that are large enough may be quoted.",
    "usable with care": "Quote numbers with their intervals (understudy ask), and none of small groups.",
    "noise": "Do not use it for anything but trying out software: its numbers are mostly noise.",
}

_FITTED = (
    "Standard errors that a statistics package computes from the rows leave out the noise: ask the release for "
    "intervals (understudy ask, also for regressions)."
)


def verdict_section(manifest: Manifest) -> str:
    """Nothing where no verdict is given."""
    verdict = manifest.verdict
    if verdict is None:
        return ""
    return (
        f"<section><h2>Verdict: {_coloured(verdict.grade)}</h2>"
        f"<p>{escape(_MEANT.get(verdict.grade, ''))} {escape(verdict.sentence)} {escape(_FITTED)}</p>"
        f'<div class="two"><div>{_table("column", verdict.columns)}</div>'
        f"<div>{_table('pair', verdict.worst_pairs)}</div></div></section>"
    )


def _table(what: str, tables: Sequence[TableGrade]) -> str:
    if not tables:
        return ""
    shows = any(table.stands_out is not None for table in tables)
    head = f"<tr><th>{what}, the worst first</th><th>verdict</th><th>typical error</th>"
    head += "<th>dependence</th></tr>" if shows else "</tr>"
    rows = "".join(
        f"<tr><td>{escape(table.table)}</td><td>{_coloured(table.grade)}</td><td>{_percent(table.off)}</td>"
        + (f"<td>{'shows' if table.stands_out else 'within the noise'}</td></tr>" if shows else "</tr>")
        for table in tables
    )
    return f"<table>{head}{rows}</table>"


def _coloured(grade: str) -> str:
    return f'<b style="color: {_COLOURS.get(grade, "inherit")}">{escape(grade)}</b>'


def _percent(part: float) -> str:
    return f"{part:.1%}" if part < 1 else f"{part:.1f} times"
