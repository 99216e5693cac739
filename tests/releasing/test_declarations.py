"""A model of declarations: if what the data's owner declared is true, every unit's true loss is within the cap.

The real ledger and store, the real entry into a period and the real spend protocol are driven over rolling and ordinary
releases, several series of one account, other sources, edited date bounds, odd and good snapshot names, resumes, lost
draws, pay-again and restored backups. What is drawn is a record of who was in it. The truth is computed from those
records alone, unit by unit, by the closed form for Gaussians: mu^2 adds up, delta(epsilon) is Dong, Roth & Su's.

Declared, and true here: a unit has one day, hence one month. Whatever a period's snapshot is called, and from whichever
source, it holds units of the month (or day) that its first characters name.
"""

from __future__ import annotations

import math
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.examples import SPEC
from tests.recipes import mechanism_of
from understudy.pipelines.errors import BudgetRefused, ChargeBurnt, LedgerError, SpecError
from understudy.pipelines.methods.base import MethodPlan, PlannedCharge
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.ledger.ledger import ChargeRequest, Holder, Ledger
from understudy.pipelines.privacy.ledger.spend import Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.releasing.approving import approve, stored_measurement
from understudy.pipelines.releasing.rolling import enter_series
from understudy.pipelines.spec.handling import RollingSpec
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec

CAP = Budget("1", "1e-6")
UNITS = ("2026-09-30", "2026-10-01", "2026-10-02", "2026-11-01")
BASE = parse_spec(SPEC)
DAY_SHIFTED = parse_spec(SPEC.replace("2026-01-01, max: 2026-12-31", "2026-01-02, max: 2026-12-31"))
EDITED = parse_spec(SPEC.replace("bins: 32}", "bins: 30}"))
SPECS = {"as it was": BASE, "other date bounds": DAY_SHIFTED, "edited": EDITED}
SNAPSHOTS = {
    "month": ("2026-09", "2026-10", "2026-11", "2026-10-01", "2026-10-02", "2026-10 corrected", "2026-10b"),
    "day": ("2026-09-30", "2026-10-01", "2026-10-02", "2026-11-01", "2026-10-01b", "2026-10"),
}
_DAYS = st.integers(1, 31).map(lambda day: f"2026-10-{day:02}")
_ADDED = st.text("-_. 0123456789abvT:/W", min_size=1, max_size=6)
NAMES_OF_OCTOBER = st.one_of(st.just("2026-10"), _DAYS, _DAYS, _ADDED.map("2026-10".__add__))
"""As whoever delivers a month might name it: by its label, by a day of it, by the label and something."""
SOURCES = ("duckdb:///clinic.duckdb", "duckdb:///moved.duckdb")
PLANS = {
    "one": MethodPlan("privpgd", (PlannedCharge("marginals", Gaussian(8.0)),), (), (), None),
    "two": MethodPlan(
        "privpgd", (PlannedCharge("first", Gaussian(12.0)), PlannedCharge("second", Gaussian(15.0))), (), (), None
    ),
}
REFUSALS = (SpecError, BudgetRefused, ChargeBurnt, LedgerError)


class LostDraw(Exception):
    """The machine dies after the noise was drawn and before it was kept."""


@dataclass(frozen=True)
class Drawn:
    """What was really released, or drawn and lost: which units were in it, and its noise multiplier."""

    units: frozenset[str]
    noise: float
    mid: str


