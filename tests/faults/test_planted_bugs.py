"""The harness is tested too: each of eight protocol bugs breaks an invariant that the same scenario keeps without it.

On SQLite: the bugs are in the protocol, not in the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.faults.harness import World, Zygote
from understudy.pipelines.privacy.ledger import store as measurement_store


def a_paused_holder_is_burnt_by_a_duplicate_elsewhere(world: World, bug: str) -> None:
    """As when the network cuts its heartbeats off: the lease runs out while it draws."""
    paused = world.job(bug=bug, place="one host", lease=0.01, heartbeat=1000, draw_until="burnt")
    world.zygote.run(paused, world.job(place="another host", after_a_draw=True, touch="burnt"))


def a_draw_fails_and_is_retried(world: World, bug: str) -> None:
    world.release(bug=bug, draw_fails=True)
    world.release(bug=bug)


def a_kill_between_draw_and_store(world: World, bug: str) -> list[str]:
    world.release(bug=bug, fault="after_draw")
    found = world.violations()
    world.release(bug=bug)
    return found


def more_releases_at_once_than_the_cap_allows(world: World, bug: str) -> None:
    world.zygote.run(*(world.job(f"s{index}", bug=bug, sigma=0.2, meet=4) for index in range(4)))


def two_duplicates_at_once(world: World, bug: str) -> None:
    world.zygote.run(*(world.job(bug=bug, meet=2) for _ in range(2)))


def a_stored_measurement_is_half_overwritten(world: World, bug: str) -> None:
    world.release(bug=bug)
    (mid,) = world.store.mids()
    arrays = {"counts": np.arange(20).reshape(4, 5)}
    (world.store.path(mid) / "arrays.parquet").write_bytes(measurement_store._to_parquet(arrays))
    world.release(bug=bug)


def a_published_file_is_torn(world: World, bug: str) -> None:
    world.release("first")
    world.release("second", bug=f"torn_publication+{bug}" if bug else "torn_publication")


Scenario = Callable[[World, str], list[str] | None]
SCENARIOS: dict[str, tuple[Scenario, str]] = {
    "no_row_count_fence": (a_paused_holder_is_burnt_by_a_duplicate_elsewhere, "was not waiting for a measurement"),
    "refund_on_failure": (a_draw_fails_and_is_retried, "was drawn without a charge"),  # the retry's T1 finds it gone
    "redraw_on_retry": (a_kill_between_draw_and_store, "was drawn 2 times"),
    "charge_after_draw": (a_kill_between_draw_and_store, "was drawn without a charge"),
    "cap_outside_transaction": (more_releases_at_once_than_the_cap_allows, "exceed the cap"),
    "missing_unique_key+insert_decides": (two_duplicates_at_once, "was charged 2 times"),
    "trust_in_a_torn_file": (a_stored_measurement_is_half_overwritten, "other numbers than were drawn"),
    "pointer_before_hash_check": (a_published_file_is_torn, "latest is not whole"),
}
"""Each bug, a scenario in which it matters, and the violation it must show as."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.mark.parametrize("bug", SCENARIOS)
def test_the_planted_bug_is_caught(zygote: Zygote, url: str, tmp_path: Path, bug: str) -> None:
    if "missing_unique_key" in bug:
        assert zygote.run({"make": url, "bug": "missing_unique_key"}) == [{"done": True}]
    world = World(zygote, tmp_path / "world", url)
    scenario, shows_as = SCENARIOS[bug]
    found = [*(scenario(world, bug) or []), *world.violations()]
    assert any(shows_as in violation for violation in found), found


@pytest.mark.parametrize("bug", SCENARIOS)
def test_without_the_bug_the_same_scenario_breaks_nothing(zygote: Zygote, url: str, tmp_path: Path, bug: str) -> None:
    scenario, _ = SCENARIOS[bug]
    world = World(zygote, tmp_path / "world", url)
    assert [*(scenario(world, "") or []), *world.violations()] == []


def test_the_unique_key_holds_even_if_t1_does_not_look_first(zygote: Zygote, url: str, tmp_path: Path) -> None:
    world = World(zygote, tmp_path / "world", url)
    two_duplicates_at_once(world, "insert_decides")
    assert world.violations() == []
    assert len(world.journal("draw")) == 1


def test_the_paused_holder_really_was_burnt_and_stopped(zygote: Zygote, url: str, tmp_path: Path) -> None:
    world = World(zygote, tmp_path / "world", url)
    a_paused_holder_is_burnt_by_a_duplicate_elsewhere(world, "")
    assert [json.loads(json.dumps(state)) for state in world.states()] == ["BURNT"]
    assert len(world.journal("draw")) == 1
    assert world.journal("published") == []
