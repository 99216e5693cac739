"""Streaming rows out of warehouses: PostgreSQL beside another commit, in turns on the same table.

    python -m benchmarks warehouses --data /tmp --against OTHER/.venv/bin/python

`--against` is the interpreter of another checkout (the commit to beat). Both read every row of a table of
`--rows` rows, part by part on two threads, three times in turns; the fastest counts. Figures
`warehouses.postgresql.<columns>.seconds` (with the other's beside it) and `.cpu_seconds` (of the reading process alone:
the server's work is the same for both), for three numbers, four texts, and ten columns of every kind.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from benchmarks.pushdown import _server as postgresql_server
from benchmarks.support.figures import Figures

TABLE = "understudy_streamed"
COLUMNS = {
    "numbers": ["who", "age", "stay"],
    "texts": ["sex", "ward", "payer", "status"],
    "ten": ["who", "sex", "ward", "payer", "status", "age", "stay", "charge", "seen", "at"],
}
_MADE = f"""CREATE TABLE {TABLE} AS SELECT (random() * 1e6)::bigint AS who,
    (ARRAY['F', 'M'])[1 + floor(random() * 2)::int] AS sex, 'ward ' || floor(random() * 8)::int AS ward,
    'payer ' || floor(random() * 5)::int AS payer, 'state ' || floor(random() * 3)::int AS status,
    floor(random() * 110)::int AS age, random() * 60 AS stay, (random() * 10000)::numeric(10, 2) AS charge,
    date '2026-01-01' + floor(random() * 365)::int AS seen,
    timestamptz '2026-01-01' + random() * interval '300 days' AS at FROM generate_series(1, %s)"""
_READER = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
address, table, columns = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
try:
    from understudy.pipelines.sources.databases.postgresql import PostgresSource
    from understudy.pipelines.spec.address import Address
    source = PostgresSource(Address.of(address), table)
except ImportError:  # before modules had rooms
    from understudy.pipelines.sources.postgresql import Database, PostgresSource
    source = PostgresSource(Database(address), table)
parts = source.parts()
next(iter(parts[0].read(columns, 1000)))  # modules are imported before the clock starts
started, worked = time.perf_counter(), time.process_time()
with ThreadPoolExecutor(2) as pool:
    rows = sum(pool.map(lambda part: sum(batch.num_rows for batch in part.read(columns, 262144)), parts))
print(json.dumps([rows, time.perf_counter() - started, time.process_time() - worked]))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--repeat", type=int, default=3, help="turns; the fastest run of each counts")
    parser.add_argument("--against", metavar="PYTHON", help="interpreter of the checkout to compare with")
    parser.add_argument("--postgresql", metavar="URL", help="a server to use instead of one that is started")


def run(args: argparse.Namespace) -> None:
    import psycopg

    figures = Figures(args.only)
    with postgresql_server(args.postgresql) as address, psycopg.connect(address, autocommit=True) as connection:
        connection.execute(_MADE.replace("%s", str(int(args.rows))))
        try:
            connection.execute(f"VACUUM ANALYZE {TABLE}")
            for name, columns in COLUMNS.items():
                _compare(figures, name, columns, address, args)
        finally:
            connection.execute(f"DROP TABLE {TABLE}")


def _compare(figures: Figures, name: str, columns: list[str], address: str, args: argparse.Namespace) -> None:
    if not figures.wants(f"warehouses.postgresql.{name}"):
        return
    ours, theirs = [], []
    for _ in range(args.repeat):
        ours.append(_read(sys.executable, address, columns, int(args.rows)))
        if args.against:
            theirs.append(_read(args.against, address, columns, int(args.rows)))
    for place, unit in enumerate(("seconds", "cpu_seconds")):
        here = min(run[place] for run in ours)
        there = min((run[place] for run in theirs), default=None)
        beside = () if there is None else ("the other", there)
        figures.show(f"warehouses.postgresql.{name}.{unit}", here, *beside)
        if there is not None:
            figures.show(f"warehouses.postgresql.{name}.{unit}.ratio", there / here)


def _read(python: str, address: str, columns: list[str], rows: int) -> tuple[float, float]:
    """Wall and processor seconds of one reading, in a process of its own."""
    command = [python, "-c", _READER, address.replace("postgres:@", "postgres@"), TABLE, json.dumps(columns)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ}, cwd="/")
    found, wall, cpu = json.loads(answer.stdout.splitlines()[-1])
    if found != rows:
        raise AssertionError(f"{found} rows of {rows} were read")
    return wall, cpu
