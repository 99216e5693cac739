"""A Prefect server for one command, where the user has none: owned by the command, gone when the command is gone.

Prefect's own temporary server outlives a command that is killed, shares Ctrl-C with it and shares one SQLite file with
its neighbours. This one hangs on a pipe (`serving`), has a session of its own, listens on a socket that was
bound before it started, so that nobody can be faster, and works on a copy of the home's database in a scratch folder of
its own. The copy spares it the migrations; nothing of a run is worth keeping, since the ledger is what remembers.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.privacy.ledger.staging import lock, remove_abandoned

STARTUP_SECONDS = 120
SHUTDOWN_SECONDS = 5
DATABASE = "prefect.db"
RUNNING = "running-"


class TemporaryServer:
    """Starts at once and in the background; `wait` returns when it answers. Closed at exit."""

    def __init__(self, folder: Path, staged_in: Sequence[Path] = ()) -> None:
        """`staged_in`: where the command stages what it writes, to be tidied if it is killed."""
        self._kept = folder / DATABASE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            remove_abandoned(folder, RUNNING)
            self.scratch = folder / f"{RUNNING}{uuid.uuid4().hex}"
            self.scratch.mkdir(mode=0o700)
            # Before anything is in it, and handed to the server: another command would take it for left.
            locked = lock(self.scratch)
            try:
                self._known = _copied(self._kept, self.scratch / DATABASE)
                started = _started(self.scratch, staged_in, self._known is not None, locked)
            finally:
                os.close(locked)
            self._process, self._lifeline, self.url = started
        except OSError as error:
            raise UnderstudyError(
                f"no temporary Prefect server can be started in {folder}: {error.strerror}",
                "make room or permissions there, name another --home, or set PREFECT_API_URL to a server of your own",
            ) from None
        atexit.register(self.close)

    def wait(self) -> None:
        """Connections queue in the socket until the server takes them, so one request is all the waiting."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"{self.url}/health", timeout=STARTUP_SECONDS) as answer:
                healthy = answer.status == 200
        except (OSError, urllib.error.URLError):
            healthy = False
        if not healthy:
            self.close()
            raise UnderstudyError(
                "the temporary Prefect server did not start",
                f"see that there is memory and room in {self._kept.parent} (UNDERSTUDY_DEBUG=1 shows what it says), or "
                "start `prefect server start` yourself and set PREFECT_API_URL",
            )
        self._keep_database()

    def close(self) -> None:
        """Also when it never came up. The server removes its own files; whatever it cannot is removed here."""
        atexit.unregister(self.close)
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        try:
            self._process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _keep_database(self) -> None:
        """The migrated database, before any run is in it, for the servers after this one."""
        if self._known == _schema_version(self.scratch / DATABASE):
            return
        fresh = self.scratch / "kept.db"
        if _copied(self.scratch / DATABASE, fresh) is not None:
            fresh.replace(self._kept)


def _started(
    scratch: Path, staged_in: Sequence[Path], has_blocks: bool, locked: int
) -> tuple[subprocess.Popen[bytes], int, str]:
    """`locked` keeps the scratch folder locked as long as the server has it, which is until it ends."""
    environment = os.environ | {
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{scratch / DATABASE}",
        "PREFECT_API_BLOCKS_REGISTER_ON_START": "0" if has_blocks else "1",
        "PREFECT_MEMOIZE_BLOCK_AUTO_REGISTRATION": "0",  # what is remembered would be of another run's database
    }
    read_end, write_end = os.pipe()
    try:
        with closing(socket.create_server(("127.0.0.1", 0))) as listening:
            process = subprocess.Popen(  # noqa: S603  this interpreter, this package
                [sys.executable, "-m", "understudy.cli.serving", str(listening.fileno()), str(read_end), str(scratch),
                 *(str(folder) for folder in staged_in)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("UNDERSTUDY_DEBUG") else subprocess.DEVNULL,
                pass_fds=(listening.fileno(), read_end, locked),
                start_new_session=True,
            )  # fmt: skip
            return process, write_end, f"http://127.0.0.1:{listening.getsockname()[1]}/api"
    except OSError:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)


def _copied(source: Path, target: Path) -> str | None:
    """SQLite's own copy, which sees what is still in the write-ahead log. The schema's version, if there is one."""
    if (version := _schema_version(source)) is None:
        return None
    try:
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
    except sqlite3.Error:
        target.unlink(missing_ok=True)
        return None
    return version


def _schema_version(path: Path) -> str | None:
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(path)) as database:
            return str(database.execute("SELECT version_num FROM alembic_version").fetchone()[0])
    except (sqlite3.Error, TypeError):
        return None  # empty or broken: the server makes a new one
