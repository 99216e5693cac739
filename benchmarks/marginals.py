"""All two-way marginals of a table of codes in Parquet: this package beside other ways to count them.

Every contestant runs in a process of its own, on the same files (in the page cache), and is timed from opening
the files to holding every count; imports, compilation and start-up are left out. All must agree to the last
count. Peers that are not installed are skipped: `pip install polars mbi` in an environment of your choice. Every
contestant runs `--repeat` times and its fastest run counts; a peer that needs more than three times as long as the
fastest peer before it is not run again.

The yardstick, `reading`: for each marginal, stream its two columns of codes once from memory, whole (no blocks that
stay in cache), in the type of the codes, eight bytes at a time, in as many threads as we count with. That is the least
any method that goes marginal by marginal can take. It is compared with counting from Parquet and with counting codes
that are in memory already.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.figures import Figures
from understudy.pipelines.domain import DomainColumn, TableDomain
from understudy.pipelines.encoding import EncodedBatch
from understudy.pipelines.marginals.counting import LocalTable, count_marginals, usable_cores
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS
from understudy.pipelines.sources.parquet import ParquetSource

FILE_ROWS = 1_000_000
ENTITY_ROWS = 3
Counting = Callable[[], list[np.ndarray]]


@dataclass(frozen=True)
class Setting:
    path: Path
    columns: int
    codes: int
    threads: int | None = None
    cap: int | None = None

    @property
    def names(self) -> list[str]:
        return [f"c{i}" for i in range(self.columns)]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.columns), 2))


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
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--repeat", type=int, default=2, help="runs of each contestant; the fastest counts")
    parser.add_argument("--bounded", action="store_true", help="also with at most 2 rows an entity (no peer)")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    for rows in map(int, args.rows):
        if figures.wants(f"marginals.{rows}"):
            with tempfile.TemporaryDirectory() as place:
                write_table(Path(place), rows, args.columns, args.codes, entity=args.bounded)
                _compare(figures, rows, Setting(Path(place), args.columns, args.codes), args)


def _compare(figures: Figures, rows: int, setting: Setting, args: argparse.Namespace) -> None:
    name = f"marginals.{rows}"
    ours = _best("understudy", setting, args.repeat)
    peers = _run_peers([peer for peer in args.peers if find_spec(MODULES[peer])], setting, args.repeat)
    memory = _best("understudy-memory", setting, args.repeat)
    wrong = [each for each, outcome in {**peers, "memory": memory}.items() if outcome.digest != ours.digest]
    if wrong:
        raise AssertionError(f"counts differ from {', '.join(wrong)}")
    fastest = min(peers, key=lambda peer: peers[peer].seconds, default=None)
    figures.show(f"{name}.seconds", ours.seconds, fastest, peers[fastest].seconds if fastest else None)
    figures.show(f"{name}.peak_mb", ours.peak_mb, fastest, peers[fastest].peak_mb if fastest else None)
    figures.show(f"{name}.cpu_seconds", ours.cpu_seconds, fastest, peers[fastest].cpu_seconds if fastest else None)
    for peer, outcome in peers.items():
        figures.show(f"{name}.peers.{peer}.seconds", ours.seconds, peer, outcome.seconds)
    reading = _best("reading", setting, args.repeat)
    for source, outcome in (("parquet", ours), ("memory", memory)):
        figures.show(f"{name}.from_{source}.seconds", outcome.seconds, "reading", reading.seconds)
        figures.show(f"{name}.from_{source}.cpu_seconds", outcome.cpu_seconds, "reading", reading.cpu_seconds)
    for threads in range(1, usable_cores() + 1):
        outcome = _best("understudy", replace(setting, threads=threads), args.repeat)
        figures.show(f"{name}.threads.{threads}.seconds", outcome.seconds)
    if args.bounded:
        outcome = _best("understudy", replace(setting, cap=2), args.repeat)
        figures.show(f"{name}.bounded_seconds", outcome.seconds)
        figures.show(f"{name}.bounded_peak_mb", outcome.peak_mb)


def _run_peers(names: list[str], setting: Setting, repeat: int) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for name in names:
        found[name] = _alone(_timed, name, setting)
        if repeat > 1 and found[name].seconds <= 3 * min(outcome.seconds for outcome in found.values()):
            again = _best(name, setting, repeat - 1)
            found[name] = min(found[name], again, key=lambda outcome: outcome.seconds)
    return found


def write_table(place: Path, rows: int, columns: int, codes: int, entity: bool = False) -> None:
    """Dependent, skewed codes as uint8 (uint16 above 256), a million rows a file, four row groups a file."""
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        rng = np.random.default_rng(number)
        count = min(FILE_ROWS, rows - start)
        shared = rng.beta(1.2, 2.5, count).astype(np.float32)
        arrays = []
        for column in range(columns):
            own = rng.random(count, np.float32) ** (1 + column % 4)
            code_type = np.uint8 if codes <= 256 else np.uint16
            arrays.append(np.minimum((0.6 * shared + 0.4 * own) * codes, codes - 1).astype(code_type))
        table = pa.table(arrays, names=[f"c{i}" for i in range(columns)])
        if entity:
            table = table.append_column("who", pa.array(rng.integers(0, max(rows // ENTITY_ROWS, 1), count)))
        pq.write_table(table, place / f"{number:05d}.parquet", row_group_size=FILE_ROWS // 4)


def _best(contestant: str, setting: Setting, repeat: int) -> Outcome:
    outcomes = [_alone(_timed, contestant, setting) for _ in range(repeat)]
    return min(outcomes, key=lambda outcome: outcome.seconds)


def _alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """What the work returns in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def _timed(contestant: str, setting: Setting) -> Outcome:
    prepare = CONTESTANTS[contestant]
    with tempfile.TemporaryDirectory() as place:  # compiles and imports what the real run needs
        write_table(Path(place), 1000, setting.columns, setting.codes, entity=True)
        prepare(replace(setting, path=Path(place)))()
    count = prepare(setting)
    wall, cpu = time.perf_counter(), time.process_time()
    counts = count()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    digest = hashlib.sha256(b"".join(np.asarray(table, np.int64).tobytes() for table in counts)).hexdigest()
    return Outcome(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, digest)


