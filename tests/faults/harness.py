"""Worlds in which releases are killed, and the invariants that must hold in each of them at every moment.

Invariants (docs/proofs/spend-once.md):
 1. at most one draw for each mid, and only for a mid that has a charge;
 2. at most one charge for each mid; a charge never disappears and never leaves MEASURED or BURNT;
 3. all charges composed are within the cap;
 4. what is published was drawn, once, under a charge that is MEASURED with that very hash; always the same content;
 5. whatever `latest` shows is whole;
 6. the hash-chained history verifies and agrees with the tables.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from understudy.pipelines.errors import PublishError
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.ledger.fault_points import FAULT_POINTS
from understudy.pipelines.privacy.ledger.ledger import Ledger, State
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.publishing.targets.directory import LATEST, read_release

BURNT_AT = ("after_t1", "after_draw", "measurement_staged")
"""Fault points at which the budget is lost: charged, and no complete measurement on disk."""
EXPECTED_ERRORS = {"ChargeBurnt", "ChargeHeld", "BudgetRefused"}


class Zygote:
    """The forking worker process."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("worker.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *jobs: dict[str, Any]) -> list[dict[str, Any]]:
        """Start all the jobs at once and wait until each has ended or was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"jobs": jobs}) + "\n")
        self._process.stdin.flush()
        answers: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return answers

    def close(self) -> None:
        self._process.communicate()


class World:
    """One ledger, one store, one place to publish, and a journal of what happened."""

    def __init__(self, zygote: Zygote, directory: Path, url: str, cap: str = "50", sigma: float = 10.0) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.zygote, self.directory, self.url, self.sigma = zygote, directory, url, sigma
        self.ledger = Ledger(url, busy_seconds=300)
        self.ledger.open_account("clinic", Relation.ADD_REMOVE, Unit("patient", 5), Budget(cap, "1e-6"))
        self.store = MeasurementStore(directory / "measurements")
        self._seen: dict[str, State] = {}

    def job(self, snapshot: str = "s", **options: Any) -> dict[str, Any]:
        place = {"world": str(self.directory), "url": self.url, "sigma": self.sigma, "snapshot": snapshot}
        return {**place, **options}

    def release(self, snapshot: str = "s", **options: Any) -> dict[str, Any]:
        return self.zygote.run(self.job(snapshot, **options))[0]

    def journal(self, what: str) -> list[dict[str, Any]]:
        path = self.directory / "journal"
        lines = path.read_text().splitlines() if path.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["what"] == what]

    def states(self) -> list[State]:
        return [charge.state for charge in self.ledger.charges("clinic")]

    def violations(self) -> list[str]:
        """Every broken invariant, in words."""
        charges = self.ledger.charges("clinic")
        found = [f"history: {problem}" for problem in self.ledger.verify().problems]
        found += self._bad_charges(charges)
        by_mid = {charge.mid: charge for charge in charges}
        draws = Counter(entry["mid"] for entry in self.journal("draw"))
        found += [f"{mid[:8]} was drawn {count} times" for mid, count in draws.items() if count > 1]
        found += [f"{mid[:8]} was drawn without a charge" for mid in draws if mid not in by_mid]
        found += self._bad_publications(by_mid)
        return found

    def _bad_charges(self, charges: list[Any]) -> list[str]:
        found = []
        mids = Counter(charge.mid for charge in charges)
        found += [f"{mid[:8]} was charged {count} times" for mid, count in mids.items() if count > 1]
        account = self.ledger.account("clinic")
        loss = composed_loss([charge.event for charge in charges], float(account.cap.delta), account.relation)
        if loss.epsilon > float(account.cap.epsilon):
            found.append(f"spent {loss.epsilon} of {account.cap.epsilon}")
        now = {charge.mid: charge.state for charge in charges}
        for mid, before in self._seen.items():
            if now.get(mid) != before and before is not State.CHARGED:
                found.append(f"{mid[:8]} went from {before} to {now.get(mid, 'nothing')}")
            if mid not in now:
                found.append(f"{mid[:8]} disappeared")
        self._seen = now
        return found

    def _bad_publications(self, by_mid: dict[str, Any]) -> list[str]:
        found = []
        drawn = {entry["mid"]: entry["content"] for entry in self.journal("drawn")}
        for entry in self.journal("published"):
            charge = by_mid.get(entry["mid"])
            if charge is None or (charge.state, charge.measurement_sha256) != (State.MEASURED, entry["sha256"]):
                found.append(f"{entry['mid'][:8]} was published without a measured charge")
            if entry["content"] != drawn.get(entry["mid"]):
                found.append(f"{entry['mid'][:8]} was published with other numbers than were drawn")
        folder = self.directory / "published" / "visits"
        if (folder / LATEST).is_symlink():
            try:
                event = read_release(folder / LATEST).guarantee.events[0]
            except PublishError as error:
                return [*found, f"latest is not whole: {error.problem}"]
            charge = by_mid.get(event.mid)
            if charge is None or charge.measurement_sha256 != event.measurement_sha256:
                found.append("latest shows a release without a measured charge")
        return found

    def outcome_problems(self, snapshot: str, fault: str) -> list[str]:
        """After one killed run:

        a clean retry must end well where nothing was lost, and burnt where it was.
        """
        retry = self.release(snapshot)
        charge = max(
            (c for c in self.ledger.charges("clinic") if c.snapshot == snapshot), key=lambda c: c.attempt, default=None
        )
        if fault in BURNT_AT:
            wanted = charge is not None and charge.state is State.BURNT and retry.get("error") == "ChargeBurnt"
        else:
            wanted = charge is not None and charge.state is State.MEASURED and retry.get("published") is True
        return [] if wanted else [f"after a kill at {fault}: {retry}, {charge}"]


def unexpected(answers: list[dict[str, Any]]) -> list[str]:
    """Answers that are neither success, nor a kill that was asked for, nor an error the protocol promises."""
    return [
        str(answer)
        for answer in answers
        if not (answer.get("killed") or answer.get("done") or answer.get("error") in EXPECTED_ERRORS)
    ]


assert set(BURNT_AT) < set(FAULT_POINTS)
