"""Who pays for a period: one measurement under one name, from whichever source, and nothing new under any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.examples import SPEC
from tests.recipes import mechanism_of
from understudy.pipelines.errors import ChargeBurnt, SpecError
from understudy.pipelines.methods.base import MethodPlan, PlannedCharge
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.ledger.ledger import Charge, Holder, Ledger
from understudy.pipelines.privacy.ledger.spend import Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.releasing.approving import approve, requests_of, stored_measurement
from understudy.pipelines.releasing.payments import charges_known, payments_since
from understudy.pipelines.releasing.rolling import declared_steps, enter_series, entry_of, require_period, series_of
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec, parse_tree, spec_of

DISJOINT = SPEC + "rolling: {period: month, entities: disjoint}\n"
RECURRING = SPEC + "rolling: {period: month}\n"
ONE = MethodPlan("privpgd", (PlannedCharge("marginals", Gaussian(5.0)),), (), (), None)
TWO = MethodPlan(
    "privpgd", (PlannedCharge("first", Gaussian(8.0)), PlannedCharge("second", Gaussian(9.0))), (), (), None
)
MOVED = ("clinic.duckdb", "restored.duckdb")
CORRECTED = ("table: visits", "table: visits_corrected")
LATER_DAYS = ("min: 2026-01-01", "min: 2026-02-01")


class Books:
    """The real ledger and store; what is drawn is a word."""

    def __init__(self, url: str, folder: Path, cap: str = "1.7", unit: Unit | None = None) -> None:
        self.ledger = Ledger(url)
        self.store = MeasurementStore(folder / "measurements")
        terms = unit or Unit("patient_id", 4)
        self.ledger.open_account("clinic", Relation.ADD_REMOVE, terms, Budget(cap, "1e-6"))
        self.drawn: list[str] = []

    def release(self, text: str, plan: MethodPlan = ONE, pay_again: bool = False, resume: bool = False) -> str:
        """The account that was charged, or would have been."""
        spec = read(text)
        entered = enter_series(self.ledger, self.store, spec, plan, pay_again, resume)
        approval = approve(self.ledger, entered, plan, resume=resume, pay_again=pay_again)
        if stored_measurement(self.ledger, self.store, approval) is None:
            requests = {request.stage: request for request in approval.requests}
            buy = Purchases(self.ledger, self.store, lambda charge: requests[charge.stage])
            for charge in plan.charges:
                buy(charge, mechanism_of(charge.event, self._draw))
        return entered.privacy.account

    def _draw(self, randomness: object) -> dict[str, np.ndarray]:
        self.drawn.append("noise")
        return {}

    def charges(self) -> list[Charge]:
        return [charge for account in self.ledger.accounts() for charge in self.ledger.charges(account.name)]

    def spent(self, account: str = "clinic") -> float:
        return self.ledger.balance(account).spent.epsilon


def read(text: str) -> ReleaseSpec:
    """As `release` reads a spec: what its snapshot is called is judged by the ledger."""
    root, tree = parse_tree(text)
    return spec_of(tree, None, root, any_snapshot=True)


def named(text: str, snapshot: str) -> str:
    return text.replace('"2026-10"', f'"{snapshot}"')


@pytest.fixture
def books(tmp_path: Path) -> Books:
    return Books(f"sqlite:///{tmp_path}/ledger.db", tmp_path)


def measured_by_an_older_version(books: Books, text: str, plan: MethodPlan = ONE) -> str:
    """What 7b5a274 did with a snapshot of any name: the series is paid once, the name has its own account."""
    spec = read(text)
    series = series_of(spec, plan)
    first = enter_series(books.ledger, books.store, read(named(DISJOINT, "1999-01")), plan)
    cap = books.ledger.account(first.privacy.account).cap
    account = books.ledger.open_period_account("clinic", series, spec.source.snapshot, cap)
    own = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"account": account.name})})
    requests = {request.stage: request for request in requests_of(own, plan)}
    buy = Purchases(books.ledger, books.store, lambda charge: requests[charge.stage])
    for charge in plan.charges:
        buy(charge, mechanism_of(charge.event, books._draw))
    return account.name


@pytest.mark.parametrize("text", [DISJOINT, RECURRING])
def test_days_are_no_months(books: Books, text: str) -> None:
    """The break: 31 names opened 31 free accounts. Each is refused before anything is paid or opened."""
    for day in range(1, 32):
        with pytest.raises(SpecError, match="names no month"):
            books.release(named(text, f"2026-10-{day:02d}"))
        with pytest.raises(SpecError, match="names no month"):
            require_period(books.ledger, read(named(text, f"2026-10-{day:02d}")))
    assert (books.charges(), books.drawn) == ([], [])
    assert [account.name for account in books.ledger.accounts()] == ["clinic"]
    books.release(text)
    assert len(books.drawn) == 1


@pytest.mark.parametrize("edit", [MOVED, CORRECTED, LATER_DAYS], ids=["moved", "corrected", "date bounds"])
@pytest.mark.parametrize("plan", [ONE, TWO], ids=["one stage", "two stages"])
def test_a_period_is_measured_once_whatever_the_source(books: Books, edit: tuple[str, str], plan: MethodPlan) -> None:
    account = books.release(DISJOINT, plan)
    before = books.charges()
    with pytest.raises(SpecError, match="measured before for this disjoint series"):
        books.release(DISJOINT.replace(*edit), plan)
    with pytest.raises(SpecError, match="measured before"):
        books.release(DISJOINT.replace(*edit), plan, pay_again=True)
    assert books.charges() == before
    assert (
        books.release(named(DISJOINT.replace(*edit), "2026-11"), plan) != account
    )  # another period may come from there
    assert books.release(DISJOINT, plan) == account
    assert len(books.drawn) == 2 * len(plan.charges)


def test_a_corrected_month_is_refused_under_a_new_name_and_charged_without_rolling(books: Books) -> None:
    books.release(DISJOINT)
    before = books.spent()
    for text in (named(DISJOINT, "2026-10-corrected"), DISJOINT.replace(*CORRECTED)):
        with pytest.raises(SpecError):
            books.release(text)
    assert books.spent() == before
    assert books.release(named(SPEC.replace(*CORRECTED), "2026-10-corrected")) == "clinic"
    assert books.spent() > before


def test_the_ledger_itself_refuses_a_second_source(ledger_url: str, tmp_path: Path) -> None:
    """Two runs that looked before either charged: the account's lock decides between them, on both databases."""
    books = Books(ledger_url, tmp_path)
    requests = []
    for text in (DISJOINT, DISJOINT.replace(*CORRECTED)):
        entered = enter_series(books.ledger, books.store, read(text), TWO)
        requests.append(approve(books.ledger, entered, TWO).requests)
    books.ledger.charge(requests[0][0], Holder.here())
    with pytest.raises(SpecError, match="measured before"):
        books.ledger.charge(requests[1][0], Holder.here())
    books.ledger.charge(requests[0][1], Holder.here())
    assert books.ledger.verify().ok


