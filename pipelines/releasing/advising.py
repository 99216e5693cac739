"""Advice before anything is spent: which columns drown in noise at this epsilon, and what would help.

From public quantities alone: the spec, the noise its plan will add, and a number of rows that is declared public or
assumed. What a measured table suffers is its noise: with standard deviation s in each of C cells, noise alone moves
about C s sqrt(2/pi) / 2 rows from cell to cell (half the expected L1 norm), and puts a group of g rows that is one cell
off by s sqrt(2/pi) / g. Fitting uses what the tables share and so does better than this; it cannot invent what noise
has covered. Every suggestion is planned again, and told with the number that comes of it. Where entities are counted,
how many rows each has is not known beforehand: the plan says how many are taken (`MethodPlan.rows_a_count`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from pydantic import ValidationError

from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.tree_verdict import planned_tree_verdict
from understudy.pipelines.inference.verdict import Verdict, expected_verdict
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.methods.tree.plan import TreeDesign, tree_domains
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.spec.columns import CategoryColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

DROWNS, BLURS = 0.5, 0.2
"""Parts of the rows that noise moves in a column's tables: from here on its details are gone, or coarse."""

GROUP = 500
MOST_ADVISED = 5
MOST_REPLANNED_CELLS = 3_000_000
"""Suggestions of plans larger than this are not planned again: each would take seconds."""

_COARSER = {"hour": "day", "day": "week", "week": "month", "month": "quarter", "quarter": "year"}
_MEAN = math.sqrt(2 / math.pi)
WHAT_IF = ("epsilon", "delta", "max_rows")


@dataclass(frozen=True)
class NoisyTable:
    """A table of counts that the plan measures: its columns and the noise of each cell, in rows."""

    columns: tuple[int, ...]
    cells: int
    std: float


@dataclass(frozen=True)
class Suggestion:
    """What to change, in words, and the part of the rows that noise then moves; None where that is not the point."""

    change: str
    moved: float | None
    gain: str = ""


@dataclass(frozen=True)
class ColumnAdvice:
    column: str
    codes: int
    moved: float
    suggestions: tuple[Suggestion, ...] = ()

    @property
    def state(self) -> Literal["drowns", "blurs", "holds"]:
        return "drowns" if self.moved >= DROWNS else "blurs" if self.moved >= BLURS else "holds"


@dataclass(frozen=True)
class Advice:
    """`columns` the worst first; `std` is the noise of a cell of the usual table, in rows."""

    rows: int
    std: float
    columns: tuple[ColumnAdvice, ...]

    def off_by(self, group: int = GROUP) -> float:
        """The expected error of a group of so many rows that one cell holds, as a part of it."""
        return group_error(self.std, group)


def group_error(std: float, group: int) -> float:
    return std * _MEAN / group


def advise(spec: ReleaseSpec, plan: MethodPlan[Any], rows: int, suggest: bool = True) -> Advice | None:
    """None for methods that measure no tables of counts."""
    domain = TableDomain.of(spec)
    tables = noisy_tables(plan, domain)
    if not tables:
        return None
    ranked = sorted(_columns(tables, domain, rows), key=lambda column: -column.moved)
    cells = sum(table.cells for table in tables)
    if suggest and cells <= MOST_REPLANNED_CELLS:
        troubled = [column for column in ranked if column.state != "holds"][:MOST_ADVISED]
        ranked = [_advised(spec, domain, column, rows) if column in troubled else column for column in ranked]
    return Advice(rows, usual_std(tables), tuple(ranked))


def noisy_tables(plan: MethodPlan[Any], domain: TableDomain) -> list[NoisyTable]:
    """The plan's lines that are tables of columns; of an adaptive plan all candidates, at the noise of a chosen one."""
    names = {name: index for index, name in enumerate(domain.names)}
    found, later = [], None
    for line in plan.noise:
        parts = line.query.split(" x ")
        if all(part in names for part in parts):
            columns, std = tuple(names[part] for part in parts), line.std * plan.rows_a_count
            found.append(NoisyTable(columns, line.numbers, std))
        elif line.query.startswith("each of"):
            later = line.std
    if later is not None:
        wide = [clique for clique in plan.counted if len(clique) > 1]
        found += [NoisyTable(clique, math.prod(domain.sizes[i] for i in clique), later) for clique in wide]
    return found


def plan_verdict(spec: ReleaseSpec, plan: MethodPlan[Any], rows: int) -> Verdict | None:
    """What the copy would be good for with so many rows; None for methods that measure no tables of counts."""
    if isinstance(plan.design, TreeDesign):  # `rows` are then roots, each of which counts once in every table
        return planned_tree_verdict(plan.design, tree_domains(spec), rows)
    domain = TableDomain.of(spec)
    tables = noisy_tables(plan, domain)
    named = [(tuple(domain.names[c] for c in table.columns), table.cells, table.std) for table in tables]
    return expected_verdict(named, rows) if tables else None


def usual_std(tables: Sequence[NoisyTable]) -> float:
    wide = [table.std for table in tables if len(table.columns) > 1]
    return median(wide or [table.std for table in tables])


