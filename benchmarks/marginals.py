"""All two-way marginals of a table in Parquet, of whole numbers or texts: this package beside other ways to count them.

Every contestant runs in a process of its own, on the same files (in the page cache), and is timed from opening
the files to holding every count; imports, compilation and start-up are left out. All must agree to the last
count. Peers that are not installed are skipped: `pip install polars mbi` in an environment of your choice. Every
peer runs once; then the two fastest of them, this package and the yardstick take turns `--repeat` times, and the
fastest run of each counts.

The yardstick, `reading`: for each marginal, stream its two columns of codes once from memory, whole (no blocks that
stay in cache), in the type of the codes, eight bytes at a time, in as many threads as we count with. Marginals are
visited in rounds in which no column occurs twice, so that a column has left the cache when it is needed again: it comes
from memory each time. `reading-cached` visits them in their own order instead, in which one column of two is still
in the third-level cache. That is the least any method that goes marginal by marginal can take. Both are compared with
counting from Parquet and with counting codes that are in memory already.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.counting_peers import MODULES, PEERS, Setting, columns_of
from benchmarks.support.figures import Figures
from understudy.pipelines.counting.counting import LocalTable, count_marginals, usable_cores
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.table.coding.encode import EncodedBatch, encode
from understudy.pipelines.table.columns import DomainColumn, Kind
from understudy.pipelines.table.domain import TableDomain

FILE_ROWS = 1_000_000
ENTITY_ROWS = 3
VALUES = ["integers", "text"]
Counting = Callable[[], list[np.ndarray]]


@dataclass(frozen=True)
class Outcome:
    seconds: float
    cpu_seconds: float
    peak_mb: float
    digest: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7], help="table sizes")
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--codes", type=int, default=32, help="codes a column")
    parser.add_argument("--values", nargs="+", default=VALUES, choices=VALUES, help="what the table holds")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--repeat", type=int, default=3, help="turns; the fastest run counts")
    parser.add_argument("--workers", type=int, nargs="*", default=[], help="also on so many Dask worker processes")
    parser.add_argument("--bounded", action="store_true", help="also with at most 2 rows an entity (no peer)")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    for rows, values in product(map(int, args.rows), args.values):
        name = f"marginals.{rows}.{values}"
        if figures.wants(name):
            with tempfile.TemporaryDirectory() as place:
                setting = Setting(Path(place), args.columns, args.codes, texts=values == "text")
                write_table(setting, rows, entity=args.bounded)
                _compare(figures, name, setting, args)


def _compare(figures: Figures, name: str, setting: Setting, args: argparse.Namespace) -> None:
    peers = {peer: _alone(_timed, peer, setting) for peer in args.peers if find_spec(MODULES[peer])}
    leaders = sorted(peers, key=lambda peer: peers[peer].seconds)[:2]
    best = _in_turns(["understudy", "understudy-memory", "reading", "reading-cached", *leaders], setting, args.repeat)
    ours, memory, reading = best["understudy"], best["understudy-memory"], best["reading"]
    peers |= {peer: min(peers[peer], best[peer], key=lambda outcome: outcome.seconds) for peer in leaders}
    wrong = [each for each, outcome in {**peers, "memory": memory}.items() if outcome.digest != ours.digest]
    if wrong:
        raise AssertionError(f"counts differ from {', '.join(wrong)}")
    fastest = min(peers, key=lambda peer: peers[peer].seconds, default=None)
    figures.show(f"{name}.seconds", ours.seconds, fastest, peers[fastest].seconds if fastest else None)
    if fastest:
        figures.show(f"{name}.times_as_fast", peers[fastest].seconds / ours.seconds, fastest)
        figures.show(f"{name}.times_less_cpu", peers[fastest].cpu_seconds / ours.cpu_seconds, fastest)
    figures.show(f"{name}.peak_mb", ours.peak_mb, fastest, peers[fastest].peak_mb if fastest else None)
    figures.show(f"{name}.cpu_seconds", ours.cpu_seconds, fastest, peers[fastest].cpu_seconds if fastest else None)
    for peer, outcome in peers.items():
        figures.show(f"{name}.peers.{peer}.seconds", ours.seconds, peer, outcome.seconds)
    for source, outcome in (("parquet", ours), ("memory", memory)):
        figures.show(f"{name}.from_{source}.seconds", outcome.seconds, "reading", reading.seconds)
        figures.show(f"{name}.from_{source}.cpu_seconds", outcome.cpu_seconds, "reading", reading.cpu_seconds)
        cached = best["reading-cached"].cpu_seconds
        figures.show(f"{name}.from_{source}.cpu_seconds_cached", outcome.cpu_seconds, "reading-cached", cached)
    encoding = _best("understudy-encoding", setting, args.repeat)
    figures.show(f"{name}.encoding.cpu_seconds", encoding.cpu_seconds)
    for threads in range(1, usable_cores() + 1):
        outcome = _best("understudy", replace(setting, threads=threads), args.repeat)
        figures.show(f"{name}.threads.{threads}.seconds", outcome.seconds)
    for workers in args.workers:
        outcome = _best("understudy-dask", replace(setting, workers=workers), args.repeat)
        figures.show(f"{name}.dask_workers.{workers}.seconds", outcome.seconds)
        if outcome.digest != ours.digest:
            raise AssertionError("counts on Dask differ")
    if args.bounded:
        outcome = _best("understudy", replace(setting, cap=2), args.repeat)
        figures.show(f"{name}.bounded_seconds", outcome.seconds)
        figures.show(f"{name}.bounded_peak_mb", outcome.peak_mb)


def _in_turns(names: list[str], setting: Setting, repeat: int) -> dict[str, Outcome]:
    """The fastest run of each. They take turns, so that what else the machine does meets all of them alike."""
    runs = [{name: _alone(_timed, name, setting) for name in names} for _ in range(repeat)]
    return {name: min((run[name] for run in runs), key=lambda outcome: outcome.seconds) for name in names}


def write_table(setting: Setting, rows: int, entity: bool = False) -> None:
    """Dependent, skewed codes as uint8 (uint16 above 256) or texts, a million rows a file, four row groups a file."""
    words = pa.array(setting.words)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        rng = np.random.default_rng(number)
        count = min(FILE_ROWS, rows - start)
        shared = rng.beta(1.2, 2.5, count).astype(np.float32)
        arrays = []
        for column in range(setting.columns):
            own = rng.random(count, np.float32) ** (1 + column % 4)
            codes = np.minimum((0.6 * shared + 0.4 * own) * setting.codes, setting.codes - 1).astype(setting.code_type)
            arrays.append(words.take(pa.array(codes)) if setting.texts else pa.array(codes))
        table = pa.table(arrays, names=setting.names)
        if entity:
            table = table.append_column("who", pa.array(rng.integers(0, max(rows // ENTITY_ROWS, 1), count)))
        pq.write_table(table, setting.path / f"{number:05d}.parquet", row_group_size=FILE_ROWS // 4)


def _best(contestant: str, setting: Setting, repeat: int) -> Outcome:
    outcomes = [_alone(_timed, contestant, setting) for _ in range(repeat)]
    return min(outcomes, key=lambda outcome: outcome.seconds)


def _alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """What the work returns in a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _timed(contestant: str, setting: Setting) -> Outcome:
    prepare = CONTESTANTS[contestant]
    with tempfile.TemporaryDirectory() as place:  # compiles and imports what the real run needs
        small = replace(setting, path=Path(place))
        write_table(small, 1000, entity=True)
        prepare(small)()
    count = prepare(setting)
    wall, cpu = time.perf_counter(), time.process_time()
    counts = count()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if setting.workers:
        _cluster(setting.workers).close()
    digest = hashlib.sha256(b"".join(np.asarray(table, np.int64).tobytes() for table in counts)).hexdigest()
    return Outcome(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, digest)


