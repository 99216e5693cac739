"""A ledger that was edited by hand pays for nothing: `release` verifies its account before it charges it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from click.testing import Result

from tests.flows.conftest import Clinic

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
NOVEMBER = ('"2026-10"', '"2026-11"')
EDITS = {
    "a raised cap": ["UPDATE ledger_accounts SET epsilon = '400'"],
    "a softened event": [
        "UPDATE ledger_charges SET event = "
        "json_set(event, '$.noise_multiplier', 1000.0 * json_extract(event, '$.noise_multiplier'))"
    ],
    "a cut history": [
        "DELETE FROM ledger_charges",
        "DELETE FROM ledger_history WHERE seq > 1",
        "UPDATE ledger_accounts SET history_seq = 1, history_head = (SELECT hash FROM ledger_history WHERE seq = 1)",
    ],
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_ledger_edited_by_hand_is_not_charged(clinic: Clinic, run: Run, edit: str) -> None:
    assert run("release", clinic.spec).exit_code == 0
    before = clinic.charges
    assert before[0].event.noise_multiplier > 0
    with closing(sqlite3.connect(clinic.home / "ledger.db")) as database:
        for statement in EDITS[edit]:
            assert database.execute(statement).rowcount > 0, statement
        database.commit()
    edited = clinic.charges
    # Another place, which remembers nothing: what the ledger itself says must be enough.
    clinic.write(NOVEMBER, ("{to: releases/}", "{to: others/}"))
    refused = run("release", clinic.spec)
    assert refused.exit_code == 1, refused.output
    assert "Nothing was charged" in refused.output
    assert clinic.charges == edited
    assert list(clinic.folder.glob("others/*/*/manifest.json")) == []
