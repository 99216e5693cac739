"""Entities counted instead of rows: row-level total variation over all pairs (epsilon 1, delta 1e-5, ADD_REMOVE).

Figures `entities.<table>.<k>.tv` and `.tv_error` (of the mean, over the draws), `.rows` (rows of the copy over those
that there are) and `.seconds` of one release. The peer is `method.count: rows`, whose noise grows with k, in the same
run. The truth is the rows that bounding keeps. Made tables have 20,000 entities whose numbers of rows fall as a power
up to k, and twelve columns of which half depend on that number. Constants were chosen on `design`; the others report:
`weak` and `strong` (how far columns depend on each other), `weak-heavy` and `strong-heavy` (numbers of rows fall more
slowly), and the visits of Diabetes 130-US hospitals by patient. `wide` is half of `weak` and two ordered columns of
1,000 and 100 values that follow it and the number of rows; its two-way errors are over 20 parts of these, and
`.ranges`, `.pairs` and `.within` are mean errors of 300 random ranges of the first one, of rectangles of both, and of
ranges within a value of another column.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support.figures import Figures
from benchmarks.support.tables import diabetes, patients
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.methods.privpgd.method import PrivPGDMethod
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.domain import TableDomain

CAPS = (4, 12, 32)
ENTITIES = 20_000
PEER = "rows"
WIDE, PARTS, QUERIES = (1_000, 100), 20, 300
ENTITY = "who"


@dataclass(frozen=True)
class Recipe:
    """Numbers of rows fall as m^-power; `pull` is how far traits move a column, `chance` what else does."""

    seed: int
    power: float
    pull: float
    chance: float


MADE = {
    "design": Recipe(1, 1.5, 0.7, 0.8),
    "weak": Recipe(2, 2.0, 0.7, 0.8),
    "strong": Recipe(3, 2.0, 1.0, 0.5),
    "weak-heavy": Recipe(4, 1.5, 0.7, 0.8),
    "strong-heavy": Recipe(5, 1.5, 1.0, 0.5),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=3, help="releases a side")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--caps", type=int, nargs="+", default=CAPS, help="max_rows")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    for name in (*MADE, "wide", "diabetes"):
        for most in args.caps:
            if not figures.wants(f"entities.{name}.{most}."):
                continue
            table = _table(name, most, args.data)
            if table is None:
                continue
            ours, theirs = [], []
            for _ in range(args.draws):
                ours.append(_released(*table, most, "entities", args.epsilon))
                theirs.append(_released(*table, most, "rows", args.epsilon))
            kinds = ("tv", "rows", "seconds", *(("ranges", "pairs", "within") if name == "wide" else ()))
            for place, figure in enumerate(kinds):
                values, others = np.array(ours)[:, place], np.array(theirs)[:, place]
                figures.show(f"entities.{name}.{most}.{figure}", float(values.mean()), PEER, float(others.mean()))
                if figure == "tv" and args.draws > 1:
                    figures.show(f"entities.{name}.{most}.tv_error", _error(values), PEER, _error(others))


def _table(name: str, most: int, data: Path) -> tuple[pa.Table, tuple[int, ...]] | None:
    """Rows of codes with their entity, and the columns' sizes."""
    if name in MADE:
        return made(MADE[name], most)
    if name == "wide":
        return with_wide_columns(*made(MADE["weak"], most))
    table, who = diabetes(data), patients(data)
    if table is None or who is None:
        return None
    return _arrow(table.codes, who), table.sizes


def made(recipe: Recipe, most: int) -> tuple[pa.Table, tuple[int, ...]]:
    """Two traits of an entity, one of each row and, for half of the columns, the number of rows move a code."""
    rng = np.random.default_rng(recipe.seed)
    sizes = tuple(int(size) for size in rng.permutation((2, 2, 3, 4, 5, 6, 8, 8, 10, 12, 16, 16)))
    numbers = np.arange(1.0, most + 1)
    falling = numbers**-recipe.power
    rows = rng.choice(numbers.astype(int), ENTITIES, p=falling / falling.sum())
    who = np.repeat(np.arange(ENTITIES), rows)
    busy = np.log2(rows) / math.log2(most)
    traits = rng.normal(size=(ENTITIES, 2))
    moment = rng.normal(size=len(who))
    columns = []
    for place, size in enumerate(sizes):
        pulls = rng.normal(size=3) * recipe.pull
        depends = rng.choice((-1, 1)) * rng.uniform(0.7, 1.5) * (place % 2)
        chance = rng.normal(size=len(who)) * recipe.chance
        score = traits[who] @ pulls[:2] + pulls[2] * moment + depends * busy[who] + chance
        edges = np.sort(rng.normal(size=size - 1)) * 1.2
        columns.append(np.searchsorted(edges, score))
    return _arrow(np.stack(columns, axis=1), who), sizes


