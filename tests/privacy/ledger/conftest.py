"""One ledger, store and account for each test, on SQLite and on PostgreSQL: the same suite runs on both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.recipes import mechanism_of
from understudy.pipelines.privacy.events import Event, Gaussian
from understudy.pipelines.privacy.ledger.ledger import Account, ChargeRequest, Ledger
from understudy.pipelines.privacy.ledger.spend import Patience, Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import PlannedCharge
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

UNIT = Unit("patient", 5)
STORED = {"std": 10.0, "cliques": [[0, 1]]}


@dataclass
class Bench:
    """A ledger with one open account, and purchases that count their draws."""

    url: str
    ledger: Ledger
    store: MeasurementStore
    account: Account
    draws: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def request(self, snapshot: str = "2026-01", stage: str = "marginals", **changes: Any) -> ChargeRequest:
        terms: dict[str, Any] = {
            "account": self.account.name,
            "relation": self.account.relation,
            "unit": self.account.unit,
            "release": "visits",
            "spec_hash": "5" * 64,
            "snapshot": snapshot,
            "stage": stage,
            "event": Gaussian(10.0),
            "flow_run": "run-1",
        }
        return ChargeRequest(**{**terms, **changes})

    def buy(
        self,
        snapshot: str = "2026-01",
        stage: str = "marginals",
        event: Event = Gaussian(10.0),
        draw: Callable[[Any], dict[str, np.ndarray]] | None = None,
        facts: dict[str, Any] | None = None,
        ledger: Ledger | None = None,
        pay_again: bool = False,
        patience: Patience | None = None,
        **terms: Any,
    ) -> Measurement:
        def counted(randomness: Any) -> dict[str, np.ndarray]:
            self.draws.append(f"{snapshot}/{stage}")
            if draw is not None:
                return draw(randomness)
            return {"0,1": (randomness.words(12) >> np.uint64(40)).astype(np.int64).reshape(3, 4)}

        purchases = Purchases(
            ledger or self.ledger,
            self.store,
            lambda planned: self.request(snapshot, planned.stage, event=planned.event, **terms),
            on_event=lambda kind, charge: self.events.append(kind),
            pay_again=pay_again,
            patience=patience or Patience(lease=5, heartbeat=0.05, wait=0.4, poll=0.01),
        )
        return purchases(PlannedCharge(stage, event), mechanism_of(event, counted, STORED if facts is None else facts))


@pytest.fixture
def bench(ledger_url: str, tmp_path: Path) -> Bench:
    ledger = Ledger(ledger_url, busy_seconds=20, patience_seconds=2)
    account = ledger.open_account("clinic", Relation.ADD_REMOVE, UNIT, Budget("3", "1e-6"), "for the tests")
    return Bench(ledger_url, ledger, MeasurementStore(tmp_path / "measurements"), account)