def _understudy(setting: Setting) -> list[np.ndarray]:
    edges = tuple(range(setting.codes + 1))
    columns = tuple(
        DomainColumn(name, "integer", (), edges, has_other=False, nullable=False, ordered=True)
        for name in setting.names
    )
    unit = Unit("who", setting.cap) if setting.cap else Unit()
    table = LocalTable(ParquetSource(setting.path), TableDomain(columns), unit, b"benchmark", threads=setting.threads)
    return table.counts(setting.pairs)


def _understudy_memory(setting: Setting) -> Counting:
    """Codes are in memory before the clock starts."""
    columns = _columns(setting)
    rows = len(columns[0])
    batches = [
        EncodedBatch(tuple(column[start : start + BATCH_ROWS] for column in columns), min(BATCH_ROWS, rows - start))
        for start in range(0, rows, BATCH_ROWS)
    ]
    return lambda: count_marginals(batches, [setting.codes] * setting.columns, setting.pairs)


def _reading(setting: Setting) -> Counting:
    """Counts nothing: the largest word of each column of each marginal is as fast as memory can be read."""
    words = [column[: len(column) // 8 * 8].view(np.uint64) for column in _columns(setting)]

    def read() -> list[np.ndarray]:
        with ThreadPoolExecutor(setting.threads or usable_cores()) as pool:
            list(pool.map(lambda pair: (words[pair[0]].max(), words[pair[1]].max()), setting.pairs))
        return []

    return read


def _columns(setting: Setting) -> list[np.ndarray]:
    table = pq.read_table(setting.path, columns=setting.names)
    return [table.column(name).to_numpy() for name in setting.names]


def _dense(setting: Setting, first: np.ndarray, second: np.ndarray, counts: np.ndarray) -> np.ndarray:
    table = np.zeros((setting.codes, setting.codes), np.int64)
    table[first, second] = counts
    return table


def _duckdb(setting: Setting) -> list[np.ndarray]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"CREATE TABLE t AS SELECT {', '.join(setting.names)} FROM '{setting.path}/*.parquet'")
        found = []
        for a, b in setting.pairs:
            grouped = connection.execute(f"SELECT c{a}, c{b}, count(*) AS n FROM t GROUP BY ALL").fetchnumpy()
            found.append(_dense(setting, grouped[f"c{a}"], grouped[f"c{b}"], grouped["n"]))
        return found


def _duckdb_grouping_sets(setting: Setting) -> list[np.ndarray]:
    import duckdb

    names = ", ".join(setting.names)
    sets = ", ".join(f"(c{a}, c{b})" for a, b in setting.pairs)
    query = f"SELECT {names}, count(*) AS n FROM '{setting.path}/*.parquet' GROUP BY GROUPING SETS ({sets})"
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        grouped = connection.execute(query).fetchnumpy()
    present = {name: ~np.ma.getmaskarray(grouped[name]) for name in setting.names}
    found = []
    for a, b in setting.pairs:
        rows = present[f"c{a}"] & present[f"c{b}"]
        values = [np.ma.getdata(grouped[name])[rows] for name in (f"c{a}", f"c{b}", "n")]
        found.append(_dense(setting, *values))
    return found


def _polars(setting: Setting) -> list[np.ndarray]:
    import polars as pl

    table = pl.read_parquet(f"{setting.path}/*.parquet", columns=setting.names).lazy()
    queries = [table.group_by(f"c{a}", f"c{b}").len() for a, b in setting.pairs]
    return [_dense(setting, *(grouped[:, i].to_numpy() for i in range(3))) for grouped in pl.collect_all(queries)]


def _pandas(setting: Setting) -> list[np.ndarray]:
    table = pq.read_table(setting.path, columns=setting.names).to_pandas()
    found = []
    for a, b in setting.pairs:
        grouped = table.groupby([f"c{a}", f"c{b}"]).size()
        first, second = (grouped.index.get_level_values(i).to_numpy() for i in range(2))
        found.append(_dense(setting, first, second, grouped.to_numpy()))
    return found


def _numpy(setting: Setting) -> list[np.ndarray]:
    """One bincount a marginal, threads over marginals: what a careful user writes by hand."""
    columns = _columns(setting)

    def count(pair: tuple[int, int]) -> np.ndarray:
        cells = columns[pair[0]].astype(np.int64) * setting.codes + columns[pair[1]]
        return np.bincount(cells, minlength=setting.codes**2)

    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(count, setting.pairs))


def _mbi(setting: Setting) -> list[np.ndarray]:
    from mbi import Dataset, Domain

    domain = Domain(setting.names, [setting.codes] * setting.columns)
    data = Dataset(dict(zip(setting.names, _columns(setting), strict=True)), domain)
    return [np.rint(np.asarray(data.project((f"c{a}", f"c{b}")).datavector())) for a, b in setting.pairs]


PEERS: dict[str, Callable[[Setting], list[np.ndarray]]] = {
    "numpy": _numpy,
    "duckdb": _duckdb,
    "polars": _polars,
    "mbi": _mbi,
    "duckdb-grouping-sets": _duckdb_grouping_sets,
    "pandas": _pandas,
}
MODULES = {
    "numpy": "numpy",
    "duckdb": "duckdb",
    "polars": "polars",
    "mbi": "mbi",
    "duckdb-grouping-sets": "duckdb",
    "pandas": "pandas",
}
CONTESTANTS: dict[str, Callable[[Setting], Counting]] = {
    **{name: partial(partial, count) for name, count in {**PEERS, "understudy": _understudy}.items()},
    "understudy-memory": _understudy_memory,
    "reading": _reading,
}
"""What is done before the clock starts, for each; it returns what is timed."""
