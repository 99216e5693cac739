"""A whole release of a large table, from Parquet to Parquet: CPU seconds, memory, and how good it is.

Figures `scale.<rows>x<columns>.<stage>.cpu_seconds`, `.cpu_seconds` and `.peak_mb` of the whole release (in a process
of its own, without an orchestrator), `.times_pyarrow` (its CPU seconds over those of writing the published rows with
pyarrow alone) and `.two_way`: mean total variation of all pairs of columns to the real table, with that of a release
of a million rows from the same measurement's size beside it. `--workers 1 2` makes parts on so many Dask worker
processes instead, and shows `.workers.<n>.seconds` and their ratio, which is only worth something on an idle machine;
and `.workers.<n>.critical_cpu_seconds`, the CPU seconds of the busiest process of the scheduler, the workers and the
one that hands out: less than that no number of idle cores can take.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.support.figures import Figures
from benchmarks.support.large import measured_release


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--small", type=float, default=1e6, help="rows of the release that quality is compared with")
    parser.add_argument("--workers", type=int, nargs="*", default=[], help="make parts on so many Dask processes")


def run(args: argparse.Namespace) -> None:
    figures, rows = Figures(args.only), int(args.rows)
    out = args.data / "scale-out"
    name = f"scale.{rows}x{args.columns}"
    try:
        if args.workers:
            _on_workers(figures, name, args, out)
            return
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


def _on_workers(figures: Figures, name: str, args: argparse.Namespace, out: Path) -> None:
    seconds, critical = {}, {}
    for workers in args.workers:
        with _cluster(workers) as (scheduler, processes):
            before = [_cpu_of(process) for process in processes]
            found = measured_release(args.data, int(args.rows), args.columns, out, scheduler=scheduler)
            spent = [_cpu_of(process) - start for process, start in zip(processes, before, strict=True)]
        making = found["stages"]["making parts"]
        seconds[workers], critical[workers] = making["wall"], max(*spent, making["cpu"])
        figures.show(f"{name}.workers.{workers}.seconds", seconds[workers])
        figures.show(f"{name}.workers.{workers}.critical_cpu_seconds", critical[workers], "here", making["cpu"])
    first, last = min(seconds), max(seconds)
    figures.show(f"{name}.workers.ratio", seconds[first] / seconds[last], "workers", last / first)
    figures.show(f"{name}.workers.critical_ratio", critical[first] / critical[last], "workers", last / first)


def _cpu_of(process: subprocess.Popen[bytes]) -> float:
    import psutil

    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


@contextmanager
def _cluster(workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and so many worker processes of one thread each, on loopback."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "scheduler.json"
        shared = ["--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1"]
        dask = [sys.executable, "-m", "dask"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running = [subprocess.Popen([*dask, "scheduler", "--port", "0", *shared], **quiet)]  # type: ignore[call-overload]
        running += [
            subprocess.Popen([*dask, "worker", *shared, "--no-nanny", "--nthreads", "1"], **quiet)  # type: ignore[call-overload]
            for _ in range(workers)
        ]
        try:
            from distributed import Client

            while not file.exists():
                time.sleep(0.1)
            with Client(scheduler_file=str(file), timeout=60) as client:
                client.wait_for_workers(workers, timeout=60)
                yield client.scheduler.address, running
        finally:
            for process in running:
                process.kill()
                process.wait()
