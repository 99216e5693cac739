from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import World, Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    worker = Zygote()
    yield worker
    worker.close()


@pytest.fixture
def world(zygote: Zygote, ledger_url: str, tmp_path: Path) -> World:
    return World(zygote, tmp_path / "world", ledger_url)