class Clinic:
    """One account, its ledger and store, and the truth that neither of them knows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger(f"sqlite:///{folder}/ledger.db")
        self.store = MeasurementStore(folder / "measurements")
        self.ledger.open_account("clinic", Relation.ADD_REMOVE, Unit("patient_id", 4), CAP)
        self.kept: list[Drawn] = []
        self.lost: list[Drawn] = []

    def release(
        self, spec: ReleaseSpec, plan: MethodPlan, pay_again: bool = False, resume: bool = False, loses: int = -1
    ) -> None:
        """What the flow does, with a record of who was in it for a draw; stage number `loses` is lost once drawn."""
        within = _units_in(spec)
        entered = enter_series(self.ledger, self.store, spec, plan, pay_again, **({"resume": True} if resume else {}))
        approval = approve(self.ledger, entered, plan, resume=resume, pay_again=pay_again)
        if stored_measurement(self.ledger, self.store, approval) is not None:
            return
        requests = {request.stage: request for request in approval.requests}
        purchases = Purchases(self.ledger, self.store, lambda charge: requests[charge.stage])
        for number, charge in enumerate(plan.charges):
            purchases(charge, self._draw(within, charge, requests[charge.stage], number == loses))

    def _draw(
        self, within: frozenset[str], charge: PlannedCharge, request: ChargeRequest, lost: bool
    ) -> Mechanism[None]:
        def draw(randomness: object) -> dict[str, np.ndarray]:
            event = charge.event
            assert isinstance(event, Gaussian)
            (self.lost if lost else self.kept).append(Drawn(within, event.noise_multiplier, request.mid))
            if lost:
                raise LostDraw
            return {}

        return mechanism_of(charge.event, draw)

    def back_up(self) -> None:
        _copy(self.folder / "ledger.db", self.folder / "backup.db")

    def restore(self) -> None:
        if (self.folder / "backup.db").exists():
            _copy(self.folder / "backup.db", self.folder / "ledger.db")

    def delta_of(self, unit: str) -> float:
        """The delta that holds for the unit at the cap's epsilon. A lost draw counts if the ledger knows it."""
        known = [drawn for drawn in self.lost if self.ledger.find(drawn.mid) is not None]
        mu = math.sqrt(sum(1 / drawn.noise**2 for drawn in [*self.kept, *known] if unit in drawn.units))
        return gaussian_delta(mu, float(CAP.epsilon))


def gaussian_delta(mu: float, epsilon: float) -> float:
    if mu == 0:
        return 0.0
    phi = NormalDist().cdf
    return phi(-epsilon / mu + mu / 2) - math.exp(epsilon) * phi(-epsilon / mu - mu / 2)


def _units_in(spec: ReleaseSpec) -> frozenset[str]:
    """A disjoint period holds the units of the month or day it is named after; any other release may hold everybody."""
    if spec.rolling is None or spec.rolling.entities == "recurring":
        return frozenset(UNITS)
    named = spec.source.snapshot[: 7 if spec.rolling.period == "month" else 10]
    return frozenset(unit for unit in UNITS if unit.startswith(named))


def _copy(source: Path, target: Path) -> None:
    with sqlite3.connect(source) as read, sqlite3.connect(target) as write:
        read.backup(write)
    read.close()
    write.close()


def spec_of(edit: str, entities: str | None, period: str, snapshot: str, source: str) -> ReleaseSpec:
    base = SPECS[edit]
    rolling = None if entities is None else RollingSpec.model_validate({"period": period, "entities": entities})
    named = base.source.model_copy(update={"uri": source, "snapshot": snapshot})
    return base.model_copy(update={"source": named, "rolling": rolling})


