"""The ledger as a page: every account and charge, what is spent and what still fits, and whether the chain is whole."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, update

from tests.pages import faults, read_page
from understudy.cli.main import main
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.ledger.holder import Holder
from understudy.pipelines.privacy.ledger.ledger import ChargeRequest, Ledger
from understudy.pipelines.privacy.ledger.schema import charges
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.releasing.ledger_report import account_story, ledger_page

HOSTILE = "<img src=x onerror=alert(1)>"
NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    cap = Budget(Decimal(3), Decimal("1e-6"))
    ledger.open_account("clinic", Relation.ADD_REMOVE, Unit("patient_id", 4), cap)
    ledger.open_account("empty", Relation.ADD_REMOVE, Unit(), cap)
    for month in (1, 2, 3):
        request = ChargeRequest(
            "clinic", Relation.ADD_REMOVE, Unit("patient_id", 4), "visits", "a" * 64, f"2026-0{month}", "marginals",
            Gaussian(4.2247),
        )  # fmt: skip
        holder = Holder.here()
        ledger.charge(request, holder)
        if month == 3:
            ledger.burn(request.mid, f"killed {HOSTILE}")
        else:
            ledger.record_measurement(request.mid, "b" * 64, holder)
    return ledger


def test_what_was_spent_after_each_charge_is_what_the_ledger_counted(ledger: Ledger) -> None:
    story = account_story(ledger, "clinic")
    spent = [spent for _, spent in story.charges]
    assert spent == sorted(spent)
    assert spent[-1] == ledger.balance("clinic").spent.epsilon
    assert spent[0] == pytest.approx(1.0, abs=1e-3)
    assert story.more == ledger.balance("clinic").remaining(Gaussian(4.2247))
    assert account_story(ledger, "empty").more is None


def test_the_page_tells_accounts_charges_and_burnt_ones_and_runs_nothing(ledger: Ledger) -> None:
    page = ledger_page(ledger, NOW)
    for word in ("clinic", "empty", "2026-01", "burnt", "Smith &amp; Thakurta", "whole", "within its cap"):
        assert word in page
    assert HOSTILE not in page
    assert faults(read_page(page)) == []
    assert "gave up:" not in read_page(page).sections["empty"]
    assert f"killed {HOSTILE}" in read_page(page).sections["clinic"]
    assert 'aria-label="epsilon spent by clinic over time: ' in page


def test_a_changed_ledger_is_told(ledger: Ledger, tmp_path: Path) -> None:
    with create_engine(f"sqlite:///{tmp_path / 'ledger.db'}").begin() as connection:
        connection.execute(update(charges).where(charges.c.snapshot == "2026-01").values(snapshot="2026-09"))
    page = ledger_page(ledger, NOW)
    assert "It was changed or cut:" in page
    assert "BROKEN" in page


def test_the_command_writes_it_or_says_why_not(tmp_path: Path) -> None:
    runner, home = CliRunner(), str(tmp_path / "home")
    done = runner.invoke(main, ["--home", home, "ledger", "report", "--to", str(tmp_path / "ledger.html")])
    assert done.exit_code == 0
    assert "There are no accounts yet." in (tmp_path / "ledger.html").read_text()
    failed = runner.invoke(main, ["--home", home, "ledger", "report", "--to", str(tmp_path)])
    assert failed.exit_code == 2
    assert "cannot write" in failed.output
