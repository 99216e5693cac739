"""What is known of pairs when the order of columns is used, and when it is not: the same noise both times.

Figures `order.<set>.<epsilon>.tv`: total variation between the targets of all pairs, which the copy meets, and the
real table; the peer takes every column for nominal. delta 1e-5, ADD_REMOVE. Lengths of the prior and fewest codes
were chosen on made-up pairs; that it is used at all, on Adult and BR2000 (design).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support.figures import Figures
from benchmarks.support.strategies import by_residuals, grid
from benchmarks.support.tables import CodedTable, load_tables
from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.methods.privpgd.problem import GridColumn
from understudy.pipelines.methods.privpgd.targets import build_targets

EPSILONS = ("2.5", "1", "0.2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=3)


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    for table in load_tables(args.data):
        for epsilon in EPSILONS:
            name = f"order.{table.name}.{epsilon}.tv"
            if figures.wants(name):
                drawn = [by_residuals(table, table.codes, float(epsilon)) for _ in range(args.draws)]
                nominal = [GridColumn(size, False) for size in table.sizes]
                ours, theirs = (
                    float(np.mean([_off(table, d, each) for d in drawn])) for each in (grid(table), nominal)
                )
                figures.show(name, ours, "without order", theirs)


def _off(table: CodedTable, noisy: Residuals, columns: Sequence[GridColumn]) -> float:
    pairs = build_targets(noisy, columns, None).pairs
    return float(
        np.mean([np.abs(made - metrics.marginal(table.codes, p, table.sizes)).sum() / 2 for p, made in pairs.items()])
    )
