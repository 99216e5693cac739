"""The real command line in processes of its own, each with its own temporary files, and what such a process leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.examples import SPEC, build_clinic
from understudy.pipelines.privacy.ledger.ledger import Charge, Ledger

QUICK = SPEC + "generate: {epochs: 2, particles: 400, device: cpu}\n"
PATIENCE = 600.0


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass(frozen=True)
class Place:
    """A clinic, a home with its account, and a TMPDIR, all under one folder of its own."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    def spec(self, name: str, *changes: tuple[str, str]) -> Path:
        """A spec whose snapshot has that name, so that tests can share the home and still pay for themselves."""
        text = QUICK.replace('"2026-10"', f'"{name}"')
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return path

    def start(self, *words: object, **environment: str) -> Running:
        self.tmp.mkdir(exist_ok=True)
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT", "UNDERSTUDY"))}
        number = len(list(self.folder.glob("*.out")))
        out, err = self.folder / f"{number}.out", self.folder / f"{number}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "understudy.cli.main", *(str(word) for word in words)],
                env=inherited | {"UNDERSTUDY_HOME": str(self.home), "TMPDIR": str(self.tmp)} | environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=_as_from_a_terminal,
            )
        return Running(process, out, err)

    def run(self, *words: object, **environment: str) -> Ended:
        return self.start(*words, **environment).end()

    @property
    def ledger(self) -> Ledger:
        return Ledger(f"sqlite:///{self.home / 'ledger.db'}")

    def charges(self, snapshot: str) -> list[Charge]:
        return [charge for charge in self.ledger.charges("clinic") if charge.snapshot == snapshot]

    def processes(self) -> list[str]:
        """Every process that works with this home, by its environment."""
        wanted = f"UNDERSTUDY_HOME={self.home}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return [line for line in found if line]

    def leftovers(self) -> list[Path]:
        """Temporary files and folders: in TMPDIR, of the server, of measurements and releases half written."""
        left = [*self.tmp.rglob("*"), *self.home.glob("prefect/running-*"), *self.home.glob("measurements/.*")]
        return [*left, *self.folder.glob("releases/*/.staging-*")]

    def wait_until_nothing_is_left(self) -> None:
        wait_for(
            lambda: not self.processes() and not self.leftovers(),
            lambda: f"{self.processes()} {self.leftovers()}",
            patience=30.0,
        )


def _as_from_a_terminal() -> None:
    """Tests may run in the background of a shell, which makes their children deaf to Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def wait_for_stage(self, words: str) -> None:
        wait_for(lambda: words in self.err.read_text() or self.process.poll() is not None, self.err.read_text)
        assert self.process.poll() is None, self.err.read_text()

    def send(self, number: int) -> Ended:
        self.process.send_signal(number)
        return self.end(patience=15)

    def end(self, patience: float = PATIENCE) -> Ended:
        try:
            code = self.process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise
        return Ended(code, self.out.read_text(), self.err.read_text())


def wait_for(look: Callable[[], object], tell: Callable[[], str], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not look():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:g} s in vain: {tell()}")
        time.sleep(0.05)


def new_place(folder: Path) -> Place:
    place = Place(folder)
    build_clinic(folder)
    opened = place.run("ledger", "open", "clinic", "--epsilon", "9", "--delta", "1e-6", "--entity", "patient_id",
                       "--max-rows", 4)  # fmt: skip
    assert opened.code == 0, opened.text
    return place
