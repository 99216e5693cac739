"""Rows drawn from fitted models: normal vectors, then each column's own map, then typed values within the domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.model import ClassModel
from understudy.pipelines.table.coding.decode import decode_column, fresh_ids
from understudy.pipelines.table.coding.grid import bounds
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.scales import Scale

CHUNK_ROWS = 250_000


class NumberMap(Protocol):
    def typed(self, label: int, place: int, draws: np.ndarray, rng: np.random.Generator) -> pa.Array:
        """Values without nulls of a class and of a place among the numeric columns, for normal draws."""
        ...


@dataclass(frozen=True, eq=False)
class FittedModels:
    """The sampler of a release by moments or copula: a model for each class, and `rows` where nobody asks for more."""

    models: tuple[ClassModel, ...]
    layout: Layout
    number_map: NumberMap
    rows: int

    def draw(
        self, first: int, rows: int, rng: np.random.Generator, report: Callable[[int], None] = lambda done: None
    ) -> pa.Table:
        return sample_table(self.models, self.layout, self.number_map, rows, rng, report, first)


def sample_table(
    models: Sequence[ClassModel],
    layout: Layout,
    number_map: NumberMap,
    rows: int,
    rng: np.random.Generator,
    report: Callable[[int], None] = lambda done: None,
    first: int = 0,
) -> pa.Table:
    """A table of `rows` rows in domain order, surrogate ids first, classes mixed by their estimated weights."""
    weights = np.array([model.weight for model in models])
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(models), 1 / len(models))
    pieces: list[pa.Table] = []
    done = 0
    while done < rows:
        size = min(CHUNK_ROWS, rows - done)
        labels = np.sort(rng.choice(len(models), size, p=weights))
        pieces.append(_chunk(models, layout, number_map, labels, rng))
        done += size
        report(done)
    table = pa.concat_tables(pieces)
    for place, name in enumerate(layout.domain.surrogates):
        table = table.add_column(place, name, fresh_ids(first + 1, rows))
    return table


def _chunk(
    models: Sequence[ClassModel],
    layout: Layout,
    number_map: NumberMap,
    labels: np.ndarray,
    rng: np.random.Generator,
) -> pa.Table:
    parts = []
    for label in np.unique(labels):
        count = int(np.sum(labels == label))
        parts.append(_class_rows(models[label], int(label), layout, number_map, count, rng))
    return pa.concat_tables(parts).take(pa.array(rng.permutation(len(labels))))


def _class_rows(
    model: ClassModel, label: int, layout: Layout, number_map: NumberMap, count: int, rng: np.random.Generator
) -> pa.Table:
    draws = matched_normals(count, model.correlation, rng)
    arrays: dict[int, pa.Array] = {}
    for place, index in enumerate(layout.numeric):
        values = number_map.typed(label, place, draws[:, place], rng)
        if model.null_rate[place] > 0:
            absent = pa.array(rng.random(count) < model.null_rate[place])
            values = pc.if_else(absent, pa.scalar(None, values.type), values)
        arrays[index] = values
    for place, index in enumerate(layout.categories):
        axis = model.axes[len(layout.numeric) + place]
        steps = np.searchsorted(axis.thresholds, draws[:, len(layout.numeric) + place])
        arrays[index] = decode_column(model.orders[place][steps], layout.column(index), rng)
    if layout.label is not None:
        arrays[layout.label] = decode_column(np.full(count, label), layout.column(layout.label), rng)
    return pa.table([arrays[i] for i in range(len(layout.domain.columns))], names=list(layout.domain.names))


def matched_normals(count: int, correlation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Normal rows whose sample mean and correlation are the wanted ones exactly, where there are rows enough.

    The released moments are all that is known, so sampling error on top of them would be pure loss.
    """
    width = len(correlation)
    draws = rng.standard_normal((count, width))
    if count >= 10 * (width + 1):
        draws -= draws.mean(axis=0)
        draws = np.linalg.solve(np.linalg.cholesky(draws.T @ draws / count), draws.T).T
    result: np.ndarray = draws @ np.linalg.cholesky(correlation).T
    return result


def typed_numbers(scaled: np.ndarray, column: DomainColumn) -> pa.Array:
    """Scaled values in [-1, 1] back to the column's units, rounded as declared, within its bounds."""
    low, high = bounds(column)
    share = (np.clip(scaled, -1.0, 1.0) + 1.0) / 2
    values = low * (1.0 - share) + high * share
    if column.log_scale:
        values = low + np.expm1(share * np.log1p(high - low))
    elif column.scale != "linear":
        scale = Scale(column.scale, low, high)
        first, last = scale.ends
        values = scale.backward(first + share * (last - first))
    if column.kind == "number":
        return pa.array(_decimals(np.clip(values, low, high), low, high, column.decimals))
    whole = np.clip(np.rint(values), low, high).astype(np.int64)
    if column.kind == "date":
        return pa.array(whole.astype(np.int32)).cast(pa.date32())
    return pa.array(whole).cast(pa.timestamp("us")) if column.kind == "datetime" else pa.array(whole)


def _decimals(values: np.ndarray, low: float, high: float, decimals: int | None) -> np.ndarray:
    """Rounded to so many decimals where a number of that form lies within the bounds."""
    if decimals is None:
        return values
    unit = 10.0**decimals
    first, last = np.ceil(low * unit), np.floor(high * unit)
    if first > last:
        return values
    return np.clip(np.clip(np.rint(values * unit), first, last) / unit, low, high)
