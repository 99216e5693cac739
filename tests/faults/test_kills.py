"""SIGKILL at every fault point, in a real process, then a clean retry. Fifty rounds of it are in soak.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harness import World, Zygote, unexpected
from tests.postgres import new_database
from understudy.pipelines.privacy.ledger.fault_points import FAULT_POINTS, PROTOCOL_POINTS


@pytest.mark.parametrize(
    ("database", "fault"),
    # Outside the protocol the database does nothing, so PostgreSQL is spared those here.
    [*(("sqlite", fault) for fault in FAULT_POINTS), *(("postgresql", fault) for fault in PROTOCOL_POINTS)],
)
def test_a_kill_at_any_point_costs_at_most_its_own_charge(
    zygote: Zygote, tmp_path: Path, database: str, fault: str
) -> None:
    url = new_database() if database == "postgresql" else f"sqlite:///{tmp_path}/ledger.db"
    world = World(zygote, tmp_path / "world", url)
    assert world.release(fault=fault) == {"killed": True}
    assert world.violations() == []
    assert world.outcome_problems("s", fault) == []
    again = world.release(pay_again=True)
    assert again.get("published"), again
    assert world.violations() == []


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)])
def test_a_hundred_retries_of_one_release_cost_one_charge(zygote: Zygote, tmp_path: Path, database: str) -> None:
    """Every second one is killed somewhere; ten run at a time."""
    url = new_database() if database == "postgresql" else f"sqlite:///{tmp_path}/ledger.db"
    world = World(zygote, tmp_path / "world", url)
    faults = [FAULT_POINTS[index % len(FAULT_POINTS)] if index % 2 else "" for index in range(100)]
    for start in range(0, 100, 10):
        assert unexpected(world.zygote.run(*(world.job(fault=f) for f in faults[start : start + 10]))) == []
    assert world.violations() == []
    assert len(world.states()) == 1
    assert len(world.journal("draw")) <= 1
