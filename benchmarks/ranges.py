"""Range queries on a pair of ordered columns by the number of their bins: more bins should not cost accuracy.

A table of two columns is published at epsilon 1 (delta 1e-5, ADD_REMOVE) with 8, 32, 128 and 1,000 equal bins a column.
Figures are mean errors of 1,000 random rectangles, as shares of all rows:
- `ranges.<pair>.<bins>.error`: the same ranges of values at every number of bins, which end where 8 bins do, so that
  all can answer them exactly; the peer is the same without groups of neighbours;
- `.any`: the same ranges of values at every number of bins, which end anywhere (at thousandths of the span); within a
  bin rows are spread evenly;
- `.own`: other ranges at every number of bins, which end where its own bins do.
`.sample` is the error of 20,000 real rows at ranges that end where 8 bins do, `.seconds` are CPU seconds of one
release. The made-up pairs (normal, skewed, clusters, lines) are the design's, the real ones report.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.interpolate import RegularGridInterpolator

from benchmarks.support.figures import Figures
from benchmarks.support.strategies import by_residuals, grid
from benchmarks.support.tables import CodedTable
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize

BINS = (8, 32, 128, 1_000)
FINEST = 1_000
QUERIES = 1_000
SAMPLE = 20_000
MADE_UP_ROWS = 30_000
SPANS = {"AGEP": (0, 100), "PINCP": (0, 200_000), "POVPIP": (0, 502), "WKHP": (0, 100), "JWMNP": (0, 200)}
PAIRS = (("AGEP", "PINCP"), ("PINCP", "POVPIP"), ("JWMNP", "WKHP"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=5, help="releases a side")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--bins", type=int, nargs="+", default=list(BINS))


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    for name, points in [*_made_up(), *_real(args)]:
        if not figures.wants(f"ranges.{name}."):
            continue
        for bins in args.bins:
            figure = f"ranges.{name}.{bins}"
            if not figures.wants(f"{figure}."):
                continue
            table = _coded(name, points, bins)
            sample = np.random.default_rng(4).choice(len(table.codes), min(SAMPLE, len(table.codes)), replace=False)
            figures.show(f"{figure}.sample", errors(points, table, table.codes[sample])["error"])
            start = time.process_time()
            ours = [errors(points, table, _released(table, args.epsilon, True)) for _ in range(args.draws)]
            seconds = (time.process_time() - start) / args.draws
            theirs = [errors(points, table, _released(table, args.epsilon, False)) for _ in range(args.draws)]
            for kind in ours[0]:
                mean, other = (float(np.mean([each[kind] for each in side])) for side in (ours, theirs))
                figures.show(f"{figure}.{kind}", mean, "no groups", other)
            figures.show(f"{figure}.seconds", seconds)


def errors(points: np.ndarray, table: CodedTable, rows: np.ndarray) -> dict[str, float]:
    """Of rectangles that are the same for every call: by where they may end."""
    own = table.sizes[0]
    finest = _below(_coded(table.name, points, FINEST))
    ours, exact = (_below(replace(table, codes=codes)) for codes in (rows, table.codes))
    kinds = {"error": (BINS[0], exact), "any": (FINEST, finest), "own": (own, exact)}
    return {
        kind: float(np.mean(np.abs(_answers(ours, ends) - _answers(truth, ends))))
        for kind, (ends, truth) in kinds.items()
    }


def _below(table: CodedTable) -> np.ndarray:
    """The share of rows below every pair of bins' ends."""
    first, second = table.sizes[:2]
    counts = np.bincount(table.codes[:, 0] * second + table.codes[:, 1], minlength=first * second)
    below = np.zeros((first + 1, second + 1))
    below[1:, 1:] = counts.reshape(first, second).cumsum(axis=0).cumsum(axis=1) / len(table.codes)
    return below


def _answers(below: np.ndarray, parts: int) -> np.ndarray:
    """Shares of rows in random rectangles that end at `parts` equal parts of the span; rows are even within bins."""
    rng = np.random.default_rng(3)
    (a, b), (c, d) = (np.sort(rng.integers(0, parts + 1, (QUERIES, 2)), axis=1).T / parts for _ in range(2))
    ends = [np.linspace(0, 1, size) for size in below.shape]
    at = RegularGridInterpolator(ends, below)
    corners = [at(np.stack(corner, axis=1)) for corner in ((b, d), (a, d), (b, c), (a, c))]
    return np.asarray(corners[0] - corners[1] - corners[2] + corners[3])


def _released(table: CodedTable, epsilon: float, in_groups: bool) -> np.ndarray:
    noisy = by_residuals(table, table.codes, epsilon, in_groups=in_groups)
    return synthesize(noisy, grid(table), len(table.codes), PrivPGDConfig())


def _coded(name: str, points: np.ndarray, bins: int) -> CodedTable:
    codes = np.minimum((points * bins).astype(np.int64), bins - 1)
    columns = tuple(f"c{i}" for i in range(points.shape[1]))
    return CodedTable(name, columns, codes, (bins,) * len(columns), (True,) * len(columns), 0)


def _made_up() -> Iterator[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    normal = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=MADE_UP_ROWS)
    yield "normal", _inside((normal + 4) / 8)
    yield "skewed", _inside(np.exp(0.8 * normal) / 20)
    centres, spread = np.array([[0.2, 0.3], [0.5, 0.8], [0.7, 0.2], [0.4, 0.5]]), np.array([0.05, 0.1, 0.07, 0.15])
    which = rng.integers(0, 4, MADE_UP_ROWS)
    yield "clusters", _inside(centres[which] + spread[which, None] * rng.normal(size=(MADE_UP_ROWS, 2)))
    along = rng.beta(1.5, 4, 2 * MADE_UP_ROWS)
    anywhere, which = rng.beta(2, 2, 2 * MADE_UP_ROWS), rng.random(2 * MADE_UP_ROWS)
    across = np.where(which < 0.4, along / 2, np.where(which < 0.8, 1.5 * along, anywhere))
    yield "lines", _inside(np.stack([along, across], axis=1))


def _real(args: argparse.Namespace) -> Iterator[tuple[str, np.ndarray]]:
    path = args.data / "pums2024" / "ny.parquet"
    if not path.exists():
        return
    frame = pd.read_parquet(path)
    for pair in PAIRS:
        rows = frame[list(pair)].dropna()
        scaled = [(rows[c] - SPANS[c][0]) / (SPANS[c][1] - SPANS[c][0]) for c in pair]
        yield "x".join(pair).lower(), _inside(np.stack([each.to_numpy(dtype=float) for each in scaled], axis=1))


def _inside(points: np.ndarray) -> np.ndarray:
    return np.clip(points, 0.0, 1 - 1e-12)
