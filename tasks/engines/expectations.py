"""The checks of a synthetic table, run by Great Expectations, in process and offline.

Each check of `pipelines.table.checks` becomes one expectation that carries the check's place in the list, so that what
failed is told in the list's own words. pandas has no null beside NaN among numbers: the frame shows a null as NaN, and
whether a number is NaN, or a tensor whole and within its bounds, as a column of truths.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.table.checks import (
    Check,
    Checks,
    ColumnsAre,
    Follows,
    FormCheck,
    HasRows,
    IsDerived,
    IsListed,
    IsNumber,
    IsUnique,
    IsWithin,
    NotNull,
    RowCheck,
    TensorsWithin,
    TypeIs,
    ValueCheck,
    comparable,
    rows_in_order,
    type_named,
)
from understudy.pipelines.table.tensors import rows_within


def expectations_failed(table: pa.Table, checks: Checks) -> list[Check]:
    """The checks that fail, by Great Expectations."""
    context = _context()
    layout = pd.DataFrame(columns=table.column_names)
    types = pd.DataFrame({c.column: [type_named(table, c.column)] for c in checks.form if isinstance(c, TypeIs)})
    names = [check for check in checks.form if isinstance(check, ColumnsAre)]
    form = _failed(context, "columns", layout, names) + _failed(context, "types", types, checks.form[len(names) :])
    return form or _failed(context, "rows", _frame(table, checks.values), checks.values)


def _failed(context: Any, title: str, frame: pd.DataFrame, checks: Iterable[Check]) -> list[Check]:
    import great_expectations as gx

    listed = list(checks)
    if not listed:
        return []
    expectations = [_expectation(check, {"check": place}) for place, check in enumerate(listed)]
    suite = gx.ExpectationSuite(name=title, expectations=expectations)
    asset = context.data_sources.add_pandas(title).add_dataframe_asset(title)
    batch = asset.add_batch_definition_whole_dataframe(title).get_batch(batch_parameters={"dataframe": frame})
    results = batch.validate(suite, result_format="BOOLEAN_ONLY").results
    kept = {result.expectation_config.meta["check"] for result in results if result.success}
    return [check for place, check in enumerate(listed) if place not in kept]


def _expectation(check: FormCheck | ValueCheck, meta: Mapping[str, Any]) -> Any:
    from great_expectations import expectations as gxe

    match check:
        case ColumnsAre():
            return gxe.ExpectTableColumnsToMatchOrderedList(column_list=list(check.names), meta=meta)
        case TypeIs():
            return gxe.ExpectColumnValuesToBeInSet(column=check.column, value_set=[check.type], meta=meta)
        case HasRows() if check.exactly is None:
            return gxe.ExpectTableRowCountToBeBetween(min_value=1, meta=meta)
        case HasRows():
            return gxe.ExpectTableRowCountToEqual(value=check.exactly, meta=meta)
        case NotNull():
            return gxe.ExpectColumnValuesToNotBeNull(column=check.column, meta=meta)
        case IsListed():
            return gxe.ExpectColumnValuesToBeInSet(column=check.column, value_set=list(check.values), meta=meta)
        case IsWithin():
            return gxe.ExpectColumnValuesToBeBetween(
                column=check.column, min_value=check.low, max_value=check.high, meta=meta
            )
        case IsUnique():
            return gxe.ExpectColumnValuesToBeUnique(column=check.column, meta=meta)
        case IsNumber() | TensorsWithin() | IsDerived() | Follows():
            return gxe.ExpectColumnValuesToBeInSet(column=_truth(check), value_set=[True], meta=meta)


def _frame(table: pa.Table, checks: Iterable[ValueCheck]) -> pd.DataFrame:
    """The columns as pandas compares them, and a column of truths for each check that pandas cannot make."""
    listed = list(checks)
    lows = {check.column: check.low for check in listed if isinstance(check, IsWithin)}
    tensors = {check.column for check in listed if isinstance(check, TensorsWithin)}
    columns = {name: _column(table.column(name), lows.get(name)) for name in table.column_names if name not in tensors}
    for check in listed:
        if isinstance(check, IsNumber):
            columns[_truth(check)] = ~np.asarray(pc.fill_null(pc.is_nan(table.column(check.column)), False))
        elif isinstance(check, TensorsWithin):
            columns[_truth(check)] = rows_within(table.column(check.column), check.low, check.high)
        elif isinstance(check, IsDerived | Follows):
            columns[_truth(check)] = rows_in_order(table, check)
    return pd.DataFrame(columns, index=range(table.num_rows))


def _column(values: pa.ChunkedArray, low: Any) -> Any:
    values = comparable(values)
    if pa.types.is_date(values.type):  # Great Expectations compares bounds of timestamps, not of date objects
        return values.cast(pa.timestamp("us")).to_pandas()
    if pa.types.is_integer(values.type) and values.null_count:  # as doubles they would be rounded
        return values.to_pandas(integer_object_nulls=True)
    if pa.types.is_floating(values.type):  # NaN is there, unlike null: `IsNumber` finds it, the others pass it by
        return pc.if_else(pc.is_nan(values), pa.scalar(low or 0.0, values.type), values).to_pandas()
    return values.to_pandas()


def _truth(check: IsNumber | TensorsWithin | RowCheck) -> str:
    return f"{check.column}\0{type(check).__name__}"


def _context() -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    # It announces a temporary directory, which is nobody's business; its own logger's level is reset by itself.
    logging.getLogger("great_expectations.data_context.types.base").disabled = True
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context
