"""The long runs as tests, for `pytest -m soak`; `python -m tests.faults.soak` prints the same figures."""

from __future__ import annotations

import sys

import pytest

from tests.faults import soak


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_soak(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["soak", "--database", database])
    assert soak.main() == 0
