"""Range queries on a pair of ordered columns by the number of their bins: more bins should not cost accuracy.

Figures `ranges.<pair>.<bins>.error`: the mean error, as a share of all rows, of 1,000 random rectangles of codes of a
table of two columns, published at epsilon 1 (delta 1e-5, ADD_REMOVE); the peer is the same without groups of
neighbours. `.sample` is that of 20,000 real rows, `.seconds` CPU seconds of one release. The made-up pairs (normal,
skewed, clusters) are the design's, the real ones report.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.support.figures import Figures
from benchmarks.support.strategies import by_residuals, grid
from benchmarks.support.tables import CodedTable
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize

BINS = (8, 32, 128, 1_000)
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
            figures.show(f"{figure}.sample", error(table, table.codes[sample]))
            start = time.process_time()
            ours = [error(table, _released(table, args.epsilon, True)) for _ in range(args.draws)]
            seconds = (time.process_time() - start) / args.draws
            theirs = [error(table, _released(table, args.epsilon, False)) for _ in range(args.draws)]
            figures.show(f"{figure}.error", float(np.mean(ours)), "no groups", float(np.mean(theirs)))
            figures.show(f"{figure}.seconds", seconds)


def error(table: CodedTable, rows: np.ndarray) -> float:
    """Mean over random rectangles of the two columns' codes, the same for every call."""
    rng = np.random.default_rng(3)
    edges = [np.sort(rng.integers(0, size + 1, (QUERIES, 2)), axis=1) for size in table.sizes[:2]]
    return float(np.mean(np.abs(_shares(table, table.codes, edges) - _shares(table, rows, edges))))


def _shares(table: CodedTable, codes: np.ndarray, edges: list[np.ndarray]) -> np.ndarray:
    first, second = table.sizes[:2]
    counts = np.bincount(codes[:, 0] * second + codes[:, 1], minlength=first * second).reshape(first, second)
    below = np.zeros((first + 1, second + 1))
    below[1:, 1:] = counts.cumsum(axis=0).cumsum(axis=1) / len(codes)
    (a, b), (c, d) = (each.T for each in edges)
    return np.asarray(below[b, d] - below[a, d] - below[b, c] + below[a, c])


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
