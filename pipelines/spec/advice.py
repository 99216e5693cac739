"""What a spec leaves open about how its values are written, told from the declarations alone: no row is looked at."""

from __future__ import annotations

from understudy.pipelines.spec.dates import DateColumn, DatetimeColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.numbers import IntegerColumn, NumberColumn


def format_advice(spec: ReleaseSpec) -> list[str]:
    """One line for each kind of column of a text source whose format is not declared."""
    if not spec.source.names_csv:
        return []
    dates = [
        name
        for name, column in spec.columns.items()
        if isinstance(column, DateColumn | DatetimeColumn) and not column.format and column.day_first is None
    ]
    numbers = [
        name
        for name, column in spec.columns.items()
        if isinstance(column, IntegerColumn | NumberColumn) and column.form is None
    ]
    found = []
    if dates:
        found.append(
            f"{', '.join(dates)}: no `format` is declared. Understood are 2014-04-01, 20140401, 1 Apr 2014, with 18:06 "
            "or 6:06 PM; 01/04/2014 and 01.04.2014 are not without `day_first`, nor numbers since 1970 without "
            "`format: epoch`"
        )
    if numbers:
        found.append(
            f"{', '.join(numbers)}: no format is declared. Understood are 1234.5, -1e3, $5, (5); 1,234.5 is not "
            "without `thousands`, nor 12,5 without `decimal`, nor 12% without `percent`"
        )
    return found
