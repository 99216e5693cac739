"""Prefect's settings for a command line: quiet, offline, and out of the way of a server the user has configured.

Call `prepare` before anything imports prefect: it reads its settings once.
"""

from __future__ import annotations

import os
from pathlib import Path

from understudy.pipelines.releasing.workspace import HOME, LEDGER, Workspace

API_URL = "PREFECT_API_URL"
_QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # Our own messages are printed by the command line; Prefect's would repeat errors with tracebacks.
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    # A server that is needed is started by `orchestrator`, which also ends it.
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    "GX_ANALYTICS_ENABLED": "false",
}


def choose_workspace(home: str | None, ledger: str | None) -> Workspace:
    """Options win over the environment; both reach the tasks through the environment."""
    if home:
        os.environ[HOME] = str(Path(home).absolute())
    if ledger:
        os.environ[LEDGER] = ledger
    return Workspace.from_environment()


def prepare(workspace: Workspace) -> None:
    defaults = dict(_QUIET)
    if API_URL not in os.environ:
        defaults |= {"PREFECT_HOME": str(prefect_home(workspace))}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def prefect_home(workspace: Workspace) -> Path:
    return workspace.home / "prefect"