def test_a_cap_planted_in_an_old_ledger_buys_nothing(books: Books) -> None:
    spec = read(DISJOINT)
    books.ledger.open_period_account("clinic", series_of(spec, ONE), "2026-10", Budget("99", "1e-6"))
    books.release(DISJOINT)
    with pytest.raises(SpecError, match="measured before"):
        books.release(DISJOINT.replace(*MOVED))
    assert len(books.drawn) == 1


def test_recurring_periods_from_another_source_are_further_charges(books: Books) -> None:
    books.release(RECURRING)
    once = books.spent()
    books.release(RECURRING)
    assert books.spent() == once
    books.release(RECURRING.replace(*CORRECTED))
    assert books.spent() > once
    assert len(books.drawn) == 2


def test_a_resume_pays_for_nothing(books: Books) -> None:
    """On 7b5a274 `--resume` of a month that was never measured paid for its series first, and then refused."""
    with pytest.raises(SpecError, match="nothing to resume"):
        books.release(DISJOINT, resume=True)
    assert books.charges() == []
    account = books.release(DISJOINT)
    assert books.release(DISJOINT, resume=True) == account
    with pytest.raises(SpecError, match="nothing to resume"):
        books.release(named(DISJOINT, "2026-11"), resume=True)
    assert len(books.charges()) == 2


def test_what_was_measured_under_another_name_stays_and_nothing_new_is(books: Books) -> None:
    text = named(DISJOINT, "2026-10 final")
    account = measured_by_an_older_version(books, text)
    before = books.charges()
    require_period(books.ledger, read(text))
    assert books.release(text) == account
    assert books.release(text, resume=True) == account
    assert books.charges() == before
    with pytest.raises(SpecError, match="names no month"):
        books.release(text.replace(*CORRECTED))
    with pytest.raises(SpecError, match="names no month"):
        books.release(named(DISJOINT, "2026-11 final"))


def test_a_burnt_charge_under_another_name_is_not_paid_again(books: Books) -> None:
    text = named(DISJOINT, "2026-10 final")
    spec = read(text)
    measured_by_an_older_version(books, named(DISJOINT, "2026-09 final"))
    cap = books.ledger.accounts()[-1].cap
    name = books.ledger.open_period_account("clinic", series_of(spec, ONE), "2026-10 final", cap).name
    own = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"account": name})})
    [request] = requests_of(own, ONE)
    books.ledger.burn(books.ledger.charge(request, Holder.here()).mid, "lost")
    with pytest.raises(ChargeBurnt):
        books.release(text)
    with pytest.raises(SpecError, match="names no month"):
        books.release(text, pay_again=True)


