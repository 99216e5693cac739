"""One release, one domain, one method, one open ledger, one encoding of its rows: whichever door it comes in by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.releasing.golden import released
from tests.releasing.walk import watched

ONCE = {"domain made": 1, "method made": 1, "ledger opened": 1, "synthetic table encoded": 1}


@pytest.mark.parametrize("method", ["privpgd", "gaussian"])
def test_the_python_interface_makes_everything_once(tmp_path: Path, method: str) -> None:
    with watched() as (counts, _, _):
        released("python", method, tmp_path)
    assert counts.pop("noise calibrated", 1) == 1
    assert dict(counts) == ONCE


@pytest.mark.usefixtures("prefect_server", "home")
@pytest.mark.parametrize("method", ["privpgd", "gaussian"])
def test_the_flow_makes_everything_once(tmp_path: Path, method: str) -> None:
    with watched() as (counts, _, _):
        released("flow", method, tmp_path)
    assert counts.pop("noise calibrated", 1) == 1
    assert counts.pop("ledger opened") == 2  # one of them by the test, which opens the account
    assert dict(counts) == {name: times for name, times in ONCE.items() if name != "ledger opened"}
