"""Ledgers from before filters: what the code of commit 7b5a274 wrote is opened, given filters, and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from understudy.pipelines.errors import BudgetRefused, SpecError
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian, PoissonSampled, SelfComposed
from understudy.pipelines.privacy.filters import GaussianFilter, RenyiFilter, best_order
from understudy.pipelines.privacy.ledger import schema as ledger_schema
from understudy.pipelines.privacy.ledger.ledger import ChargeRequest, Holder, Ledger
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

DUMP = Path(__file__).with_name("old_ledger.sql")
UNIT = Unit("patient", 5)
ADD = Relation.ADD_REMOVE
PERIODS = ("series@1f3a5b7c9d@2026-01", "series@1f3a5b7c9d@2026-02")


@pytest.fixture
def old_url(ledger_url: str, tmp_path: Path) -> str:
    """The dump, in a new SQLite file or a new PostgreSQL schema."""
    (tmp_path / "ledger").mkdir(exist_ok=True)
    statements = [part.strip() for part in DUMP.read_text().split(";\n") if part.strip()]
    with create_engine(ledger_url, poolclass=NullPool).begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    return ledger_url


def request(account: str, event, snapshot: str = "new", relation: Relation = ADD) -> ChargeRequest:
    return ChargeRequest(account, relation, UNIT, "visits", "6" * 64, snapshot, "marginals", event)


def test_the_dump_is_of_the_frozen_first_migration() -> None:
    for statement in ledger_schema.MIGRATIONS[0]:
        assert statement in DUMP.read_text()
    assert "VALUES(1," in DUMP.read_text()


def test_gaussian_accounts_become_gdp_and_have_spent_what_they_had(old_url: str) -> None:
    ledger = Ledger(old_url)
    for name, charges in (("plain", 12), ("unused", 0)):
        balance = ledger.balance(name)
        assert balance.account.filter == GaussianFilter()
        assert balance.charges == charges
    events = [SelfComposed(event, times) for event, times in ledger.balance("plain").events]
    assert ledger.balance("plain").spent.epsilon == composed_loss(events, 1e-6, ADD).epsilon
    assert ledger.balance("plain").spent.epsilon <= 1.055746529  # what 7b5a274 said, by PLD
    ledger.charge(request("plain", Gaussian(5.0)), Holder.here())
    assert ledger.verify().ok


@pytest.mark.parametrize("name", ["adaptive", "sampled", "series"])
def test_others_become_renyi_at_the_order_that_leaves_most(old_url: str, name: str) -> None:
    balance = Ledger(old_url).balance(name)
    rule = balance.account.filter
    assert isinstance(rule, RenyiFilter)
    assert rule.order == best_order(balance.account.cap, ADD, balance.events)
    for other in (4.0, 6.0, 8.0, 12.0, 20.0, 40.0):
        used = RenyiFilter(other).counted(balance.events, ADD) / RenyiFilter(other).limit(balance.account.cap)
        mine = rule.counted(balance.events, ADD) / rule.limit(balance.account.cap)
        assert mine <= used * (1 + 1e-3) or used < 0


def test_an_account_that_still_fits_goes_on_under_its_filter(old_url: str) -> None:
    ledger = Ledger(old_url)
    assert 1.0 < ledger.balance("adaptive").spent.epsilon < 3.5
    ledger.charge(request("adaptive", Gaussian(6.0)), Holder.here())
    with pytest.raises(BudgetRefused, match="cannot pay"):
        ledger.charge(request("adaptive", Gaussian(1.0), "more"), Holder.here())
    assert ledger.verify().ok


def test_what_no_longer_fits_is_said_and_takes_no_more(old_url: str) -> None:
    ledger = Ledger(old_url)
    balance = ledger.balance("sampled")
    assert balance.spent.epsilon > 4
    assert balance.overdrawn
    assert (balance.left, balance.remaining(Gaussian(1e6))) == (0, 0)
    for attempt in (
        lambda: ledger.check([request("sampled", Gaussian(1e6))]),
        lambda: ledger.charge(request("sampled", Gaussian(1e6)), Holder.here()),
    ):
        with pytest.raises(BudgetRefused, match="takes no more") as refused:
            attempt()
        assert "older rule" in refused.value.problem
    [line] = [entry for entry in ledger.history("sampled") if entry.action == "filtered"]
    assert line.body["fits"] is False
    assert ledger.verify().ok  # by the rule under which it was charged


def test_charges_that_no_filter_holds_close_their_account(old_url: str) -> None:
    """Poisson samples under REPLACE_ONE have a privacy loss distribution and no Renyi bound here."""
    ledger = Ledger(old_url)
    assert ledger.balance("replaced").spent.epsilon == float("inf")
    with pytest.raises(BudgetRefused, match="takes no more"):
        ledger.check([request("replaced", Gaussian(1e6), relation=Relation.REPLACE_ONE)])
    assert ledger.verify().ok


def test_accounts_of_periods_follow_the_account_that_pays(old_url: str) -> None:
    ledger = Ledger(old_url)
    for name in PERIODS:
        assert ledger.account(name).filter == ledger.account("series").filter
    event = SelfComposed(PoissonSampled(0.01, Gaussian(1.0)), 200)
    with pytest.raises(BudgetRefused):  # its cap is what PLD said; the series' next run states it by the filter
        ledger.check([request(PERIODS[1], event)])
    ledger.change_cap(PERIODS[1], Budget(str(ledger.balance("series").spent.epsilon), "1e-6"), "as the series paid")
    ledger.charge(request(PERIODS[1], event), Holder.here())
    assert ledger.verify().ok


def test_the_filter_is_one_sealed_line_and_is_given_once(old_url: str) -> None:
    with create_engine(old_url, poolclass=NullPool).connect() as connection:
        heads = dict(connection.execute(text("SELECT name, history_head FROM ledger_accounts")).tuples().all())
    for _ in range(2):
        ledger = Ledger(old_url)
        for name, head in heads.items():
            [*_, last] = ledger.history(name)
            assert (last.action, last.previous) == ("filtered", head)
            assert last.hash == ledger.balance(name).history_head
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        ("UPDATE ledger_accounts SET filter = '{\"kind\":\"gdp\"}' WHERE name = 'sampled'", "the filter differs"),
        (
            'UPDATE ledger_history SET body = \'{"filter":{"kind":"gdp"}}\' WHERE action = \'filtered\'',
            "chain is broken",
        ),
    ],
)
def test_a_filter_changed_by_hand_is_found(old_url: str, edit: str, found: str) -> None:
    ledger = Ledger(old_url)
    ledger._database.write(lambda connection: connection.exec_driver_sql(edit))
    assert any(found in problem for problem in ledger.verify().problems)


def test_an_old_charge_is_found_and_paid_for_under_its_old_event(old_url: str) -> None:
    ledger = Ledger(old_url)
    [first, *_] = ledger.charges("adaptive")
    asked = ChargeRequest("adaptive", ADD, UNIT, "visits", "5" * 64, "2026-01", first.stage, Gaussian(99.0))
    assert ledger.charge(asked, Holder.here()) == first


def test_what_gdp_cannot_hold_is_refused_before_it_is_charged_with_what_to_do(old_url: str) -> None:
    ledger = Ledger(old_url)
    event = SelfComposed(PoissonSampled(0.01, Gaussian(1.0)), 20)
    for attempt in (
        lambda: ledger.check([request("unused", event)]),
        lambda: ledger.charge(request("unused", event), Holder.here()),
    ):
        with pytest.raises(SpecError, match="cannot hold") as refused:
            attempt()
        assert "--filter renyi --order" in refused.value.fix
    assert ledger.charges("unused") == []
