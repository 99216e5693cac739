"""What a declared column of the spec is as codes: its bins, spikes, step and resolution."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from understudy.pipelines.spec.columns import BooleanColumn, CategoryColumn, ModelledColumn
from understudy.pipelines.spec.dates import DateColumn, DatetimeColumn
from understudy.pipelines.spec.numbers import IntegerColumn, NumberColumn
from understudy.pipelines.table.binning import (
    EPOCH,
    MICROSECONDS_A_DAY,
    Binning,
    inner_numbers,
    inner_wholes,
    microseconds,
    number_bins,
    period_starts,
    whole_bins,
)
from understudy.pipelines.table.columns import DomainColumn, Kind
from understudy.pipelines.table.scales import ScaleName

MICROSECONDS_AN_HOUR = 3_600_000_000
RESOLUTIONS = {"second": 1_000_000, "minute": 60_000_000, "hour": MICROSECONDS_AN_HOUR, "day": MICROSECONDS_A_DAY}


def domain_column(name: str, column: ModelledColumn) -> DomainColumn:
    return replace(_coded(name, column), form=column.form)


def _coded(name: str, column: ModelledColumn) -> DomainColumn:
    match column:
        case CategoryColumn():
            return DomainColumn(name, "category", column.values, (), column.other, column.nullable, column.ordered)
        case BooleanColumn():
            return DomainColumn(name, "boolean", (), (), False, column.nullable, True)
        case IntegerColumn():
            end = column.max + 1
            bins = whole_bins(column.min, end, inner_wholes(column.min, end, column.bins, column.scale), column.spikes)
            step = None if column.step is None else Fraction(column.step)
            return binned(name, "integer", bins, column.nullable, column.scale, step=step)
        case NumberColumn():
            step = _step(column)
            inner = inner_numbers(column.min, column.max, column.bins, column.scale)
            bins = number_bins(column.min, column.max, inner, column.spikes, None if step is None else float(step))
            return binned(name, "number", bins, column.nullable, column.scale, column.decimals, step)
        case DateColumn():
            first, last = (column.min - EPOCH).days, (column.max - EPOCH).days + 1
            if isinstance(column.bins, int):
                days = inner_wholes(first, last, column.bins, "linear")
            else:
                days = period_starts(column.min, column.max, column.bins)
            spikes = [(day - EPOCH).days for day in column.spikes]
            return binned(name, "date", whole_bins(first, last, days, spikes), column.nullable)
        case DatetimeColumn():
            bins = moment_bins(column)
            return binned(name, "datetime", bins, column.nullable, step=_resolution(column, bins))


def binned(
    name: str,
    kind: Kind,
    bins: Binning,
    nullable: bool,
    scale: ScaleName = "linear",
    decimals: int | None = None,
    step: Fraction | None = None,
) -> DomainColumn:
    span = None if bins.span == (bins.edges[0], bins.edges[-1]) else bins.span
    return DomainColumn(name, kind, (), bins.edges, False, nullable, True, scale, decimals, bins.spikes, span, step)


def moment_bins(column: DatetimeColumn) -> Binning:
    start, end = microseconds(column.min), microseconds(column.max)
    if isinstance(column.bins, int):
        inner = inner_wholes(start, end, column.bins, "linear")
    elif column.bins == "hour":
        inner = list(range(start - start % MICROSECONDS_AN_HOUR, end, MICROSECONDS_AN_HOUR))
    else:
        days = period_starts(column.min.date(), column.max.date(), column.bins)
        inner = [day * MICROSECONDS_A_DAY for day in days]
    return whole_bins(start, end, inner, [microseconds(moment) for moment in column.spikes])


def _step(column: NumberColumn) -> Fraction | None:
    """Of what published numbers are multiples, exactly as it is written: 0.1 is a tenth."""
    if column.step is not None:
        return Fraction(str(column.step))
    return None if column.decimals is None else Fraction(1, 10**column.decimals)


def _resolution(column: DatetimeColumn, bins: Binning) -> Fraction:
    """As declared; else whole days where bins are a day or longer, since nothing is known of the time of day, and
    whole seconds where they are shorter."""
    if column.resolution is not None:
        return Fraction(RESOLUTIONS[column.resolution])
    widths = np.diff(np.array(bins.edges, np.int64))
    typical = int(np.median(widths)) if len(widths) else MICROSECONDS_A_DAY
    return Fraction(RESOLUTIONS["day" if typical >= MICROSECONDS_A_DAY else "second"])
