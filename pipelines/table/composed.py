"""Columns that are not one coded column: moments in parts, moments after others, and columns made of published ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from understudy.pipelines.spec.dates import DateColumn, DatetimeColumn
from understudy.pipelines.spec.derived import DerivedColumn, LaterColumn, LookupColumn
from understudy.pipelines.spec.expressions import Expression
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.binning import inner_wholes, whole_bins
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.declared import RESOLUTIONS, binned, domain_column


@dataclass(frozen=True)
class Split:
    """A datetime that is modelled by parts, each a coded column; `whole` is how it is read and what bounds it has."""

    whole: DomainColumn
    parts: tuple[tuple[str, DomainColumn], ...]

    @property
    def name(self) -> str:
        return self.whole.name


@dataclass(frozen=True)
class Lapse:
    """A datetime that is modelled by how many seconds it lies after another one."""

    name: str
    after: DomainColumn
    seconds: DomainColumn

    @property
    def most(self) -> int:
        return int(self.seconds.declared_span[1]) - 1


@dataclass(frozen=True)
class Made:
    """A column that is computed from published ones, by an expression or by a table; `places` are the decimals that
    their numbers have, `zones` on whose clocks their moments are."""

    name: str
    expression: Expression | None = None
    decimals: int | None = None
    places: tuple[tuple[str, int], ...] = ()
    source: str = ""
    table: tuple[tuple[str, str | int], ...] = ()
    zones: tuple[tuple[str, str], ...] = ()


def split_of(name: str, column: DatetimeColumn) -> Split:
    """The date in the column's bins, and what else is asked for: weekdays from Monday, hours, minutes."""
    assert column.bins != "hour"  # which the spec refuses
    first, last = column.min.date(), column.max.date()
    date = DateColumn(type="date", min=first, max=last, bins=column.bins, nullable=column.nullable)
    whole = column.model_copy(update={"resolution": column.resolution or finest(column.parts)})
    found: list[tuple[str, DomainColumn]] = []
    for part in column.parts:
        if part == "date":
            found.append((part, domain_column(f"{name}.date", date)))
            continue
        count = {"weekday": 7, "hour": 24, "minute": 60}[part]
        edges = tuple(range(count + 1))
        found.append((part, DomainColumn(f"{name}.{part}", "integer", (), edges, False, column.nullable, True)))
    return Split(domain_column(name, whole), tuple(found))


def finest(parts: tuple[str, ...]) -> Literal["second", "hour", "day"]:
    """What is published where no resolution is declared: within an hour, moments lie as they like."""
    return "second" if "minute" in parts or "hour" in parts else "day"


def lapse_of(name: str, column: LaterColumn, spec: ReleaseSpec) -> Lapse:
    start = spec.columns[column.after]
    assert isinstance(start, DatetimeColumn)
    bins = whole_bins(0, column.up_to + 1, inner_wholes(0, column.up_to + 1, column.bins, "signed"), ())
    step = Fraction(RESOLUTIONS[column.resolution], RESOLUTIONS["second"])
    seconds = binned(name, "integer", bins, column.nullable, "signed", step=step)
    return Lapse(name, domain_column(column.after, start), seconds)


def made_of(name: str, column: DerivedColumn | LookupColumn, modelled: list[DomainColumn], spec: ReleaseSpec) -> Made:
    if isinstance(column, LookupColumn):
        return Made(name, source=column.from_, table=tuple(column.table.items()))
    places = tuple(
        (each.name, digits)
        for each in modelled
        if each.kind == "number" and each.name in column.expression.names and (digits := each.places) is not None
    )
    zones = tuple((used, zone) for used in column.expression.names if (zone := _zone_of(used, spec)) is not None)
    return Made(name, column.expression, column.decimals, places, zones=zones)


def _zone_of(name: str, spec: ReleaseSpec) -> str | None:
    column = spec.columns[name]
    if isinstance(column, LaterColumn):
        column = spec.columns[column.after]
    return column.zone if isinstance(column, DateColumn | DatetimeColumn) else None
