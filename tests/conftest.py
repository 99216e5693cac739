"""Fixtures every folder uses: a workspace of its own, and one Prefect server for those that need it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import absl.logging
import pytest

# Read once when prefect is first imported, so set before any test imports it.
os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "CRITICAL")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

# absl (of dp-accounting) keeps the stderr of the moment it is imported, and Prefect's logging set-up closes it unless
# it is the process's own: that would be pytest's capture file.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__

pytest_plugins = ["tests.postgres", "tests.mariadb", "tests.randomness", "tests.warehouse", "tests.object_stores"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Understudy home with its own SQLite ledger."""
    place = tmp_path / "home"
    monkeypatch.setenv("UNDERSTUDY_HOME", str(place))
    monkeypatch.delenv("UNDERSTUDY_LEDGER", raising=False)
    return place


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Pages that no browser looked at are said, not one letter among thousands."""
    skipped = terminalreporter.stats.get("skipped", ())
    for reason in sorted({str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)}):
        if "NO PAGE WAS LOOKED AT" in reason:
            terminalreporter.write_line(reason, yellow=True, bold=True)
