"""Time and memory by the number of columns: from codes to the published table, all pairs, epsilon 1.

Figures `columns.<columns>.cpu_seconds`, `.seconds`, `.peak_mb` and `.tv` (all pairs) of 240,000 rows of a made-up table
(benchmarks/support/latent.py) with columns of 2 to 32 values, one draw each. `.generate.cpu_seconds` is the part after
the noise was drawn.
"""

from __future__ import annotations

import argparse

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support.figures import Figures, measured
from benchmarks.support.latent import latent_table
from benchmarks.support.strategies import by_residuals, grid
from benchmarks.support.tables import CodedTable
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize

COLUMNS = (10, 20, 42, 60, 100)
ROWS = 240_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--columns", type=int, nargs="+", default=list(COLUMNS))
    parser.add_argument("--epochs", type=int, default=PrivPGDConfig.epochs, help="passes of transport")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    config = PrivPGDConfig(epochs=args.epochs)
    _released(latent_table(4, 500), 500, config)  # compiled or loaded kernels are no part of any figure
    for columns in args.columns:
        if not figures.wants(f"columns.{columns}."):
            continue
        table = latent_table(columns, args.rows)
        with measured() as whole:
            noisy = by_residuals(table, table.codes, 1.0)
            with measured() as generated:
                fake = synthesize(noisy, grid(table), args.rows, config)
        figures.show(f"columns.{columns}.cpu_seconds", whole.cpu_seconds)
        figures.show(f"columns.{columns}.generate.cpu_seconds", generated.cpu_seconds)
        figures.show(f"columns.{columns}.seconds", whole.seconds)
        figures.show(f"columns.{columns}.peak_mb", whole.peak_mb)
        if figures.wants(f"columns.{columns}.tv"):
            tv = metrics.average_total_variation(table.codes, fake, table.sizes)
            figures.show(f"columns.{columns}.tv", tv)


def _released(table: CodedTable, rows: int, config: PrivPGDConfig) -> None:
    synthesize(by_residuals(table, table.codes, 1.0), grid(table), rows, config)
