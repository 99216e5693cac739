"""The one list of checks for a table in parts: each part by Arrow, and summaries and witnesses by whoever judges.

Of every part a `PartReport` stays: which checks fail in it, and as witnesses the rows that hold the least and the
greatest value of each bounded column and, for each check that fails, a row that breaks it. Those few rows fail a check
of values if and only if the part does, so that Great Expectations comes to the same verdict from them as from all rows
(a property test holds it to that). What no part can tell alone, how many rows there are and whether ids are given
twice, is told by summaries: the number of rows, and by how much the ids of each part lie above those of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.table.checks import (
    Check,
    Checks,
    HasRows,
    IsUnique,
    IsWithin,
    ValueCheck,
    Verdict,
    breaches,
    comparable,
)


@dataclass(frozen=True, eq=False)
class PartReport:
    """`failed` are the places of checks that this part fails, form first; `ids` the ends of each unique column."""

    rows: int
    failed: tuple[int, ...]
    ids: tuple[tuple[str, int, int], ...]
    witnesses: pa.Table


def report_of(part: pa.Table, checks: Checks) -> PartReport:
    listed = (*checks.form, *checks.values)
    failed = breaches(part, _of_a_part(checks))
    places = tuple(place for place, check in enumerate(listed) if any(check is one for one in failed))
    if any(place < len(checks.form) for place in places) or not part.num_rows:
        return PartReport(part.num_rows, places, (), part.slice(0, 0))
    rows = {row for check in checks.values if isinstance(check, IsWithin) for row in _extremes(part, check.column)}
    rows |= {row for check in failed for row in _breaking(part, check)}
    ids = [_span(part, check.column) for check in checks.values if isinstance(check, IsUnique)]
    return PartReport(part.num_rows, places, tuple(ids), part.take(pa.array(sorted(rows), pa.int64())))


def breaches_in_parts(reports: Sequence[PartReport], checks: Checks, verdict: Verdict = breaches) -> list[Check]:
    """The checks that fail, in the list's order: those that a part fails, and those that the verdict finds failing in
    what the parts tell together."""
    listed = (*checks.form, *checks.values)
    found = [listed[place] for report in reports for place in report.failed]
    if not any(check is one for check in checks.form for one in found):
        witnesses = pa.concat_tables([report.witnesses for report in reports])
        found += verdict(witnesses, _of_a_part(checks))
        found += [check for check, table, said in _summaries(reports, checks) if verdict(table, Checks((), (said,)))]
    return [check for check in listed if any(check is one for one in found)]


def _of_a_part(checks: Checks) -> Checks:
    """Without what only all parts together can tell."""
    return Checks(checks.form, tuple(check for check in checks.values if not isinstance(check, HasRows)))


def _summaries(reports: Sequence[PartReport], checks: Checks) -> list[tuple[Check, pa.Table, ValueCheck]]:
    """A check of the list, what the parts tell about it as a table, and what must hold in that."""
    found: list[tuple[Check, pa.Table, ValueCheck]] = []
    for check in checks.values:
        if isinstance(check, HasRows):
            rows = pa.table({"rows": [sum(report.rows for report in reports)]})
            found.append((check, rows, IsWithin("rows", check.exactly or 1, check.exactly)))
        if isinstance(check, IsUnique):
            spans = [(low, high) for report in reports for name, low, high in report.ids if name == check.column]
            above = [low - high for (_, high), (low, _) in pairwise(spans)]
            if above:
                found.append((check, pa.table({check.column: above}), IsWithin(check.column, 1, None)))
    return found


def _extremes(part: pa.Table, name: str) -> list[int]:
    """Rows with the least and the greatest value of a column, if it has any."""
    values = comparable(part.column(name))
    ends = pc.min_max(values)
    rows = [pc.index(values, ends[end]).as_py() for end in ("min", "max") if ends[end].is_valid]
    return [row for row in rows if row >= 0]


def _breaking(part: pa.Table, check: Check) -> list[int]:
    """Rows that break a check: one or, of values that stand twice, two."""
    if isinstance(check, IsUnique):
        values = part.column(check.column)
        counted = values.value_counts()
        twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))[0]
        return list(pc.indices_nonzero(pc.fill_null(pc.equal(values, twice), False)).to_pylist()[:2])
    start, length = 0, part.num_rows
    alone = Checks((), (check,))  # type: ignore[arg-type]  # a check of form is not looked for in rows
    while length > 1:
        half = length // 2
        if breaches(part.slice(start, half), alone):
            length = half
        else:
            start, length = start + half, length - half
    return [start]


def _span(part: pa.Table, name: str) -> tuple[str, int, int]:
    ends = pc.min_max(part.column(name))
    return name, ends["min"].as_py() or 0, ends["max"].as_py() or 0