def test_months_named_otherwise_may_hold_the_units_of_any_so_one_more_copy_is_paid(books: Books) -> None:
    """October was measured as `2026-10 final`; as `2026-10` it is a second measurement of the same people."""
    measured_by_an_older_version(books, named(DISJOINT, "2026-10 final"))
    assert len(books.ledger.charges("clinic")) == 1
    assert len(entry_of(books.ledger, read(DISJOINT), ONE).unpaid) == 1
    books.release(DISJOINT)
    assert len(books.ledger.charges("clinic")) == 2
    books.release(named(DISJOINT, "2026-11"))
    assert len(books.ledger.charges("clinic")) == 2  # that covers every month under its label


def test_a_period_measured_by_a_version_that_calibrated_otherwise_is_found(books: Books) -> None:
    account = books.release(DISJOINT)
    newer = replace(ONE, charges=(PlannedCharge("marginals", Gaussian(4.9)),))
    assert books.release(DISJOINT, newer) == account
    assert books.release(DISJOINT, newer, resume=True) == account
    assert len(books.drawn) == 1
    assert books.release(named(DISJOINT, "2026-11"), newer) != account
    assert len(books.ledger.charges("clinic")) == 2  # another event is another series


def test_a_lost_draw_is_paid_again_by_the_parent(books: Books) -> None:
    entered = enter_series(books.ledger, books.store, read(DISJOINT), ONE)
    [request] = approve(books.ledger, entered, ONE).requests
    books.ledger.burn(books.ledger.charge(request, Holder.here()).mid, "lost")
    with pytest.raises(SpecError, match="measured before"):
        books.release(DISJOINT.replace(*MOVED), pay_again=True)
    books.release(DISJOINT, pay_again=True)
    assert len(books.ledger.charges("clinic")) == len(books.ledger.charges(entered.privacy.account)) == 2
    spent = [books.spent(name) for name in (entered.privacy.account, "clinic")]
    assert spent[0] == pytest.approx(spent[1])  # nothing was drawn there that the parent did not pay for


ROWS = SPEC.replace("unit: {entity: patient_id, max_rows: 4}, ", "")


def test_disjoint_rows_need_the_column_that_makes_them_so(tmp_path: Path) -> None:
    books = Books(f"sqlite:///{tmp_path}/ledger.db", tmp_path, unit=Unit())
    declared = ROWS + "rolling: {period: month, entities: disjoint}\n"
    parse_spec(declared)  # it loads, and what was measured under it stays
    with pytest.raises(SpecError, match=r"rolling\.column") as refused:
        books.release(declared)
    assert "date column" in refused.value.fix
    assert books.charges() == []
    by_visit = ROWS + "rolling: {period: month, entities: disjoint, column: visited_on}\n"
    books.release(by_visit)
    steps = declared_steps(read(by_visit))
    assert any("one visited_on" in step for step in steps)
    assert not any("declared by" in step for step in steps)


def test_another_column_is_another_series(books: Books) -> None:
    texts = [SPEC + f"rolling: {{entities: disjoint{more}}}\n" for more in ("", ", column: visited_on", ", column: b")]
    assert len({series_of(read(text), ONE) for text in texts}) == 3
    assert series_of(read(texts[0]), ONE) == "caf9b346a25230c73b576360a24dd52ff903849323b7cdb6962621c7c6597d3d"


def test_what_was_spent_is_what_was_charged(books: Books) -> None:
    spec = read(DISJOINT)
    known = charges_known(books.ledger, spec)
    account = books.release(DISJOINT)
    drawn, series = payments_since(books.ledger, spec, known)
    assert (drawn.account, drawn.drawn, series.account, series.drawn) == (account, ("marginals",), "clinic", ())
    assert drawn.cost.epsilon == pytest.approx(books.spent(account))
    assert series.cost.epsilon == pytest.approx(books.spent())
    assert "nothing drawn" in series.sentence
    assert f"charged to {account}, which clinic paid for; drawn: marginals" in drawn.sentence
    known = charges_known(books.ledger, spec)
    books.release(named(DISJOINT, "2026-11"))
    [november] = payments_since(books.ledger, spec, known)
    assert november.drawn == ("marginals",)
    known = charges_known(books.ledger, spec)
    books.release(DISJOINT)
    assert payments_since(books.ledger, spec, known) == ()
