"""A whole release of a large table, from Parquet to Parquet: CPU seconds, memory, and how good it is.

Figures `scale.<rows>x<columns>.<stage>.cpu_seconds`, `.cpu_seconds` and `.peak_mb` of the whole release (in a process
of its own, without an orchestrator), `.times_pyarrow` (its CPU seconds over those of writing the published rows with
pyarrow alone) and `.two_way`: mean total variation of all pairs of columns to the real table, with that of a release
of a million rows from the same measurement's size beside it. On Dask workers: `python -m benchmarks workers`.
"""

from __future__ import annotations

import argparse
import shutil

from benchmarks.support.figures import Figures
from benchmarks.support.large import measured_release


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--small", type=float, default=1e6, help="rows of the release that quality is compared with")


def run(args: argparse.Namespace) -> None:
    figures, rows = Figures(args.only), int(args.rows)
    out = args.data / "scale-out"
    name = f"scale.{rows}x{args.columns}"
    try:
        found = measured_release(args.data, rows, args.columns, out)
        for stage, cost in found["stages"].items():
            figures.show(f"{name}.{stage.replace(' ', '-')}.cpu_seconds", cost["cpu"])
        figures.show(f"{name}.cpu_seconds", found["total"]["cpu"])
        figures.show(f"{name}.seconds", found["total"]["wall"])
        figures.show(f"{name}.peak_mb", found["total"]["peak_mb"])
        figures.show(f"{name}.bytes_a_row", found["bytes"] / found["rows"])
        figures.show(f"{name}.times_pyarrow", found["total"]["cpu"] / found["pyarrow_cpu"], "cpu", found["pyarrow_cpu"])
        small = {"two_way_mean": None, "two_way_max": None}
        if args.small:
            small = measured_release(args.data, rows, args.columns, out, wanted=str(int(args.small)))
        figures.show(f"{name}.two_way_mean", found["two_way_mean"], "small", small["two_way_mean"])
        figures.show(f"{name}.two_way_max", found["two_way_max"], "small", small["two_way_max"])
    finally:
        shutil.rmtree(out, ignore_errors=True)
