"""Questions beyond what was measured, answered from the published rows by DuckDB: an estimate, never an interval.

How far noise and modelling moved the rows in combinations that nothing measured is not known, so nothing is said of it.
Columns that were measured are grouped as they were measured, by code; others by value. Numbers of rows are scaled to
the measured number of rows, where the copy was published with another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import duckdb
import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import Answer
from understudy.pipelines.inference.axes import group_value
from understudy.pipelines.inference.question import All, Any_, Compare, Condition, IsNull, Not, Question, Truth
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.columns import DomainColumn

_TABLE = "published_rows"


@dataclass
class _Query:
    """SQL with its values apart, so that no value is ever read as SQL."""

    schema: pa.Schema
    values: list[Any] = field(default_factory=list)

    def condition(self, condition: Condition) -> str:
        match condition:
            case Not(of):
                return f"(NOT {self.condition(of)})"
            case All(parts):
                return "(" + " AND ".join(self.condition(part) for part in parts) + ")"
            case Any_(parts):
                return "(" + " OR ".join(self.condition(part) for part in parts) + ")"
            case IsNull(column):
                return f"({quoted(column)} IS NULL)"
            case Truth(column):
                if not pa.types.is_boolean(self.schema.field(column).type):
                    return f"(lower(CAST({quoted(column)} AS VARCHAR)) IN ('1', 'true', 'yes', 't', 'y'))"
                return quoted(column)
            case Compare(column, operator, value):
                left, right = self._comparable(column, value)
                return f"({left} {'<>' if operator == '!=' else operator} {right})"

    def _comparable(self, column: str, value: str) -> tuple[str, str]:
        type_ = self.schema.field(column).type
        name = quoted(column)
        try:
            if pa.types.is_boolean(type_):
                self.values.append({"true": True, "yes": True, "1": True}.get(value.lower(), False))
            elif pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
                self.values.append(float(value))
                return f"CAST({name} AS DOUBLE)", "?"
            elif pa.types.is_date(type_) or pa.types.is_timestamp(type_):
                self.values.append(value)
                return f"CAST({name} AS TIMESTAMP)", "CAST(? AS TIMESTAMP)"
            else:
                self.values.append(value)
                return f"CAST({name} AS VARCHAR)", "?"
        except ValueError:
            raise SpecError(f"{value[:40]!r} is no value of {column}", "compare it with one that it can have") from None
        return name, "?"


def answer_from_rows(
    question: Question, rows: pa.Table, columns: Mapping[str, DomainColumn], reason: str, total: float | None
) -> tuple[Answer, ...]:
    """`columns` are those that were measured, `total` the measured number of rows."""
    missing = [name for name in question.names if name not in rows.column_names]
    if missing:
        near = get_close_matches(missing[0], rows.column_names, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        listed = ", ".join(rows.column_names[:30])
        raise SpecError(f"the release has no column {missing[0][:60]!r}", f"{meant}it has {listed}")
    if question.contrast is not None and question.measure.kind == "quantile":
        raise SpecError("quantiles of groups are not compared", "ask for the quantiles by group")
    kept = rows.select(list(question.names)) if question.names else rows
    scale = total / rows.num_rows if total is not None and rows.num_rows else 1.0
    found = _grouped(question, kept, columns, scale)
    answers = tuple(Answer(group, value, reason=reason) for group, value in found)
    return _against(question, answers, reason) if question.contrast is not None else answers


def _grouped(
    question: Question, rows: pa.Table, columns: Mapping[str, DomainColumn], scale: float
) -> list[tuple[dict[str, Any], float | None]]:
    coded = {name: columns[name] for name in question.by if name in columns}
    table = rows
    groups = []
    for number, name in enumerate(question.by):
        if name in coded:
            label = f"understudy group {number}"
            table = table.append_column(label, pa.array(encode_column(rows.column(name), coded[name])))
            groups.append(quoted(label))
        else:
            groups.append(quoted(name))
    query = _Query(rows.schema)
    measure = _measured(question, query)
    where = f" WHERE {query.condition(question.where)}" if question.where is not None else ""
    grouped = f" GROUP BY {', '.join(groups)} ORDER BY {', '.join(groups)}" if groups else ""
    text = f"SELECT {', '.join([*groups, measure])} FROM {_TABLE}{where}{grouped}"  # noqa: S608  names are quoted
    try:
        with duckdb.connect() as connection:
            connection.register(_TABLE, table)
            found = connection.execute(text, query.values).fetchall()
    except duckdb.Error:
        found = None
    if found is None:
        raise SpecError("the published rows cannot answer that", "compare columns with values of their own kind")
    scaled = scale if question.measure.kind in ("count", "sum") else 1.0
    return [(_named(question, row, coded), None if row[-1] is None else float(row[-1]) * scaled) for row in found]


def _measured(question: Question, query: _Query) -> str:
    measure = question.measure
    column = quoted(measure.column or "")
    match measure.kind:
        case "count":
            return "count(*)"
        case "share" if measure.condition is None:
            return "count(*) / sum(count(*)) OVER ()"
        case "share":
            assert measure.condition is not None
            return f"avg(CASE WHEN {query.condition(measure.condition)} THEN 1.0 ELSE 0.0 END)"
        case "mean":
            return f"avg(CAST({column} AS DOUBLE))"
        case "sum":
            return f"sum(CAST({column} AS DOUBLE))"
        case "quantile":
            return f"quantile_cont(CAST({column} AS DOUBLE), {measure.level!r})"


def _named(question: Question, row: tuple[Any, ...], coded: Mapping[str, DomainColumn]) -> dict[str, Any]:
    return {
        name: group_value(coded[name], int(value)) if name in coded else value
        for name, value in zip(question.by, row, strict=False)
    }


def _against(question: Question, answers: tuple[Answer, ...], reason: str) -> tuple[Answer, ...]:
    contrast, last = question.contrast, question.by[-1]
    assert contrast is not None
    found = []
    by_rest: dict[tuple[Any, ...], list[Answer]] = {}
    for answer in answers:
        by_rest.setdefault(tuple(answer.group[name] for name in question.by[:-1]), []).append(answer)
    for group in by_rest.values():
        named = contrast.against
        base = next((each for each in group if named is None or str(each.group[last]) == named), None)
        if base is None:
            continue
        for each in group:
            if each is base or each.estimate is None or base.estimate is None:
                continue
            value = each.estimate - base.estimate
            if contrast.kind == "ratio":
                value = each.estimate / base.estimate if base.estimate else math.nan
            found.append(Answer({**each.group, "against": base.group[last]}, value, reason=reason))
    return tuple(found)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
