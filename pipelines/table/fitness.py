"""What a copy is good for, column by column, told from public declarations: how fine, what is exact, what made up.

For the plan before anything is paid, and for the manifest and the card of what was published.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.binning import MICROSECONDS_A_DAY
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.keeping import Types, holds_whole_numbers

_UNITS = {"date": (1.0, "days"), "datetime": (MICROSECONDS_A_DAY / 24, "hours")}
_HALF = 0.5


@dataclass(frozen=True)
class Fitness:
    """`resolution` is what values of the column cannot be told apart within; `exact` are values that can."""

    column: str
    resolution: str
    exact: tuple[str, ...] = ()
    caution: str = ""


def fitness_of(spec: ReleaseSpec, domain: TableDomain) -> tuple[Fitness, ...]:
    """Of every published column but ids and tensors, in the order of publication."""
    counted = _counts_bins(spec)
    found = {column.name: _fitness(column, counted) for column in domain.columns}
    for split in domain.splits:
        parts = ", ".join(f"{part} in {_resolution(column)}" for part, column in split.parts)
        found[split.name] = Fitness(split.name, parts)
    for lapse in domain.lapses:
        span = f"{_resolution(lapse.seconds)} seconds after {lapse.after.name}"
        found[lapse.name] = Fitness(lapse.name, span, (f"never before {lapse.after.name}",))
    for made in domain.made:
        by = f"looked up from {made.source}" if made.expression is None else made.expression.text
        found[made.name] = Fitness(made.name, "as its parts", (f"= {by}",))
    label = spec.method.options.get("label")
    if spec.method.name == "mixing" and label in found and spec.method.options.get("balance", "equal") == "equal":
        mix = "its mix of classes is made up: as many records of each; method.balance: sizes publishes the released one"
        found[str(label)] = Fitness(str(label), "as listed", (), mix)
    return tuple(found[name] for name in domain.published_names if name in found)


def shape_advice(spec: ReleaseSpec, domain: TableDomain) -> list[str]:
    """What a careful person would declare otherwise, told before anything is paid."""
    found = []
    for column in domain.columns:
        low, high = column.declared_span if column.edges else (0, 0)
        if column.scale == "log" and low > 0:
            below = sum(edge < 2 * low for edge in column.edges[1:]) / column.value_codes
            if below > 0.25:
                found.append(
                    f"{column.name}: scale log is narrow near min: {below:.0%} of the bins lie below {2 * low:g}; "
                    "scale ratio is a true logarithm"
                )
        if column.scale == "log" and low < 0 < high:
            found.append(f"{column.name}: scale log is narrow near {low:g}, not near 0; scale signed is narrow near 0")
    amounts = [
        column.name
        for column in domain.columns
        if column.kind == "number" and column.declared_span[0] == 0 and not column.spikes
    ]
    if amounts:
        found.append(f"{', '.join(amounts)}: if many are exactly 0, say `spikes: [0]`; else zeros are spread in a bin")
    split = {part.name for each in domain.splits for _, part in each.parts}
    days = [c.name for c in domain.columns if c.kind == "datetime" and c.name not in split and _whole_days(c)]
    if days:
        found.append(f"{', '.join(days)}: the time of day is not measured; `parts: [date, weekday, hour]` keeps it")
    starred = [column.name for column in domain.columns if column.spikes]
    if starred and not _counts_bins(spec):
        found.append(f"{', '.join(starred)}: spikes are kept by privpgd and gaussian's copula, not by this method")
    return found


def type_advice(domain: TableDomain, types: Types) -> list[str]:
    """What is lost where the source's catalogue says whole numbers and the spec `number`; no row is looked at."""
    found = []
    for column in domain.columns:
        name = types.get(column.name, "")
        if column.kind != "number" or not holds_whole_numbers(name):
            continue
        lows, highs = column.intervals()
        widest = float((highs - lows)[~column.is_spike].max(initial=0.0))
        whole_steps = column.step is not None and column.step.denominator == 1
        lost = []
        if widest > 1 or not whole_steps:
            zero = column.ends[0] <= 0 <= column.ends[1] and all(value != 0 for _, value in column.spikes)
            lost.append(f"{'exact zeros and ' * zero}numbers that many rows hold are spread over {_resolution(column)}")
        if not whole_steps:
            lost.append("values are drawn between whole numbers, then rounded, some of them into the next bin")
        if lost:
            found.append(
                f"{column.name}: the source holds whole numbers ({name}), `number` is declared: {'; '.join(lost)}; "
                "`type: integer` keeps them whole, and `spikes` keeps those that many rows hold"
            )
    return found


def _counts_bins(spec: ReleaseSpec) -> bool:
    name = spec.method.name
    return name == "privpgd" or (name == "gaussian" and spec.method.options.get("mode") == "copula")


def _fitness(column: DomainColumn, counted: bool) -> Fitness:
    exact = tuple(column.code_labels()[code].removeprefix("= ") for code, _ in column.spikes) if counted else ()
    caution = "" if counted or not column.spikes else "spikes are not kept by this method"
    return Fitness(column.name, _resolution(column), exact, caution)


def _resolution(column: DomainColumn) -> str:
    if column.kind in ("category", "boolean"):
        return "as listed"
    lows, highs = column.intervals()
    widths = (highs - lows)[~column.is_spike].astype(np.float64)
    unit, word = _UNITS.get(column.kind, (1.0, ""))
    if not len(widths) or (column.kind in ("integer", "date") and widths.max() <= 1):
        return "exact" if column.kind == "integer" else "single days"
    if column.kind == "datetime" and widths.min() > MICROSECONDS_A_DAY:
        unit, word = float(MICROSECONDS_A_DAY), "days"
    narrow, wide = widths.min() / unit, widths.max() / unit
    alike = wide - narrow <= 0.01 * wide + _HALF * (column.kind == "integer")
    span = _amount(wide) if alike else f"{_amount(narrow)} to {_amount(wide)}"
    return f"bins of {span}{f' {word}' if word else ''}{_steps(column)}"


def _amount(number: float) -> str:
    return f"{number:,.0f}" if 1_000 <= number < 1e12 else f"{number:.3g}"


def _steps(column: DomainColumn) -> str:
    if column.step is None:
        return ""
    if column.kind == "datetime":
        whole = {1_000_000: "seconds", 60_000_000: "minutes", 3_600_000_000: "hours", MICROSECONDS_A_DAY: "days"}
        return f", in whole {whole[int(column.step)]}"
    return f", in steps of {float(column.step):g}" if column.step != 1 else ""


def _whole_days(column: DomainColumn) -> bool:
    return column.step is not None and int(column.step) == MICROSECONDS_A_DAY
