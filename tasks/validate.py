"""Validate: Great Expectations on the synthetic table, in process and offline.

The suite is derived from the public contract (types, ranges, categories, nullability, rows) and from the agreement of
the synthetic table with the noisy measurements. It never sees a private row, so its results may be shown.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import pandas as pd
import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.errors import ValidationFailed
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.contract import ColumnContract, TableContract, contract_of
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.rules import broken_rows
from understudy.pipelines.table.tensors import rows_within
from understudy.tasks.telling.stages import stage

MOST_FAILURES = 10


@task(retries=1, retry_delay_seconds=2, retry_condition_fn=lambda task, run, state: _is_not_a_verdict(state),
      persist_result=False, cache_policy=NO_CACHE)  # fmt: skip
@stage("checking the synthetic table")
def validate(synthetic: pa.Table, measured: Measurement, spec: ReleaseSpec) -> list[Agreement]:
    agreements, failures = failures_of(synthetic, measured, spec)
    if failures:
        more = f" and {len(failures) - MOST_FAILURES} more" if len(failures) > MOST_FAILURES else ""
        raise ValidationFailed(
            f"the synthetic table of {spec.name!r} breaks its contract: {'; '.join(failures[:MOST_FAILURES])}{more}",
            "nothing was published and the paid measurement is kept: change `generate` if need be and run "
            "`understudy release --resume`, which spends nothing",
        )
    fault_point("after_validate")
    return agreements


def failures_of(synthetic: pa.Table, measured: Measurement, spec: ReleaseSpec) -> tuple[list[Agreement], list[str]]:
    """How the table agrees with what was released, and what is wrong with it."""
    domain = TableDomain.of(spec)
    agreements = method_named(spec.method.name).agreement(synthetic, measured, domain)
    agreements += [
        Agreement(f"rule: {rule}", float(broken_rows(rule, synthetic, domain).sum()), 0.0)
        for rule in spec.generate.rules
    ]
    return agreements, check_table(synthetic, contract_of(domain, spec.publish.rows), agreements)


def check_table(synthetic: pa.Table, contract: TableContract, agreements: list[Agreement]) -> list[str]:
    """One line for each expectation that failed; an empty list means the table may be published."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations import expectations as gxe

    schema = pd.DataFrame(
        {
            "column": [column.name for column in contract.columns],
            "declared": [column.arrow_type for column in contract.columns],
            "published": [_type_of(synthetic, column.name) for column in contract.columns],
        }
    )
    distances = pd.DataFrame(
        {"query": [a.query for a in agreements], "distance": [a.distance for a in agreements],
         "allowed": [a.allowed for a in agreements]}
    )  # fmt: skip
    types_match = gxe.ExpectColumnPairValuesToBeEqual(column_A="published", column_B="declared")
    close_enough = gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="allowed", column_B="distance", or_equal=True)
    # It announces a temporary directory, which is nobody's business; its own logger's level is reset by itself.
    logging.getLogger("great_expectations.data_context.types.base").disabled = True
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = _no_progress_bars()
    failures = _run(context, "types", schema, [types_match])
    if failures:  # with wrong types the checks of values would fail in confusing ways
        return failures
    failures += _run(context, "rows", _frame(synthetic, contract), _expectations(contract, gxe))
    if agreements:
        failures += _run(context, "agreement with the measurements", distances, [close_enough])
    return failures


def _expectations(contract: TableContract, gxe: Any) -> list[Any]:
    suite = [gxe.ExpectTableColumnsToMatchOrderedList(column_list=[column.name for column in contract.columns])]
    if contract.rows is not None:
        suite.append(gxe.ExpectTableRowCountToEqual(value=contract.rows))
    else:
        suite.append(gxe.ExpectTableRowCountToBeBetween(min_value=1))
    for column in contract.columns:
        suite.extend(_column_expectations(column, gxe))
    return suite


def _column_expectations(column: ColumnContract, gxe: Any) -> list[Any]:
    if column.shape is not None:  # the frame says of each tensor whether it is whole and within its bounds
        return [gxe.ExpectColumnValuesToBeInSet(column=column.name, value_set=[True])]
    checks = []
    if not column.nullable:
        checks.append(gxe.ExpectColumnValuesToNotBeNull(column=column.name))
    if column.allowed is not None:
        checks.append(gxe.ExpectColumnValuesToBeInSet(column=column.name, value_set=list(column.allowed)))
    if column.low is not None:
        checks.append(
            gxe.ExpectColumnValuesToBeBetween(column=column.name, min_value=column.low, max_value=column.high)
        )
    if column.unique:
        checks.append(gxe.ExpectColumnValuesToBeUnique(column=column.name))
    return checks


def _run(context: Any, title: str, frame: pd.DataFrame, expectations: list[Any]) -> list[str]:
    import great_expectations as gx

    suite = gx.ExpectationSuite(name=title, expectations=expectations)
    asset = context.data_sources.add_pandas(title).add_dataframe_asset(title)
    batch = asset.add_batch_definition_whole_dataframe(title).get_batch(batch_parameters={"dataframe": frame})
    results = batch.validate(suite, result_format="SUMMARY").results
    return [_failure(title, result) for result in results if not result.success]


def _failure(title: str, result: Any) -> str:
    settings = result.expectation_config
    where = settings.kwargs.get("column", title)
    share = (result.result or {}).get("unexpected_percent")
    return f"{where}: {settings.type}" + (f" ({share:.2g}% of rows)" if share else "")


def _frame(synthetic: pa.Table, contract: TableContract) -> pd.DataFrame:
    """Dates as timestamps: Great Expectations compares bounds of those, not of date objects. Tensors as verdicts."""
    bounds = {column.name: (column.low, column.high) for column in contract.columns if column.shape is not None}
    columns = {
        name: rows_within(column, *bounds[name])  # type: ignore[arg-type]
        if name in bounds
        else (column.cast(pa.timestamp("us")) if pa.types.is_date(column.type) else column).to_pandas()
        for name, column in zip(synthetic.column_names, synthetic.columns, strict=True)
    }
    return pd.DataFrame(columns)


def _type_of(table: pa.Table, name: str) -> str:
    return str(table.schema.field(name).type) if name in table.schema.names else "missing"


def _no_progress_bars() -> Any:
    from great_expectations.data_context.types.base import ProgressBarsConfig

    return ProgressBarsConfig(globally=False)


def _is_not_a_verdict(state: Any) -> bool:
    return not isinstance(state.result(raise_on_failure=False), ValidationFailed)
