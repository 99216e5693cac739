"""Residuals beside marginals noised cell by cell: total variation of the published table (delta 1e-5, ADD_REMOVE).

Figures `residuals.<set>.<epsilon>.tv` and `.tv_error` (of the mean, over the draws), and `.seconds` of one release; the
peer is what commit 7b5a274 measured: every pair for 0.9 of the budget and every column for 0.1, reconciled. Both go
through the same generator in the same run, draw by draw. The rule of the shares was chosen on Adult and BR2000
(design); the other sets report.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support.figures import Figures
from benchmarks.support.strategies import by_marginals, by_residuals, grid
from benchmarks.support.tables import CodedTable, load_tables
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize
from understudy.pipelines.methods.privpgd.problem import Noisy

EPSILONS = ("2.5", "1", "0.2")
PEER = "marginals"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=5, help="releases a side")
    parser.add_argument("--rows", type=int, help="rows of a published table; default: as many as the real one has")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    for table in load_tables(args.data):
        for epsilon in EPSILONS:
            name = f"residuals.{table.name}.{epsilon}"
            if not figures.wants(f"{name}."):
                continue
            ours, theirs = [], []
            for _ in range(args.draws):
                ours.append(_released(table, by_residuals, float(epsilon), args.rows or len(table.codes)))
                theirs.append(_released(table, by_marginals, float(epsilon), args.rows or len(table.codes)))
            for place, figure in enumerate(("tv", "seconds")):
                values, others = np.array(ours)[:, place], np.array(theirs)[:, place]
                figures.show(f"{name}.{figure}", float(values.mean()), PEER, float(others.mean()))
                if figure == "tv" and args.draws > 1:
                    figures.show(f"{name}.tv_error", _error(values), PEER, _error(others))


def _released(
    table: CodedTable, measure: Callable[[CodedTable, np.ndarray, float], Noisy], epsilon: float, rows: int
) -> tuple[float, float]:
    """Total variation over all pairs, and CPU seconds from the counts to the table."""
    start = time.process_time()
    noisy = measure(table, table.codes, epsilon)
    fake = synthesize(noisy, grid(table), rows, PrivPGDConfig())
    seconds = time.process_time() - start
    return metrics.average_total_variation(table.codes, fake, table.sizes), seconds


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))
