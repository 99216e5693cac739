"""Streaming rows out of warehouses: PostgreSQL beside another commit, in turns on the same table.

    python -m benchmarks warehouses --data /tmp --against OTHER/.venv/bin/python

`--against` is the interpreter of another checkout (the commit to beat). Both read every row of a table of
`--rows` rows, part by part on two threads, three times in turns; the fastest counts. Figures
`warehouses.postgresql.<columns>.seconds` (with the other's beside it), `.cpu_seconds` of the reading process,
`.server_cpu_seconds` and `.both_cpu_seconds` of the two together (half of which is what two idle cores would take),
for three numbers, four texts, and ten columns of every kind. Beside them `.floor_cpu_seconds`: of the server and of
psql that COPY the same columns as text to nowhere, so that no value is looked at.

    python -m benchmarks warehouses --data /tmp --only warehouses.mariadb --rows 1e7

Counts a MariaDB table (a number, a category and an entity of which three rows are kept) by streaming it, in a process
of its own: `warehouses.mariadb.seconds`, and `.peak_mb`, the most memory that the process ever had. The server is one
of the installed MariaDB, in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import psutil

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
    if figures.wants("warehouses.mariadb"):
        _mariadb(figures, int(args.rows))
    if not figures.wants("warehouses.postgresql"):
        return
    with postgresql_server(args.postgresql) as address, psycopg.connect(address, autocommit=True) as connection:
        server = psutil.Process(connection.info.backend_pid).parent()
        connection.execute(_MADE.replace("%s", str(int(args.rows))))
        try:
            connection.execute(f"VACUUM ANALYZE {TABLE}")
            for name, columns in COLUMNS.items():
                _compare(figures, name, columns, address, server, args)
        finally:
            connection.execute(f"DROP TABLE {TABLE}")


_COUNTER = """
import json, resource, sys, time
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.databases.mysql_table import MySqlSource
from understudy.pipelines.spec.address import Address
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
ward = DomainColumn("ward", "category", tuple(f"ward {i}" for i in range(8)), (), False, False, False)
age = DomainColumn("age", "integer", (), tuple(range(0, 121, 10)), False, False, True)
source = MySqlSource(Address.of(sys.argv[1]), "t")
started = time.perf_counter()
table = LocalTable(source, TableDomain((ward, age)), Unit("who", 3), b"key")
(counts,) = table.counts([(0, 1)])
source.close()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([int(counts.sum()), time.perf_counter() - started, peak]))
"""


def _mariadb(figures: Figures, rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="um-", dir="/tmp") as place:
        socket, user = f"{place}/s", [] if os.geteuid() else ["--user=root"]
        installed = ["mariadb-install-db", "--no-defaults", f"--datadir={place}/data", "--skip-test-db", *user]
        subprocess.run([*installed, "--auth-root-authentication-method=normal"], check=True, capture_output=True)
        server = subprocess.Popen(
            ["mariadbd", "--no-defaults", f"--datadir={place}/data", f"--socket={socket}", "--skip-networking",
             f"--pid-file={place}/pid", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=256M", *user],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            client = ["mariadb", "--no-defaults", f"--socket={socket}", "--user=root"]
            while subprocess.run([*client, "-e", "SELECT 1"], check=False, capture_output=True).returncode:
                time.sleep(0.2)
            made = (
                "CREATE DATABASE w; CREATE TABLE w.t (who BIGINT, ward VARCHAR(10), age INT);"
                f" INSERT INTO w.t SELECT seq % {max(rows // 4, 1)}, CONCAT('ward ', seq % 8), seq * 7 % 110"
                f" FROM seq_1_to_{rows}"
            )
            subprocess.run([*client, "mysql", "-e", made], check=True, capture_output=True)
            address = f"mysql://root@localhost/w?unix_socket={socket}"
            command = [sys.executable, "-c", _COUNTER, address]
            answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/")
            _, seconds, peak = json.loads(answer.stdout.splitlines()[-1])
            figures.show("warehouses.mariadb.seconds", seconds)
            figures.show("warehouses.mariadb.peak_mb", peak)
        finally:
            server.terminate()
            server.wait(60)


@dataclass(frozen=True)
class Reading:
    """Of one way to read all rows: by the clock, and CPU seconds of who reads and of the server."""

    seconds: float
    cpu_seconds: float
    server_cpu_seconds: float

    @property
    def both_cpu_seconds(self) -> float:
        return self.cpu_seconds + self.server_cpu_seconds


UNITS = ("seconds", "cpu_seconds", "server_cpu_seconds", "both_cpu_seconds")


def _compare(
    figures: Figures, name: str, columns: list[str], address: str, server: psutil.Process, args: argparse.Namespace
) -> None:
    if not figures.wants(f"warehouses.postgresql.{name}"):
        return
    ours, theirs, floors = [], [], []
    for _ in range(args.repeat):
        ours.append(_read(sys.executable, address, columns, int(args.rows), server))
        if args.against:
            theirs.append(_read(args.against, address, columns, int(args.rows), server))
        floors.append(_copied(address, columns, server))
    for unit in UNITS:
        here = min(getattr(run, unit) for run in ours)
        there = min((getattr(run, unit) for run in theirs), default=None)
        beside = () if there is None else ("the other", there)
        figures.show(f"warehouses.postgresql.{name}.{unit}", here, *beside)
        if there is not None:
            figures.show(f"warehouses.postgresql.{name}.{unit}.ratio", there / here)
    floor = min(each.both_cpu_seconds for each in floors)
    figures.show(f"warehouses.postgresql.{name}.floor_cpu_seconds", floor)
    if theirs:
        figures.show(
            f"warehouses.postgresql.{name}.floor_cpu_seconds.ratio",
            min(each.both_cpu_seconds for each in theirs) / floor,
        )


def _read(python: str, address: str, columns: list[str], rows: int, server: psutil.Process) -> Reading:
    """One reading, in a process of its own."""
    command = [python, "-c", _READER, _plain(address), TABLE, json.dumps(columns)]
    before = _served(server)
    answer = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ}, cwd="/")
    found, wall, cpu = json.loads(answer.stdout.splitlines()[-1])
    if found != rows:
        raise AssertionError(f"{found} rows of {rows} were read")
    return Reading(wall, cpu, _served(server) - before)


def _copied(address: str, columns: list[str], server: psutil.Process) -> Reading:
    """The same columns as text to nowhere, by psql."""
    before, spent, started = _served(server), os.times(), time.perf_counter()
    asked = f"COPY {TABLE} ({', '.join(columns)}) TO STDOUT"
    subprocess.run(["psql", "-X", "-q", "-c", asked, _plain(address)], check=True, stdout=subprocess.DEVNULL)
    wall, now = time.perf_counter() - started, os.times()
    cpu = now.children_user + now.children_system - spent.children_user - spent.children_system
    return Reading(wall, cpu, _served(server) - before)


def _plain(address: str) -> str:
    return address.replace("postgres:@", "postgres@")


def _served(server: psutil.Process) -> float:
    """CPU seconds of all connections that have ended."""
    time.sleep(0.3)  # until the last of them has
    times = server.cpu_times()
    return float(times.children_user + times.children_system)
