"""What a release of several tables carries of its measurement: noisy residuals of every view, and how to read them.

The same two files as of one table (measured.py), of which `how` tells a person and `views` a program what they hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.pipelines.errors import ValidationFailed
from understudy.pipelines.methods.tree.released import TREE, numbers_name, residual_name
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.manifest import MeasuredFact, ReleaseFile
from understudy.pipelines.publishing.measured import (
    DESCRIPTION,
    FOLDER,
    FORMAT,
    NUMBERS,
    column_from,
    described,
    packed,
)
from understudy.pipelines.spec.tree import Tree, TreeTable
from understudy.pipelines.table.domain import TableDomain

HOW = (
    "Each of `views` is a flat table that the tables are seen as: `rows` has a row for every row of its table, `order` "
    "one for every two rows of one parent that follow each other. Of its columns, `own` is one of the table's, `above` "
    "one of a row it belongs to, `before` one of the row before it; `number` is how many rows of that table lie below "
    "it, `siblings` how many rows its parent has (codes stand for numbers up to `most`), `place` whether it is the "
    "first of them, `gap` the step from the row before (in bins between `edges`). One row of the root that has m rows "
    "in a view gives floor(`ticks` / m) ticks to each: `ticks` of them are one row of the root, with all below it. "
    "Each of `sets` lists columns of its view by their place; G is the product of their sizes (1 for no column). Its "
    "numbers, row-major with one fewer along every axis, are differences along each axis of G * (ticks) + noise, the "
    "noise being independent between cells and sets with standard deviation `std`. Summed up again along each axis, "
    "centred along each axis and divided by G they are the residual of the set. Without bias, the ticks over columns W "
    "are estimated by the sum over all listed subsets A of W of the residual of A divided by the sizes of the columns "
    "of W that A lacks. `numbers` are, for some tables, the ticks of their parents by how many rows they have, from 0, "
    "each with noise of standard deviation `std`. Numbers of all sets of all views come first, then those."
)


@dataclass(frozen=True, eq=False)
class MeasuredTree:
    """Read again: the measurement, and the tables that its codes are of."""

    measurement: Measurement
    tree: Tree
    domains: Mapping[str, TableDomain]


def tree_files(measured: Measurement, tree: Tree, domains: Mapping[str, TableDomain]) -> tuple[ReleaseFile, ...]:
    facts = measured.facts
    views = [
        {
            **{key: value for key, value in view.items() if key not in ("measured", "stds")},
            "sets": [
                {"columns": list(clique), "std": std, "numbers": int(measured.arrays[residual_name(i, place)].size)}
                for place, (clique, std) in enumerate(zip(view["measured"], view["stds"], strict=True))
            ],
        }
        for i, view in enumerate(facts["views"])
    ]
    description = {
        "format": FORMAT,
        "kind": TREE,
        "how": HOW,
        "ticks": facts["ticks"],
        "tables": [_table(table, domains[table.name]) for table in tree.tables],
        "views": views,
        "numbers": [
            {"table": name, "std": std, "numbers": int(measured.arrays[numbers_name(name)].size)}
            for name, std in facts["numbers"].items()
        ],
        "sampler": facts["sampler"],
    }
    text = json.dumps(description, indent=1, ensure_ascii=False) + "\n"
    numbers = [np.asarray(measured.arrays[name]).ravel() for name in _names(facts)]
    return ReleaseFile(DESCRIPTION, text.encode()), ReleaseFile(NUMBERS, packed(numbers))


def tree_fact(measured: Measurement) -> MeasuredFact:
    names = _names(measured.facts)
    return MeasuredFact(kind=TREE, sets=len(names), numbers=sum(np.asarray(measured.arrays[n]).size for n in names))


def read_measured_tree(content: Callable[[str], bytes | None]) -> MeasuredTree | None:
    """From the files of a release, by path; None where it has none, or those of one table."""
    description, numbers = content(DESCRIPTION), content(NUMBERS)
    if description is None or numbers is None:
        return None
    try:
        told = json.loads(description)
        return _read(told, numbers) if told["kind"] == TREE else None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, pa.ArrowException):
        pass
    raise ValidationFailed(
        f"{FOLDER}/ of the release cannot be read", "ask its publisher for another copy, or use a newer understudy"
    )


def _read(told: Mapping[str, Any], numbers: bytes) -> MeasuredTree:
    if told["format"] != FORMAT:
        raise ValueError("another format")
    values = pq.ParquetFile(BytesIO(numbers)).read(use_threads=False).column("number").to_numpy()
    views = [
        {
            **{key: value for key, value in view.items() if key != "sets"},
            "measured": [each["columns"] for each in view["sets"]],
            "stds": [each["std"] for each in view["sets"]],
        }
        for view in told["views"]
    ]
    facts = {
        "ticks": told["ticks"],
        "views": views,
        "numbers": {each["table"]: each["std"] for each in told["numbers"]},
        "sampler": told["sampler"],
    }
    listed = [each["numbers"] for view in told["views"] for each in view["sets"]]
    listed += [each["numbers"] for each in told["numbers"]]
    if sum(listed) != len(values):
        raise ValueError("numbers are missing")
    arrays = dict(zip(_names(facts), np.split(values, np.cumsum(listed)[:-1]), strict=True))
    for i, view in enumerate(told["views"]):
        sizes = [column["size"] for column in view["columns"]]
        for place, each in enumerate(view["sets"]):
            if arrays[residual_name(i, place)].size != math.prod(sizes[column] - 1 for column in each["columns"]):
                raise ValueError("a set has another size than its columns")
    tables = [_table_from(each) for each in told["tables"]]
    domains = {each["name"]: TableDomain(tuple(map(column_from, each["columns"]))) for each in told["tables"]}
    return MeasuredTree(Measurement(TREE, facts, arrays), Tree(tuple(tables)), domains)


def _names(facts: Mapping[str, Any]) -> list[str]:
    """Of the arrays, in the order in which they are written."""
    views = [residual_name(i, place) for i, view in enumerate(facts["views"]) for place in range(len(view["measured"]))]
    return views + [numbers_name(table) for table in facts["numbers"]]


def _table(table: TreeTable, domain: TableDomain) -> dict[str, Any]:
    return {
        "name": table.name,
        "key": table.key,
        "parent": table.parent,
        "by": table.by,
        "max_rows": table.max_rows,
        "order_by": table.order_by,
        "implied": table.implied,
        "columns": [described(column) for column in domain.columns],
    }


def _table_from(told: Mapping[str, Any]) -> TreeTable:
    return TreeTable(
        told["name"],
        told["key"],
        told["parent"],
        told["by"],
        int(told["max_rows"]),
        told["order_by"],
        implied=bool(told["implied"]),
    )
