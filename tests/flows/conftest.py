"""A clinic with its spec and account, and the command line run in this process against the session's Prefect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prefect import Task

from tests.examples import SPEC, build_clinic
from understudy.pipelines.privacy.ledger.ledger import Charge, Ledger

QUICK = SPEC + "generate: {epochs: 2, particles: 400, device: cpu}\n"


@dataclass(frozen=True)
class Clinic:
    folder: Path
    home: Path

    @property
    def spec(self) -> Path:
        return self.folder / "clinic.yaml"

    def write(self, *changes: tuple[str, str]) -> Path:
        text = QUICK
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        self.spec.write_text(text)
        return self.spec

    @property
    def ledger(self) -> Ledger:
        return Ledger(f"sqlite:///{self.home / 'ledger.db'}")

    @property
    def charges(self) -> list[Charge]:
        return self.ledger.charges("clinic")

    @property
    def releases(self) -> list[Path]:
        found = self.folder.glob("releases/clinic-visits/*/manifest.json")
        return sorted(path.parent for path in found if path.parent.name != "latest")


def release_tasks() -> list[Task[..., Any]]:
    """Every task of the release flow that is tried again."""
    import understudy.flows.release as flow

    found = [each for each in vars(flow).values() if isinstance(each, Task) and each.retries]
    assert found
    return found


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`run("release", path)`: the real command, without its Prefect settings, which are for a process of its own."""
    from understudy.cli import orchestrator
    from understudy.cli.main import main

    for each in release_tasks():
        monkeypatch.setattr(each, "retry_delay_seconds", [0.01, 0.01])  # tried as often, and not waited for
    monkeypatch.setattr(orchestrator, "begin", lambda workspace, staged_in: None)
    monkeypatch.setattr(orchestrator, "ready", lambda: None)

    def invoke(*words: object) -> Result:
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert "Traceback" not in result.output, result.output
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def clinic(tmp_path: Path, home: Path, run: Callable[..., Result]) -> Clinic:
    folder = tmp_path / "clinic"
    folder.mkdir()
    build_clinic(folder)
    made = Clinic(folder, home)
    made.write()
    opened = run(
        "ledger",
        "open",
        "clinic",
        "--epsilon",
        "1.7",
        "--delta",
        "1e-6",
        "--entity",
        "patient_id",
        "--max-rows",
        4,
    )
    assert opened.exit_code == 0, opened.output
    return made