class Declarations(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="understudy-declarations-"))
        self.clinic = Clinic(self.folder)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(
        edit=st.sampled_from(list(SPECS)),
        entities=st.sampled_from(["disjoint", "disjoint", "disjoint", "disjoint", "recurring", None]),
        period_and_snapshot=st.sampled_from([(p, s) for p, names in SNAPSHOTS.items() for s in names]),
        source=st.sampled_from(SOURCES),
        plan=st.sampled_from(list(PLANS)),
        pay_again=st.booleans(),
        resume=st.sampled_from([False, False, False, True]),
        loses=st.sampled_from([-1, -1, -1, 0, 1]),
    )
    def release(
        self, edit: str, entities: str | None, period_and_snapshot: tuple[str, str], source: str, plan: str,
        pay_again: bool, resume: bool, loses: int,
    ) -> None:  # fmt: skip
        spec = spec_of(edit, entities, *period_and_snapshot, source)
        try:
            self.clinic.release(spec, PLANS[plan], pay_again, resume, loses)
        except REFUSALS:
            return

    @rule(source=st.sampled_from(SOURCES), snapshot=st.sampled_from(SNAPSHOTS["month"]), pay_again=st.booleans())
    def october_again(self, source: str, snapshot: str, pay_again: bool) -> None:
        """The likeliest way to pass a cap, so it is tried often: one series, whatever its months are called."""
        spec = spec_of("as it was", "disjoint", "month", snapshot, source)
        try:
            self.clinic.release(spec, PLANS["one"], pay_again)
        except REFUSALS:
            return

    @rule(names=st.lists(NAMES_OF_OCTOBER, min_size=4, max_size=8, unique=True))
    def october_under_many_names(self, names: list[str]) -> None:
        """However a month is named, and as often: what is corrected, delivered by the day, or tried."""
        for name in names:
            try:
                self.clinic.release(spec_of("as it was", "disjoint", "month", name, SOURCES[0]), PLANS["one"])
            except REFUSALS:
                continue

    @rule(name=st.sampled_from(["2026-10", "2026-11"]), epsilon=st.sampled_from(["1", "50"]))
    def open_a_periods_account_by_hand(self, name: str, epsilon: str) -> None:
        for account in [*self.clinic.ledger.accounts()]:
            if "@" in account.name:
                planted = account.name.rpartition("@")[0] + "@" + name
                try:
                    self.clinic.ledger.open_account(planted, account.relation, account.unit, Budget(epsilon, "1e-6"))
                except SpecError:
                    continue

    @rule()
    def back_up(self) -> None:
        self.clinic.back_up()

    @rule()
    def restore(self) -> None:
        self.clinic.restore()

    @invariant()
    def every_unit_is_within_the_cap(self) -> None:
        for unit in UNITS:
            assert self.clinic.delta_of(unit) <= float(CAP.delta) * (1 + 1e-9), unit

    @invariant()
    def the_ledger_is_whole(self) -> None:
        assert self.clinic.ledger.verify().ok


class DeclarationsOfOldLedgers(Declarations):
    """The same, starting from months that an older version measured under names of its owner's, each once."""

    @initialize(names=st.sampled_from([("2026-10 final",), ("2026-09 final", "2026-10 final", "2026-11 final")]))
    def months_named_otherwise(self, names: tuple[str, ...]) -> None:
        clinic, plan = self.clinic, PLANS["one"]
        first = spec_of("as it was", "disjoint", "month", "2026-08", SOURCES[0])
        account = enter_series(clinic.ledger, clinic.store, first, plan).privacy.account
        for name in names:
            period = account.rpartition("@")[0] + "@" + name
            _open_as_it_was(clinic.ledger, account, period)
            spec = spec_of("as it was", "disjoint", "month", name, SOURCES[0])
            spec = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"account": period})})
            for request in approve(clinic.ledger, spec, plan).requests:
                charged = clinic.ledger.charge(request, Holder.here())
                clinic.kept.append(Drawn(_units_in(spec), 8.0, charged.mid))
                clinic.ledger.record_measurement(charged.mid, "0" * 64, charged.holder)


def _open_as_it_was(ledger: Ledger, like: str, name: str) -> None:
    cap = ledger.account(like).cap
    parent, series, label = name.split("@")
    opened = ledger.open_period_account(parent, series, label, cap)
    assert opened.name == name


QUICK = settings(
    max_examples=12, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def test_whatever_is_declared_and_true_keeps_every_unit_within_the_cap() -> None:
    run_state_machine_as_test(Declarations, settings=QUICK)


def test_months_that_an_older_version_named_otherwise_are_paid_for() -> None:
    run_state_machine_as_test(DeclarationsOfOldLedgers, settings=QUICK)
