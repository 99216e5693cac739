"""Recurring periods compose one after the other, disjoint ones in parallel, and no way around the cap exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples import SPEC
from understudy.pipelines.errors import BudgetRefused, SpecError
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.ledger.ledger import Holder, Ledger
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.releasing.approving import approve
from understudy.pipelines.releasing.rolling import declared_steps, enter_series, event_of, forecast, series_of
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.domain import TableDomain

DISJOINT = SPEC + "rolling: {period: month, entities: disjoint}\n"
RECURRING = SPEC + "rolling: {period: month}\n"


class Books:
    def __init__(self, folder: Path, cap: str = "1.7") -> None:
        self.ledger = Ledger(f"sqlite:///{folder}/ledger.db")
        self.store = MeasurementStore(folder / "measurements")
        self.ledger.open_account("clinic", Relation.ADD_REMOVE, Unit("patient_id", 4), Budget(cap, "1e-6"))

    def spec(self, text: str, month: str) -> tuple[ReleaseSpec, MethodPlan]:
        spec = parse_spec(text.replace('"2026-10"', f'"{month}"'))
        return spec, method_named("privpgd").plan(spec, TableDomain.of(spec))

    def charge(self, text: str, month: str, pay_again: bool = False) -> str:
        """What a release does up to T1: enter the series, be approved, be charged. Returns the account that paid."""
        spec, plan = self.spec(text, month)
        entered = enter_series(self.ledger, self.store, spec, plan, pay_again)
        approval = approve(self.ledger, entered, plan, pay_again=pay_again)
        for request in approval.requests:
            self.ledger.charge(request, Holder.here())
        return entered.privacy.account

    def spent(self, account: str = "clinic") -> float:
        return self.ledger.balance(account).spent.epsilon


@pytest.fixture
def books(tmp_path: Path) -> Books:
    return Books(tmp_path)


def test_recurring_periods_are_charges_of_the_account(books: Books) -> None:
    assert books.charge(RECURRING, "2026-10") == "clinic"
    first = books.spent()
    books.charge(RECURRING, "2026-11")
    assert books.spent() > first
    with pytest.raises(BudgetRefused):
        books.charge(RECURRING, "2026-12")


def test_disjoint_periods_cost_what_one_costs(books: Books) -> None:
    accounts = [books.charge(DISJOINT, f"2026-{month:02d}") for month in range(1, 13)]
    assert len(set(accounts)) == 12
    assert all(account.startswith("clinic@") for account in accounts)
    assert 0.99 < books.spent() <= 1.0
    assert len(books.ledger.charges("clinic")) == 1
    assert all(books.spent(account) <= 1.0 for account in accounts)
    assert books.ledger.verify().ok


def test_a_period_again_is_free(books: Books) -> None:
    books.charge(DISJOINT, "2026-10")
    before = books.ledger.export()["charges"]
    books.charge(DISJOINT, "2026-10")
    assert books.ledger.export()["charges"] == before


def test_the_rest_of_the_account_composes_with_the_series(books: Books) -> None:
    """The parent holds the series' event, so an ordinary release of the same data is refused when both do not fit."""
    books.charge(DISJOINT, "2026-10")
    books.charge(SPEC.replace("all-2way", "all-1way"), "2026-10")
    with pytest.raises(BudgetRefused):
        books.charge(SPEC.replace("bins: 32}", "bins: 30}"), "2026-10")


def test_a_changed_spec_is_another_series_and_is_paid_for(books: Books) -> None:
    books.charge(DISJOINT, "2026-10")
    books.charge(DISJOINT.replace("bins: 32}", "bins: 30}"), "2026-10")
    assert len(books.ledger.charges("clinic")) == 2
    with pytest.raises(BudgetRefused):
        books.charge(DISJOINT.replace("bins: 32}", "bins: 29}"), "2026-10")


def test_a_second_measurement_of_a_period_needs_a_second_copy(books: Books) -> None:
    account = books.charge(DISJOINT, "2026-10")
    [charge] = books.ledger.charges(account)
    books.ledger.burn(charge.mid, "the machine was lost")
    books.charge(DISJOINT, "2026-10", pay_again=True)
    assert len(books.ledger.charges(account)) == len(books.ledger.charges("clinic")) == 2
    assert books.spent(account) <= books.spent() <= 1.7
    for charge in books.ledger.charges(account):
        if charge.state.value == "CHARGED":
            books.ledger.burn(charge.mid, "again")
    with pytest.raises(BudgetRefused):  # the parent cannot pay for a third
        books.charge(DISJOINT, "2026-10", pay_again=True)
    assert len(books.ledger.charges(account)) == 2


def test_no_spec_can_name_a_periods_account() -> None:
    with pytest.raises(SpecError, match="lower-case"):
        parse_spec(SPEC.replace("account: clinic,", 'account: "clinic@abc@2026-10",'))


def test_disjoint_needs_add_remove(books: Books) -> None:
    spec, plan = books.spec(DISJOINT.replace("add_remove", "replace_one"), "2026-10")
    with pytest.raises(SpecError, match="add_remove"):
        enter_series(books.ledger, books.store, spec, plan)


def test_the_series_ignores_the_period_and_nothing_else(books: Books) -> None:
    october, plan = books.spec(DISJOINT, "2026-10")
    moved = DISJOINT.replace("2026-01-01, max: 2026-12-31", "2027-01-01, max: 2027-12-31").replace(
        "clinic.duckdb", "x.duckdb"
    )
    assert series_of(books.spec(moved, "2026-11")[0], plan) == series_of(october, plan)
    for old, new in (("epsilon: 1.0", "epsilon: 0.9"), ("max: 110", "max: 120"), ("max_rows: 4", "max_rows: 3")):
        other = books.spec(DISJOINT.replace(old, new), "2026-10")
        assert series_of(*other) != series_of(october, plan)


def test_forecasts(books: Books) -> None:
    spec, plan = books.spec(RECURRING, "2026-10")
    ahead = forecast(books.ledger, spec, plan)
    assert ahead is not None
    assert ahead.remaining == 2
    assert "2 further months" in ahead.sentence
    books.charge(RECURRING, "2026-10")
    later = forecast(books.ledger, spec, plan)
    assert later is not None
    assert later.remaining == 1
    disjoint, plan = books.spec(DISJOINT, "2026-10")
    every = forecast(books.ledger, disjoint, plan)
    assert every is not None
    assert every.remaining is None
    assert "declared" in declared_steps(disjoint)[-1]
    assert forecast(books.ledger, parse_spec(SPEC), plan) is None
    assert event_of(plan) == plan.charges[0].event
