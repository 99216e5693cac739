"""Real runs of the command line in processes of their own, on the session's Prefect server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from prefect.settings import PREFECT_API_URL


def run_command(folder: Path, home: Path, *words: object, fault: str = "", first: str = "pass") -> int:
    """Run to the end or to the kill at a fault point; output goes to run.log and temporary files to tmp in `folder`.
    `first` is what the process does before it is the command."""
    (folder / "tmp").mkdir(exist_ok=True)
    environment = os.environ | {
        "UNDERSTUDY_HOME": str(home),
        "UNDERSTUDY_FAULT": fault,
        "PREFECT_API_URL": str(PREFECT_API_URL.value()),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_LOGGING_LEVEL": "DEBUG",
        "TMPDIR": str(folder / "tmp"),
    }
    act = f"{first}\nfrom understudy.cli.main import main\nmain()"
    command = [sys.executable, "-c", act, *(str(word) for word in words)]
    with (folder / "run.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        code = process.wait(timeout=400)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return code
