"""What was bought travels with the release: `measured/`, the noisy numbers, their noise, and how to combine them.

`description.json` has the columns and what each code of them stands for, the column sets that were measured, the
standard deviation of each, and in words how any marginal of them is estimated. `numbers.parquet` has the noisy whole
numbers, set by set. Both are what the charges of the manifest paid for and nothing else, so that they cost nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.pipelines.counting.released import (
    GROUPED,
    KIND,
    LEVEL,
    RESIDUALS,
    WEIGHTS,
    array_name,
    counts_entities,
    published_facts,
)
from understudy.pipelines.counting.released import NUMBERS as NUMBERS_OF_ROWS
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.errors import ValidationFailed
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.grouped import with_groups
from understudy.pipelines.inference.residuals import residuals_of
from understudy.pipelines.methods.tree.released import TREE
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.manifest import MeasuredFact, ReleaseFile
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

FOLDER = "measured"
DESCRIPTION = f"{FOLDER}/description.json"
NUMBERS = f"{FOLDER}/numbers.parquet"
FORMAT = 1
ENTITIES = "entities"
HOW = {
    RESIDUALS: (
        "Each of `sets` lists columns by their place in `columns`; G is the product of their sizes (1 for no column). "
        "Its numbers, row-major with one fewer along every axis, are differences along each axis of "
        "G * (counts of rows) + noise, the noise being independent between cells and sets with standard deviation "
        "`std`. Summed up again along each axis, centred along each axis and divided by G they are the residual of "
        "the set. The counts over columns W are estimated, without bias, by the sum over all listed subsets A of W of "
        "the residual of A divided by the sizes of the columns of W that A lacks. A cell of that estimate has "
        "variance sum_A (std_A / G_A)^2 * prod_(i in A) (1 - 1/n_i) * prod_(i in W without A) 1 / n_i^2. "
        "Where `public_total` is a number, it is the residual of no column, without noise."
    ),
    ENTITIES: (
        "An entity of m rows gives floor(`weights.ticks` / m) ticks to each of them. Ticks are counted, not rows: "
        "`weights.ticks` of them are one entity. The last of `columns` is the level of m, `weights.levels` the most "
        "rows of each. Where levels join several m, `weights.numbers` are the ticks of entities by m = 1, 2, ..., "
        "with noise of standard deviation `weights.numbers_std`. All else is as it is for rows. "
    ),
    GROUPED: (
        " `grouped`: the same over groups of neighbouring codes, `starts` being the first code of each (null where "
        "a column is counted code by code); sizes are then numbers of groups. Their numbers follow those of `sets`."
    ),
    KIND: (
        "Each of `sets` lists columns by their place in `columns`. Its numbers are the counts of rows over them, "
        "row-major, each with independent noise of standard deviation `std`."
    ),
}


@dataclass(frozen=True, eq=False)
class Measured:
    """What a release carries, read again: the measurement and the columns that its codes are of."""

    measurement: Measurement
    columns: tuple[DomainColumn, ...]
    max_rows: int


def measured_files(measured: Measurement, domain: TableDomain, max_rows: int) -> tuple[ReleaseFile, ...]:
    """Nothing where a method bought no tables of counts."""
    if measured.kind not in HOW:
        return ()
    facts = published_facts(measured)
    numbers = [np.asarray(measured.arrays[array_name(measured.kind, i)]).ravel() for i in range(len(facts["cliques"]))]
    description = {
        "format": FORMAT,
        "kind": measured.kind,
        "how": (HOW[ENTITIES] if counts_entities(measured) else "") + HOW[measured.kind],
        "columns": [described(column) for column in (*domain.columns, *_level(measured))],
        "sets": [
            {"columns": clique, "std": std, "numbers": len(values)}
            for clique, std, values in zip(facts["cliques"], facts["stds"], numbers, strict=True)
        ],
        "rows_of_a_unit": max_rows,
        **{key: value for key, value in facts.items() if key not in ("cliques", "stds", "columns", "sizes")},
    }
    if GROUPED in measured.facts:
        by_groups = [np.asarray(measured.arrays[name]).ravel() for name in _grouped_names(measured.facts)]
        told = zip(measured.facts[GROUPED], by_groups, strict=True)
        description["how"] += HOW[GROUPED]
        description[GROUPED] = [{**each, "numbers": len(values)} for each, values in told]
        numbers += by_groups
    if NUMBERS_OF_ROWS in measured.arrays:
        weights = {**facts[WEIGHTS], "numbers": np.asarray(measured.arrays[NUMBERS_OF_ROWS]).tolist()}
        description[WEIGHTS] = weights
    text = json.dumps(description, indent=1, ensure_ascii=False) + "\n"
    return ReleaseFile(DESCRIPTION, text.encode()), ReleaseFile(NUMBERS, packed(numbers))


def measured_fact(files: Sequence[ReleaseFile], measured: Measurement) -> MeasuredFact | None:
    if not files:
        return None
    facts = measured.facts
    names = [array_name(measured.kind, i) for i in range(len(facts["cliques"]))] + _grouped_names(facts)
    many = sum(np.asarray(measured.arrays[name]).size for name in names)
    return MeasuredFact(kind=measured.kind, sets=len(names), numbers=many)


def read_measured(content: Callable[[str], bytes | None]) -> Measured | None:
    """From the files of a release, by path; None where it has none, as those of earlier versions, or where they are of
    several tables (measured_tree.py)."""
    description, numbers = content(DESCRIPTION), content(NUMBERS)
    if description is None or numbers is None:
        return None
    try:
        told = json.loads(description)
        return None if told["kind"] == TREE else _read(told, numbers)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, pa.ArrowException):
        pass
    raise ValidationFailed(
        f"{FOLDER}/ of the release cannot be read", "ask its publisher for another copy, or use a newer understudy"
    )


def _read(described: Mapping[str, Any], numbers: bytes) -> Measured:
    if described["format"] != FORMAT:
        raise ValueError("another format")
    kind, sets = described["kind"], described["sets"]
    columns = tuple(column_from(each) for each in described["columns"])
    sizes = [column.size for column in columns]
    lower = 1 if kind == RESIDUALS else 0
    values = pq.ParquetFile(BytesIO(numbers)).read(use_threads=False).column("number").to_numpy()
    grouped = described.get(GROUPED, [])
    parts = np.split(values, np.cumsum([each["numbers"] for each in (*sets, *grouped)])[:-1])
    arrays = dict(zip(_grouped_names(described), parts[len(sets) :], strict=True))
    for i, (each, part) in enumerate(zip(sets, parts, strict=False)):
        arrays[array_name(kind, i)] = part.reshape([sizes[column] - lower for column in each["columns"]])
    if "numbers" in described.get(WEIGHTS, {}):
        arrays[NUMBERS_OF_ROWS] = np.array(described[WEIGHTS]["numbers"], dtype=np.int64)
    own = ("format", "kind", "how", "columns", "sets", "rows_of_a_unit")
    facts = {
        "cliques": [each["columns"] for each in sets],
        "stds": [each["std"] for each in sets],
        "columns": [column.name for column in columns],
        "sizes": sizes,
        **{key: value for key, value in described.items() if key not in own},
    }
    return Measured(Measurement(kind, facts, arrays), columns, int(described["rows_of_a_unit"]))


def _grouped_names(facts: Mapping[str, Any]) -> list[str]:
    """Of the tables over groups of neighbouring codes, where some were measured so."""
    return [f"{GROUPED}_{place}" for place in range(len(facts.get(GROUPED, ())))]


def _level(measured: Measurement) -> tuple[DomainColumn, ...]:
    """The column after the others, where entities are counted."""
    if not counts_entities(measured):
        return ()
    spans = EntityWeights.from_facts(measured.facts[WEIGHTS]).numbers_in
    names = tuple(f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans)
    return (DomainColumn(LEVEL, "category", names, (), False, False, True),)


def packed(numbers: Sequence[np.ndarray]) -> bytes:
    """The bytes of equal weight lie side by side, which is what makes noisy numbers smaller."""
    sets = np.repeat(np.arange(len(numbers), dtype=np.int32), [len(each) for each in numbers])
    values = np.concatenate(numbers).astype(np.int64) if numbers else np.zeros(0, np.int64)
    sink = BytesIO()
    pq.write_table(
        pa.table({"set": sets, "number": values}),
        sink,
        compression="zstd",
        use_dictionary=["set"],
        column_encoding={"number": "BYTE_STREAM_SPLIT"},
    )
    return sink.getvalue()


def described(column: DomainColumn) -> dict[str, Any]:
    """What each code stands for: for people by `codes`, for programs by values or edges and spikes."""
    return {
        "name": column.name,
        "kind": column.kind,
        "size": column.size,
        "codes": column.code_labels(),
        **({"values": list(column.values)} if column.kind == "category" else {}),
        **({"edges": list(column.edges), "scale": column.scale} if column.edges else {}),
        **({"spikes": [list(spike) for spike in column.spikes]} if column.spikes else {}),
        **({"span": list(column.span)} if column.span is not None else {}),
        "other": column.has_other,
        "nullable": column.nullable,
        "ordered": column.ordered,
    }


def column_from(told: Mapping[str, Any]) -> DomainColumn:
    return DomainColumn(
        told["name"],
        told["kind"],
        tuple(told.get("values", ())),
        tuple(told.get("edges", ())),
        told["other"],
        told["nullable"],
        told["ordered"],
        told.get("scale", "linear"),
        spikes=tuple((int(code), value) for code, value in told.get("spikes", ())),
        span=tuple(told["span"]) if "span" in told else None,
    )


def told_of(measured: Measured) -> Told:
    """As questions see it. An entity's rows are one of whatever is counted where entities are, so that they add nothing
    to what sampling leaves unknown."""
    residuals = with_groups(residuals_of(measured.measurement))
    if counts_entities(measured.measurement):
        return Told(residuals, measured.columns[: len(residuals.sizes)])
    return Told(residuals, measured.columns, measured.max_rows)
