"""The process of a command's temporary Prefect server (`temporary_server` starts it): it never outlives the command.

Its lifeline is a pipe whose other end only the command holds. Whatever ends the command, a return or SIGKILL, closes
that end; then this process removes what the command left in the middle of writing, its own files, and itself.

    python -m understudy.cli.serving LISTENING-DESCRIPTOR LIFELINE-DESCRIPTOR SCRATCH [FOLDER ...]
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
from pathlib import Path

from understudy.pipelines.privacy.ledger.staging import remove_abandoned


def end_with_the_command(lifeline: int, scratch: Path, folders: list[Path]) -> None:
    while os.read(lifeline, 1):
        pass  # nothing is ever written
    for folder in folders:
        remove_abandoned(folder)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)  # uvicorn's own way out waits for clients that are gone


def main() -> None:
    listening, lifeline, scratch, *folders = sys.argv[1:]
    os.umask(0o077)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the command, which decides
    threading.Thread(
        target=end_with_the_command, args=(int(lifeline), Path(scratch), [Path(f) for f in folders]), daemon=True
    ).start()
    import uvicorn
    from prefect.server.api.server import create_app

    config = uvicorn.Config(create_app, factory=True, log_level="critical", lifespan="on", access_log=False)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(listening))])


if __name__ == "__main__":
    main()