def with_wide_columns(rows: pa.Table, sizes: tuple[int, ...]) -> tuple[pa.Table, tuple[int, ...]]:
    rng, kept = np.random.default_rng(6), len(sizes) // 2
    who = rows[ENTITY].to_numpy()
    codes = [rows[f"c{i}"].to_numpy() for i in range(len(sizes))]
    first = 2.4 * codes[-1] / sizes[-1] - 1.2 + 0.5 * np.log2(np.bincount(who)[who]) + rng.normal(size=len(who))
    second = -0.6 * first + rng.normal(size=len(who))
    wide = [
        np.clip(np.floor((score + 5) / 10 * size), 0, size - 1).astype(np.int64)
        for score, size in zip((first, second), WIDE, strict=True)
    ]
    return _arrow(np.stack([*codes[:kept], *wide], axis=1), who), (*sizes[:kept], *WIDE)


def range_errors(real: np.ndarray, fake: np.ndarray, sizes: tuple[int, ...]) -> tuple[float, ...]:
    """Of the two last columns, which are wide."""
    rng, errors = np.random.default_rng(3), []
    for _ in range(QUERIES):
        (a, b), (c, d) = (np.sort(rng.integers(0, size + 1, 2)) for size in WIDE)
        other = rng.integers(0, len(sizes) - 2)
        value = rng.integers(0, sizes[other])
        answers = []
        for rows in (real, fake):
            first = (rows[:, -2] >= a) & (rows[:, -2] < b)
            both = first & (rows[:, -1] >= c) & (rows[:, -1] < d)
            answers.append([first.mean(), both.mean(), (first & (rows[:, other] == value)).mean()])
        errors.append(np.abs(np.subtract(*answers)))
    return tuple(float(each) for each in np.mean(errors, axis=0))


def _arrow(codes: np.ndarray, who: np.ndarray) -> pa.Table:
    return pa.table({ENTITY: who, **{f"c{i}": codes[:, i] for i in range(codes.shape[1])}})


def _released(rows: pa.Table, sizes: tuple[int, ...], most: int, count: str, epsilon: str) -> tuple[float, ...]:
    """Total variation over all pairs of rows, their number over the true one, and CPU seconds."""
    spec = _spec(sizes, most, count, epsilon)
    domain, method = TableDomain.of(spec), PrivPGDMethod()
    table = LocalTable(ArrowSource(rows), domain, spec.privacy.protected_unit, b"benchmark")
    start = time.process_time()
    measured = method.measure(
        table, spec, method.plan(spec, domain), lambda _, sold: sold.draw(operating_system_randomness())
    )
    copy = method.generate(measured, spec, domain, None, lambda *_: None)
    seconds = time.process_time() - start
    real, fake = _codes(pa.Table.from_batches(table.record_batches()), domain), _codes(copy, domain)
    ranges = range_errors(real, fake, sizes) if sizes[-2:] == WIDE else ()
    in_parts = [np.maximum(size // PARTS, 1) if size in WIDE else 1 for size in sizes]
    parts = tuple(size // width for size, width in zip(sizes, in_parts, strict=True))
    tv = metrics.average_total_variation(real // in_parts, fake // in_parts, parts)
    return tv, len(fake) / len(real), seconds, *ranges


def _codes(table: pa.Table, domain: TableDomain) -> np.ndarray:
    batch = table.select(list(domain.names)).combine_chunks().to_batches()[0]
    return np.stack(encode(batch, domain).columns, axis=1).astype(np.int64)


def _spec(sizes: tuple[int, ...], most: int, count: str, epsilon: str) -> ReleaseSpec:
    columns: dict[str, Any] = {
        f"c{i}": {"type": "integer", "min": 0, "max": size - 1, "bins": size} for i, size in enumerate(sizes)
    }
    unit = {"entity": ENTITY, "max_rows": most}
    return ReleaseSpec.model_validate(
        {
            "name": "entities",
            "source": {"uri": "entities.parquet", "snapshot": "1"},
            "privacy": {"account": "a", "epsilon": epsilon, "delta": "1e-5", "unit": unit},
            "columns": {**columns, ENTITY: {"type": "identifier"}},
            "method": {"name": "privpgd", "count": count},
            "generate": {"device": "cpu"},
            "publish": {"to": "releases/"},
        }
    )


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))
