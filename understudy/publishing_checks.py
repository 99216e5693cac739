"""The contract of a synthetic table, checked with Arrow alone, for use without an orchestrator."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.contract import ColumnContract, contract_of
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.rules import broken_rows
from understudy.pipelines.table.tensors import rows_within


def failures_of(
    table: pa.Table, measured: Measurement, spec: ReleaseSpec, rows: int | None
) -> tuple[list[Agreement], list[str]]:
    """How the table agrees with what was released, and what is wrong with it."""
    domain = TableDomain.of(spec)
    contract = contract_of(domain, rows)
    failures = []
    if table.column_names != [column.name for column in contract.columns]:
        return [], ["columns are not those of the contract"]
    if contract.rows is not None and table.num_rows != contract.rows:
        failures.append(f"{table.num_rows} rows instead of {contract.rows}")
    for column in contract.columns:
        failures += [f"{column.name}: {problem}" for problem in _column(table.column(column.name), column)]
    if failures:
        return [], failures
    agreements = method_named(spec.method.name).agreement(table, measured, domain)
    agreements += [
        Agreement(f"rule: {rule}", float(broken_rows(rule, table, domain).sum()), 0.0) for rule in spec.generate.rules
    ]
    failures += [f"{each.query}: too far from its measurement" for each in agreements if each.distance > each.allowed]
    return agreements, failures


def _column(values: pa.ChunkedArray, contract: ColumnContract) -> list[str]:
    if str(values.type) != contract.arrow_type:
        return [f"is {values.type}, not {contract.arrow_type}"]
    if contract.shape is not None:
        fits = rows_within(values, contract.low, contract.high)  # type: ignore[arg-type]
        return [] if fits.all() else ["has a tensor that is null or out of its bounds"]
    found = []
    if values.null_count and not contract.nullable:
        found.append("has nulls")
    if contract.allowed is not None:
        known = pc.is_in(values, value_set=pa.array(list(contract.allowed), values.type), skip_nulls=True)
        if not _all(pc.or_(known, pc.is_null(values))):
            found.append("has a value that is not listed")
    if contract.low is not None and not _all(pc.greater_equal(values, _bound(contract.low, values.type))):
        found.append("is below its bounds")
    if contract.high is not None and not _all(pc.less_equal(values, _bound(contract.high, values.type))):
        found.append("is above its bounds")
    if contract.unique and len(pc.unique(values)) != len(values):
        found.append("has a value twice")
    return found


def _all(truths: Any) -> bool:
    return bool(pc.all(truths, min_count=0).as_py() is not False)


def _bound(value: Any, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_date(type_) and isinstance(value, dt.datetime):
        value = value.date()
    return pa.scalar(value, type_)
