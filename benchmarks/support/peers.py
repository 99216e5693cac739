"""Peers from the package index on the same codes, budget and relation, each in a process of its own.

Their packages pin versions that ours cannot share, so each is run by the interpreter of an environment made from
`benchmarks/requirements-PACKAGE.txt`; `peer_worker.py` is what runs there.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.support import peer_worker
from benchmarks.support.peer_worker import NAMES, Result, Task

__all__ = ["NAMES", "Peer", "PeerError", "Result", "Task"]

FOLDER = Path(peer_worker.__file__).parents[1]
LAST_LINES = 5


class PeerError(Exception):
    """The peer is not there, or failed."""


@dataclass(frozen=True)
class Peer:
    """The algorithm `name`, the interpreter that has it, and the seconds it may take, imports included."""

    name: str
    python: str
    limit: float

    def check_installed(self) -> None:
        """Raises if the interpreter cannot import the peer."""
        self._start()

    def run(self, task: Task) -> Result | None:
        """What it generated; None, and a word on stderr, if it failed or was stopped at the limit: the peers and sets
        that are left still run.
        """
        with TemporaryDirectory() as folder:
            source, target = Path(folder) / "task.npz", Path(folder) / "result.npz"
            peer_worker.write_task(source, task)
            try:
                self._start(source, target)
            except subprocess.TimeoutExpired:
                print(f"{self.name} did not end within {self.limit:g} seconds", file=sys.stderr)
                return None
            except PeerError as failure:
                print(failure, file=sys.stderr)
                return None
            return peer_worker.read_result(target)

    def _start(self, *files: Path) -> None:
        # -I: neither the folder of the worker nor our PYTHONPATH may shadow the modules of the other environment.
        command = [self.python, "-I", peer_worker.__file__, self.name, *map(str, files)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=self.limit)
        except OSError as failure:
            raise PeerError(f"--peer-python {self.python} cannot be started: {failure.strerror}") from failure
        if ended.returncode == 0:
            return
        said = ended.stderr.splitlines()[-LAST_LINES:] or ["nothing on stderr"]
        if said[-1].startswith("ModuleNotFoundError"):
            requirements = FOLDER / f"requirements-{self.name.split('-')[0]}.txt"
            raise PeerError(
                f"{self.name} is not installed for {self.python} ({said[-1]}).\n"
                f"Give it an environment of its own: python -m venv DIR && DIR/bin/pip install -r {requirements}\n"
                "and --peer-python DIR/bin/python"
            )
        raise PeerError("\n".join([f"{self.name} ended with status {ended.returncode}:", *said]))