def _understudy(setting: Setting) -> list[np.ndarray]:
    domain, unit = _declared(setting)
    table = LocalTable(ParquetSource(setting.path), domain, unit, b"benchmark", threads=setting.threads)
    return table.counts(setting.pairs)


def _understudy_dask(setting: Setting) -> list[np.ndarray]:
    """Workers are processes of one thread each; the tree of sums and the wire are part of the time."""
    from understudy.tasks.engines.dask_counting import DaskTable

    domain, unit = _declared(setting)
    scheduler = str(_cluster(setting.workers or 1).scheduler_address)
    return DaskTable(ParquetSource(setting.path), domain, unit, b"benchmark", scheduler).counts(setting.pairs)


@cache
def _cluster(workers: int) -> Any:
    """One cluster a process, with everything compiled in every worker; `_timed` closes it."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    with Client(cluster) as client:
        client.run(_warm_up)
    return cluster


def _warm_up() -> None:
    for texts in (False, True):
        with tempfile.TemporaryDirectory() as place:
            setting = Setting(Path(place), 3, 32, texts)
            write_table(setting, 1000)
            _understudy(setting)


def _declared(setting: Setting) -> tuple[TableDomain, Unit]:
    kind: Kind = "category" if setting.texts else "integer"
    words = tuple(setting.words) if setting.texts else ()
    edges = () if setting.texts else tuple(range(setting.codes + 1))
    columns = tuple(
        DomainColumn(name, kind, words, edges, has_other=False, nullable=False, ordered=not setting.texts)
        for name in setting.names
    )
    return TableDomain(columns), Unit("who", setting.cap) if setting.cap else Unit()


def _understudy_encoding(setting: Setting) -> Counting:
    """Values are in memory as the source sends them before the clock starts; one thread makes codes of them."""
    domain, _ = _declared(setting)
    batches = list(ParquetSource(setting.path).read(domain.names))

    def encoded() -> list[np.ndarray]:
        for batch in batches:
            encode(batch, domain)
        return []

    return encoded


def _understudy_memory(setting: Setting) -> Counting:
    """Codes are in memory before the clock starts."""
    columns = columns_of(setting)
    rows = len(columns[0])
    batches = [
        EncodedBatch(tuple(column[start : start + BATCH_ROWS] for column in columns), min(BATCH_ROWS, rows - start))
        for start in range(0, rows, BATCH_ROWS)
    ]
    return lambda: count_marginals(batches, [setting.codes] * setting.columns, setting.pairs)


def _reading(setting: Setting, cached: bool = False) -> Counting:
    """Counts nothing: the largest word of each column of each marginal is as fast as memory can be read."""
    order = setting.pairs if cached else _rounds(setting.columns)
    words = [column[: len(column) // 8 * 8].view(np.uint64) for column in columns_of(setting)]

    def read() -> list[np.ndarray]:
        with ThreadPoolExecutor(setting.threads or usable_cores()) as pool:
            list(pool.map(lambda pair: (words[pair[0]].max(), words[pair[1]].max()), order))
        return []

    return read


def _rounds(columns: int) -> list[tuple[int, int]]:
    """All pairs by the circle method: in each round every column meets another, and none occurs twice."""
    seats: list[int | None] = [*range(columns), *([None] if columns % 2 else [])]
    found = []
    for _ in range(len(seats) - 1):
        for i in range(len(seats) // 2):
            one, other = seats[i], seats[-1 - i]
            if one is not None and other is not None:
                found.append((one, other))
        seats.insert(1, seats.pop())
    return found


_OURS = {"understudy": _understudy, "understudy-dask": _understudy_dask}
CONTESTANTS: dict[str, Callable[[Setting], Counting]] = {
    **{name: partial(partial, count) for name, count in {**PEERS, **_OURS}.items()},
    "understudy-memory": _understudy_memory,
    "understudy-encoding": _understudy_encoding,
    "reading": _reading,
    "reading-cached": partial(_reading, cached=True),
}
"""What is done before the clock starts, for each; it returns what is timed."""
