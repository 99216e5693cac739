"""The kill storm: concurrent releases by the real command line, most of them killed, and what must hold afterwards.

    python -m tests.cli.storm FOLDER [--database sqlite|postgresql|both] [--rounds 8] [--seed 7]

Each round starts eight releases at once, of five snapshots. One is killed between T1 and the stored measurement, one at
each point of the purchase in turn, one at each stage in turn, four from outside at a random moment of a random stage,
and one is left alone. When all have ended, two snapshots are released again. PostgreSQL keeps the measurements too.

After each round, within 10 s: no process and no temporary file. At every round's end: the history verifies, no charge
is made twice or lost, nothing leaves MEASURED or BURNT, all charges are within the cap, each MEASURED one has its
measurement, and what is published was paid for, once for each snapshot, and verifies. Prints one line of JSON for each
database; any violation is printed and ends with exit code 1. `make storm` runs it.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.commands import Place, Running, wait_for
from tests.examples import build_clinic
from tests.faults.harness import BURNT_AT
from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.ledger.fault_points import PROTOCOL_POINTS, STAGE_POINTS
from understudy.pipelines.privacy.ledger.ledger import Charge, Ledger, State
from understudy.pipelines.publishing.stored import MANIFEST
from understudy.pipelines.publishing.verifying import verify_release
from understudy.pipelines.releasing.keys import vouched
from understudy.pipelines.releasing.stores import store_of
from understudy.pipelines.releasing.workspace import Workspace

STAGES = ("waiting for Prefect", "planning", "opening the table", "counting and measuring", "generating", "publishing")
ENDINGS = {0: "published", 4: "burnt", -signal.SIGKILL: "killed"}
HELD = "is being measured by"
LONGEST = 900.0


@dataclass
class Job:
    """One release: killed at a fault point, from outside when it tells `stage` and `delay` later, or not at all."""

    snapshot: str
    fault: str = ""
    stage: str = ""
    delay: float = 0.0
    running: Running | None = field(default=None, repr=False)
    seen: float | None = None

    def drive(self) -> bool:
        """Whether it has ended; kills it when its moment has come."""
        assert self.running is not None
        process = self.running.process
        if process.poll() is not None:
            return True
        if self.stage and self.seen is None and self.stage in self.running.err.read_text():
            self.seen = time.monotonic()
        if self.seen is not None and time.monotonic() >= self.seen + self.delay:
            process.send_signal(signal.SIGKILL)
        return False


class Storm:
    def __init__(self, folder: Path, database: str, seed: int) -> None:
        folder.mkdir(parents=True)
        self.place, self.random = Place(folder), random.Random(seed)
        self.environment: dict[str, str] = {}
        if database == "postgresql":
            from tests.postgres import new_database

            self.environment = {"UNDERSTUDY_LEDGER": new_database(), "UNDERSTUDY_STORE": "ledger"}
        self.workspace = Workspace.from_environment({"UNDERSTUDY_HOME": str(self.place.home), **self.environment})
        self.endings, self.violations, self.states = Counter[str](), list[str](), dict[str, State]()
        self.between, self.slowest = 0, 0.0
        build_clinic(folder)
        opened = self.place.run("ledger", "open", "clinic", "--epsilon", "9", "--delta", "1e-6", "--entity",
                                "patient_id", "--max-rows", 4, **self.environment)  # fmt: skip
        assert opened.code == 0, opened.text

    def round(self, number: int) -> None:
        a, b, c, d, e = (f"r{number}-{letter}" for letter in "abcde")
        jobs = [Job(a, fault=BURNT_AT[number % len(BURNT_AT)]), Job(b, fault=PROTOCOL_POINTS[number % 8]),
                Job(c, fault=STAGE_POINTS[number % len(STAGE_POINTS)])]  # fmt: skip
        jobs += [Job(each, stage=self.random.choice(STAGES), delay=2 * self.random.random()) for each in (d, d, e, e)]
        self._together([*jobs, Job(self.random.choice([d, e]))])
        self._quiet(number)
        self._check()
        for job in self._together([Job(a), Job(e)]):
            if job.snapshot == a and job.running is not None and job.running.process.returncode != 4:
                self.violations.append(f"{a} was charged and never stored, and is not told as burnt")
        self._quiet(number)
        self._check()

    def _together(self, jobs: list[Job]) -> list[Job]:
        for job in jobs:
            spec = self.place.spec(job.snapshot, ("epsilon: 1.0", "epsilon: 0.3"))
            job.running = self.place.start("release", spec, UNDERSTUDY_FAULT=job.fault, **self.environment)
        wait_for(lambda: sum(not job.drive() for job in jobs) == 0, lambda: str(jobs), LONGEST)
        for job in jobs:
            assert job.running is not None
            ended = job.running.end()
            ending = ENDINGS.get(ended.code, "held" if HELD in ended.text else f"code {ended.code}")
            self.endings[ending] += 1
            self.between += ending == "killed" and job.fault in BURNT_AT
            if ending.startswith("code") or "Traceback" in ended.text:
                self.violations.append(f"{job}: {ending}: {ended.text[-400:]}")
        return jobs

    def _quiet(self, number: int) -> None:
        started = time.monotonic()
        try:
            self.place.wait_until_nothing_is_left()
        except AssertionError as error:
            self.violations.append(f"round {number}: left 10 s later: {error}")
        self.slowest = max(self.slowest, time.monotonic() - started)

    def _check(self) -> None:
        ledger, store = Ledger(self.workspace.ledger_url), store_of(self.workspace)
        charges = ledger.charges("clinic")
        self.violations += [f"history: {problem}" for problem in ledger.verify().problems]
        self.violations += self._changed(charges)
        again = Counter((charge.snapshot, charge.attempt) for charge in charges)
        self.violations += [f"{which} was charged {times} times" for which, times in again.items() if times > 1]
        cap = ledger.account("clinic").cap
        spent = composed_loss([charge.event for charge in charges], float(cap.delta), ledger.account("clinic").relation)
        if spent.epsilon > float(cap.epsilon):
            self.violations.append(f"spent {spent.epsilon} of {cap.epsilon}")
        for charge in charges:
            if charge.state is State.MEASURED:
                try:
                    store.load(charge.mid, charge.measurement_sha256 or "")
                except LedgerError as error:
                    self.violations.append(f"{charge.snapshot}: {error.problem}")
        self._check_published({charge.mid: charge for charge in charges})

    def _changed(self, charges: list[Charge]) -> list[str]:
        now = {charge.mid: charge.state for charge in charges}
        before, self.states = self.states, now
        lost = [f"{mid[:8]} is gone" for mid in before if mid not in now]
        return lost + [f"{mid[:8]} was {state.value} and is {now[mid].value}" for mid, state in before.items()
                       if mid in now and state is not State.CHARGED and now[mid] is not state]  # fmt: skip

    def _check_published(self, charges: dict[str, Charge]) -> None:
        found = [path.parent for path in self.place.folder.glob(f"releases/*/*/{MANIFEST}")]
        snapshots = Counter[str]()
        for place in (each for each in found if each.name != "latest"):
            certificate = verify_release(str(place), vouched(self.workspace))
            self.violations += [f"{place.name}: {each.what}" for each in certificate.findings if not each.holds]
            snapshots[certificate.manifest.snapshot] += 1
            for event in certificate.manifest.guarantee.events:
                charge = charges.get(event.mid)
                if charge is None or (charge.state, charge.measurement_sha256) != (
                    State.MEASURED, event.measurement_sha256,
                ):  # fmt: skip
                    self.violations.append(f"{place.name} was published without a measured charge")
        self.violations += [f"{name} was published {times} times" for name, times in snapshots.items() if times > 1]
        self.published = len(snapshots)

    def figures(self) -> dict[str, Any]:
        states = Counter(state.value for state in self.states.values())
        return {
            "endings": dict(self.endings),
            "killed between T1 and the stored measurement": self.between,
            "charges": dict(states),
            "published": self.published,
            "slowest to leave nothing, s": round(self.slowest, 1),
            "violations": self.violations,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the PostgreSQL it started is stopped as well
    failed = False
    for database in ["sqlite", "postgresql"] if given.database == "both" else [given.database]:
        started = time.monotonic()
        storm = Storm(given.folder.absolute() / database, database, given.seed)
        for number in range(given.rounds):
            storm.round(number)
            print(f"round {number + 1}: {dict(storm.endings)}, {len(storm.violations)} violations", file=sys.stderr)
        took = round(time.monotonic() - started)
        print(json.dumps({"database": database, "rounds": given.rounds, **storm.figures(), "took_s": took}), flush=True)
        failed |= bool(storm.violations)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
