"""A Hypothesis state machine: any sequence of runs, kills, failures, burns, repairs and cap changes keeps the
invariants. The long version (2,000 episodes on each database) is in soak.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.faults.harness import World, Zygote, unexpected
from tests.postgres import new_database
from understudy.pipelines.privacy.ledger.fault_points import FAULT_POINTS, PROTOCOL_POINTS
from understudy.pipelines.privacy.ledger.ledger import State
from understudy.pipelines.privacy.relation import Budget

SNAPSHOTS = st.sampled_from(["jan", "feb", "mar"])
FAULTS = st.sampled_from(["", *PROTOCOL_POINTS, *FAULT_POINTS])


def machine(make_world: Callable[[], World]) -> type[RuleBasedStateMachine]:
    class Episode(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.world = make_world()

        @rule(snapshot=SNAPSHOTS, fault=FAULTS)
        def run(self, snapshot: str, fault: str) -> None:
            assert unexpected([self.world.release(snapshot, fault=fault)]) == []

        @rule(snapshot=SNAPSHOTS, faults=st.lists(FAULTS, min_size=2, max_size=3), draw=st.sampled_from([0, 0.03]))
        def run_together(self, snapshot: str, faults: list[str], draw: float) -> None:
            jobs = [self.world.job(snapshot, fault=fault, draw_seconds=draw) for fault in faults]
            assert unexpected(self.world.zygote.run(*jobs)) == []

        @rule(snapshot=SNAPSHOTS, after=st.floats(0, 0.2))
        def kill_at_some_time(self, snapshot: str, after: float) -> None:
            assert unexpected([self.world.release(snapshot, kill_after=after)]) == []

        @rule(snapshot=SNAPSHOTS)
        def fail_in_the_draw(self, snapshot: str) -> None:
            assert unexpected([self.world.release(snapshot, draw_fails=True)]) == []

        @rule(snapshot=SNAPSHOTS, fault=FAULTS)
        def pay_again(self, snapshot: str, fault: str) -> None:
            assert unexpected([self.world.release(snapshot, pay_again=True, fault=fault)]) == []

        @rule()
        def an_operator_burns_what_is_open(self) -> None:
            for charge in self.world.ledger.charges("clinic"):
                if charge.state is State.CHARGED:
                    self.world.ledger.burn(charge.mid, "by hand")

        @rule(snapshot=SNAPSHOTS)
        def a_checkpoint_is_damaged_for_a_while(self, snapshot: str) -> None:
            damaged = [self.world.store.path(mid) / "arrays.parquet" for mid in self.world.store.mids()]
            whole = {path: path.read_bytes() for path in damaged}
            for path, content in whole.items():
                path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            drawn = len(self.world.journal("draw"))
            answer = self.world.release(snapshot)
            if any(c.snapshot == snapshot and c.state is State.MEASURED for c in self.world.ledger.charges("clinic")):
                assert len(self.world.journal("draw")) in (drawn, drawn + 1)
                assert answer.get("error") == "LedgerError" or len(self.world.journal("draw")) == drawn + 1
            for path, content in whole.items():
                if path.parent.exists():
                    path.write_bytes(content)

        @rule(cap=st.sampled_from(["0.5", "1", "50"]))
        def change_the_cap(self, cap: str) -> None:
            spent = self.world.ledger.balance("clinic").spent.epsilon
            if spent <= float(cap):
                self.world.ledger.change_cap("clinic", Budget(cap, "1e-6"), "random")

        @invariant()
        def nothing_is_violated(self) -> None:
            assert self.world.violations() == []

    return Episode


def worlds(zygote: Zygote, directory: Path, database: str) -> Callable[[], World]:
    numbers = itertools.count()

    def make() -> World:
        place = directory / str(next(numbers))
        url = new_database() if database == "postgresql" else f"sqlite:///{place}.db"
        return World(zygote, place, url, cap="50")

    return make


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_random_episodes(zygote: Zygote, tmp_path: Path, database: str) -> None:
    run_state_machine_as_test(
        machine(worlds(zygote, tmp_path, database)),
        settings=settings(
            max_examples=5, stateful_step_count=6, deadline=None, suppress_health_check=list(HealthCheck), database=None
        ),
    )


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_many_random_episodes(zygote: Zygote, tmp_path: Path, database: str) -> None:
    run_state_machine_as_test(
        machine(worlds(zygote, tmp_path, database)),
        settings=settings(
            max_examples=100, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
