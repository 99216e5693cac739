"""A real MariaDB for tests, where one is installed: once a session, on a socket under a temporary directory."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest


@functools.cache
def server() -> str | None:
    """The socket of the session's server; None where MariaDB is not installed."""
    if shutil.which("mariadbd") is None or shutil.which("mariadb-install-db") is None:
        return None
    place = Path(tempfile.mkdtemp(prefix="um-", dir="/tmp"))  # paths of sockets are short
    user = [] if os.geteuid() else ["--user=root"]
    subprocess.run(
        ["mariadb-install-db", "--no-defaults", f"--datadir={place}/data", "--auth-root-authentication-method=normal",
         "--skip-test-db", *user],
        check=True, capture_output=True,
    )  # fmt: skip
    socket = f"{place}/s"
    running = subprocess.Popen(
        ["mariadbd", "--no-defaults", f"--datadir={place}/data", f"--socket={socket}", "--skip-networking",
         f"--pid-file={place}/pid", "--innodb-buffer-pool-size=64M", "--collation-server=utf8mb4_general_ci",
         "--character-set-server=utf8mb4", *user],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def stop() -> None:
        running.terminate()
        running.wait(30)
        shutil.rmtree(place, ignore_errors=True)

    atexit.register(stop)
    ping = ["mariadb-admin", "--no-defaults", f"--socket={socket}", "--user=root", "ping"]
    while subprocess.run(ping, check=False, capture_output=True).returncode:
        assert running.poll() is None
        time.sleep(0.1)
    return socket


@dataclass(frozen=True)
class MariaDB:
    """A database of its own; `uri` is what a spec may say."""

    socket: str
    name: str

    @property
    def uri(self) -> str:
        return f"mysql://root@localhost/{self.name}?unix_socket={self.socket}"

    def connect(self) -> pymysql.Connection[Any]:
        return pymysql.connect(
            unix_socket=self.socket, user="root", database=self.name, charset="utf8mb4", autocommit=True
        )

    def execute(self, *statements: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            with self.connect() as connection, connection.cursor() as cursor:
                holes = ", ".join(["%s"] * len(rows[0]))
                cursor.executemany(f"INSERT INTO {table} VALUES ({holes})", rows)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())


def new_mariadb() -> MariaDB:
    socket = server()
    if socket is None:
        pytest.skip("MariaDB is not installed here: nothing about it was tested")
    name = f"t_{uuid.uuid4().hex[:16]}"
    with pymysql.connect(unix_socket=socket, user="root", autocommit=True) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    return MariaDB(socket, name)


@pytest.fixture
def mariadb() -> Iterator[MariaDB]:
    made = new_mariadb()
    yield made
    with pymysql.connect(unix_socket=made.socket, user="root", autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", [made.name])
        for (number,) in cursor.fetchall():  # of sources that a traceback still holds
            cursor.execute(f"KILL {number}")
        cursor.execute(f"DROP DATABASE {made.name}")
