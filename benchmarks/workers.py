"""Making and writing the parts of a large table on Dask workers, beside what the machine allows two processes to do.

A release of `--rows` is measured and fitted once, in a process of its own; its parts are then made again and again, by
turns, so that what else the machine does falls on all of them:

- **beside**: one process that makes `--share` parts, without Dask, and two such at once. If the second cost the first
  nothing, two would take as long as one. Figures `workers.ceiling.seconds` (2 x one / two, by the clock) and
  `.cpu_seconds` (the same by the CPU seconds of a process: what caches and memory that they share cost it).
- **Dask**: all parts on one worker of one thread, and on two, from a scheduler and workers that were just started; the
  parts come back packed and are written here. Workers load the package for as long as fitting took above, as they do
  in a release, before the clock starts. Figures `workers.<n>.seconds`, `.process_seconds`, the CPU seconds of the
  busiest process (scheduler, workers, or this one), and `.thread_seconds`, of the busiest thread of all, less than
  which no idle cores can take: beside it a worker has a thread that keeps in touch and takes samples, whose CPU grows
  with the clock and not with the work. `workers.ratio.<unit>` is that of one worker over two.

The least of each counts.
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.support.figures import Figures
from benchmarks.support.large import measured_release

METHOD = "understudy.pipelines.methods.privpgd.method"
_ALONE = """
import pickle, sys, time
from pathlib import Path
maker = pickle.loads(Path(sys.argv[1]).read_bytes())
maker.make(0)  # what is loaded at first use
print("ready", flush=True)
sys.stdin.readline()
started, worked = time.perf_counter(), time.process_time()
for number in range(int(sys.argv[2])):
    Path(sys.argv[3], f"{sys.argv[4]}-{number}").write_bytes(maker.make(number).packed)
print(time.perf_counter() - started, time.process_time() - worked, flush=True)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--share", type=int, default=5, help="parts that a process makes beside another")
    parser.add_argument("--repeat", type=int, default=3, help="turns; the least of each counts")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    with tempfile.TemporaryDirectory(dir=args.data) as place:
        maker, out = Path(place) / "maker", Path(place) / "out"
        fitted = measured_release(args.data, int(args.rows), args.columns, out, maker=str(maker))
        fitting = fitted["stages"]["fitting"]["wall"]
        figures.show("workers.fitting.seconds", fitting)
        one, two, dask = [], [], {1: [], 2: []}  # type: ignore[var-annotated]
        for _ in range(args.repeat):
            one.append(_beside(maker, 1, args.share, out))
            two.append(_beside(maker, 2, args.share, out))
            for workers, found in dask.items():
                found.append(_on_workers(maker, workers, fitting, out))
    for place_, unit in enumerate(("seconds", "cpu_seconds")):
        alone, both = min(run[place_] for run in one), min(run[place_] for run in two)
        figures.show(f"workers.ceiling.{unit}", 2 * alone / both, "one", alone)
    for place_, unit in enumerate(("seconds", "process_seconds", "thread_seconds")):
        best = {workers: min(run[place_] for run in found) for workers, found in dask.items()}
        for workers, least in best.items():
            figures.show(f"workers.{workers}.{unit}", least)
        figures.show(f"workers.ratio.{unit}", best[1] / best[2], "wanted", 2)


def _beside(maker: Path, copies: int, parts: int, out: Path) -> tuple[float, float]:
    """Seconds by the clock until the last copy is done, and the CPU seconds of the one that took most."""
    command = [sys.executable, "-c", _ALONE, str(maker), str(parts), str(out)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([*command, str(copy)], **pipes) for copy in range(copies)]  # type: ignore[call-overload]
    for process in running:
        process.stdout.readline()
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [tuple(map(float, process.stdout.readline().split())) for process in running]
    for process in running:
        process.communicate()
    return max(wall for wall, _ in told), max(cpu for _, cpu in told)


def _on_workers(maker: Path, workers: int, fitting: float, out: Path) -> tuple[float, float, float]:
    """Seconds by the clock to make and write all parts, and CPU seconds of the busiest process and thread."""
    from understudy.pipelines.publishing.part_files import FolderOfParts
    from understudy.pipelines.releasing.making import made_in_parts
    from understudy.tasks.engines.dask_making import by_dask

    one = pickle.loads(maker.read_bytes())
    with tempfile.TemporaryDirectory(dir=out) as folder, _cluster(workers) as (scheduler, processes):
        makers = by_dask(scheduler, METHOD)
        time.sleep(fitting)  # which is when a release fits
        watched = [psutil.Process(each.pid) for each in processes] + [psutil.Process()]
        before, started = [_cpu_of_threads(each) for each in watched], time.perf_counter()
        made_in_parts(one, FolderOfParts(Path(folder)), makers)
        seconds = time.perf_counter() - started
        after = [_cpu_of_threads(each) for each in watched]
        spent = [
            {thread: cpu - had.get(thread, 0.0) for thread, cpu in has.items()}
            for has, had in zip(after, before, strict=True)
        ]
    return seconds, max(sum(each.values()) for each in spent), max(max(each.values()) for each in spent)


def _cpu_of_threads(process: psutil.Process) -> dict[int, float]:
    return {thread.id: thread.user_time + thread.system_time for thread in process.threads()}


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