def what_if(
    spec: ReleaseSpec, key: str, values: Sequence[str], rows: int
) -> Iterator[tuple[ReleaseSpec, Advice | None]]:
    """The spec with each of these values in turn, and the advice for it."""
    if key not in WHAT_IF:
        raise SpecError(
            f"--what-if knows no {key[:40]!r}", f"ask about one of {', '.join(WHAT_IF)}, as epsilon=0.5,1,2"
        )
    for value in values:
        changed = _with_privacy(spec, key, value)
        yield changed, advise(changed, plan_release(changed).plan, rows, suggest=False)


def _with_privacy(spec: ReleaseSpec, key: str, value: str) -> ReleaseSpec:
    privacy = spec.privacy.model_dump(mode="json")
    place = privacy["unit"] if key == "max_rows" else privacy
    place[key] = value
    try:
        changed = type(spec.privacy).model_validate(privacy)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]["msg"].removeprefix("Value error, ")
    else:
        return spec.model_copy(update={"privacy": changed})
    raise SpecError(f"{key}={value[:40]} is impossible: {problem}", "give numbers, as epsilon=0.5,1,2")


def _columns(tables: Sequence[NoisyTable], domain: TableDomain, rows: int) -> Iterator[ColumnAdvice]:
    for index, column in enumerate(domain.columns):
        own = [table for table in tables if index in table.columns]
        wide = [table for table in own if len(table.columns) > 1] or own
        if wide:
            # The median: beside one column that drowns, all others would seem to.
            yield ColumnAdvice(column.name, column.size, median(_moved(table, rows) for table in wide))


def _moved(table: NoisyTable, rows: int) -> float:
    return table.cells * table.std * _MEAN / 2 / rows


def _advised(spec: ReleaseSpec, domain: TableDomain, column: ColumnAdvice, rows: int) -> ColumnAdvice:
    described = domain.columns[domain.index(column.column)]
    suggestions = []
    if (coarser := _coarser(spec, described, column)) is not None:
        change, changed = coarser
        suggestions.append(Suggestion(change, _moved_in(changed, column.column, rows)))
    if len(domain.columns) > 2:
        without = _without(spec, column.column)
        suggestions.append(Suggestion("drop it", None, _gain(spec, without)))
        if (alone := _alone(spec, domain, column.column)) is not None:
            suggestions.append(Suggestion("measure it by itself: list method.marginals without its pairs", None,
                                          _gain(spec, alone)))  # fmt: skip
    return ColumnAdvice(column.column, column.codes, column.moved, tuple(suggestions))


def _coarser(spec: ReleaseSpec, described: DomainColumn, column: ColumnAdvice) -> tuple[str, ReleaseSpec] | None:
    """Fewer codes, as many as noise leaves room for."""
    declared = spec.columns[described.name]
    room = max(2, int(column.codes * BLURS / column.moved) - described.has_other - described.nullable)
    bins = getattr(declared, "bins", None)
    if isinstance(declared, CategoryColumn):
        kept = max(1, room - (not declared.other))
        change = f"list its {kept} most usual values, as far as you know them, and let `other` take the rest"
        update = {"values": declared.values[:kept], "other": True}
        fewer = room < len(declared.values)
    elif isinstance(bins, str):
        longer = _COARSER.get(bins)
        change, update, fewer = f"bins: {longer}", {"bins": longer}, longer is not None
    else:
        change, update = f"bins: {room}", {"bins": room}
        fewer = isinstance(bins, int) and room < described.value_codes
    return (change, _with_column(spec, described.name, declared.model_copy(update=update))) if fewer else None


def _alone(spec: ReleaseSpec, domain: TableDomain, name: str) -> ReleaseSpec | None:
    """All pairs but this column's, where all pairs are measured."""
    if spec.method.options.get("marginals", "all-2way") not in ("all-2way", "auto") or len(domain.columns) > 40:
        return None
    others = [other for other in domain.names if other != name]
    pairs = [[one, other] for i, one in enumerate(others) for other in others[i + 1 :]]
    method = type(spec.method).model_validate({**spec.method.model_dump(), "marginals": [*pairs, [name]]})
    return spec.model_copy(update={"method": method})


def _gain(before: ReleaseSpec, after: ReleaseSpec) -> str:
    """How much less noise the usual table has."""
    was, is_ = (usual_std(noisy_tables(plan_release(spec).plan, TableDomain.of(spec))) for spec in (before, after))
    return f"the noise of all others falls by {1 - is_ / was:.0%}"


def _moved_in(spec: ReleaseSpec, name: str, rows: int) -> float:
    domain = TableDomain.of(spec)
    tables = noisy_tables(plan_release(spec).plan, domain)
    return next(column.moved for column in _columns(tables, domain, rows) if column.column == name)


def _with_column(spec: ReleaseSpec, name: str, column: Any) -> ReleaseSpec:
    return spec.model_copy(update={"columns": {**spec.columns, name: column}})


def _without(spec: ReleaseSpec, name: str) -> ReleaseSpec:
    listed = spec.method.options.get("marginals", "all-2way")
    changed = spec.model_copy(update={"columns": {key: column for key, column in spec.columns.items() if key != name}})
    if isinstance(listed, str):
        return changed
    kept = [marginal for marginal in listed if name not in marginal]
    method = type(spec.method).model_validate({**spec.method.model_dump(), "marginals": kept or "all-1way"})
    return changed.model_copy(update={"method": method})
