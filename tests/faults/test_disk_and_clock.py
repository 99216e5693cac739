"""Disks that are full or lie, and clocks that move."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.faults.harness import World
from understudy.pipelines.privacy.ledger.ledger import State


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A tmpfs of 20 MiB, mounted and unmounted here (needs root, as in a container)."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a tmpfs needs root; RLIMIT_FSIZE is tested in tests/privacy/ledger/test_store.py")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_fills_up_during_the_draw_burns_that_charge_only(zygote, small_disk, tmp_path):
    world = World(zygote, small_disk, f"sqlite:///{tmp_path}/ledger.db")
    assert world.release("small").get("published")
    answer = world.release("large", megabytes=40)
    assert answer["error"] == "ChargeBurnt", answer
    assert "OSError" in answer["message"]
    assert world.violations() == []
    assert sorted(world.states()) == [State.BURNT, State.MEASURED]
    assert [path.name for path in world.store.root.iterdir() if path.name.startswith(".")] == []
    assert world.release("next").get("published")
    assert world.violations() == []


def test_a_disk_that_is_full_is_found_before_anything_is_charged(zygote, small_disk, tmp_path):
    world = World(zygote, small_disk, f"sqlite:///{tmp_path}/ledger.db")
    (small_disk / "ballast").write_bytes(b"\0" * (10 << 20))
    answer = world.release()
    assert (answer["error"], answer["code"]) == ("LedgerError", 1)
    assert "Nothing was charged" in answer["message"]
    assert (world.states(), world.journal("draw")) == ([], [])


def test_a_full_disk_under_the_ledger_charges_nothing(zygote, small_disk, tmp_path):
    world = World(zygote, tmp_path / "world", f"sqlite:///{small_disk}/ledger.db")
    free = json.loads(subprocess.check_output(["stat", "-f", "-c", '{"f": %a, "s": %S}', str(small_disk)]))
    (small_disk / "ballast").write_bytes(b"\0" * (free["f"] * free["s"]))
    answer = world.release()
    assert answer["error"] == "LedgerError", answer
    assert world.journal("draw") == []
    (small_disk / "ballast").unlink()
    assert world.release().get("published")
    assert world.violations() == []


@pytest.mark.parametrize("damage", ["torn", "flipped", "gone"])
def test_a_damaged_checkpoint_is_refused_and_never_drawn_again(world, damage):
    world.release(fault="after_t2")
    (mid,) = world.store.mids()
    path = world.store.path(mid) / "arrays.parquet"
    whole = path.read_bytes()
    middle = len(whole) // 2
    if damage == "torn":
        path.write_bytes(whole[:middle])
    elif damage == "flipped":
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :])
    else:
        path.unlink()
    answer = world.release()
    assert (answer["error"], answer["code"]) == ("LedgerError", 1)
    assert "backup" in answer["message"]
    assert world.violations() == []
    path.write_bytes(whole)
    assert world.release().get("published")
    assert len(world.journal("draw")) == 1


def test_a_torn_checkpoint_of_a_dead_run_is_not_recovered(world):
    world.release(fault="measurement_renamed")
    (mid,) = world.store.mids()
    path = world.store.path(mid) / "measurement.json"
    path.write_bytes(path.read_bytes()[:-10])
    assert world.release()["error"] == "ChargeBurnt"
    assert world.violations() == []


@pytest.mark.parametrize("clock", [-86400.0 * 400, 86400.0 * 400])
def test_a_moved_clock_changes_nothing_on_one_machine(world, clock):
    answers = world.zygote.run(
        world.job(draw_seconds=0.4),
        world.job(clock=clock, after_a_draw=True),
        world.job(clock=-clock, after_a_draw=True),
    )
    assert [answer.get("published") for answer in answers] == [True] * 3
    assert world.violations() == []
    assert len(world.journal("draw")) == 1
    killed = world.release("killed", fault="after_t1", clock=clock)
    assert killed == {"killed": True}
    assert world.release("killed")["error"] == "ChargeBurnt"  # the kernel knows it is dead, whatever the lease says


def test_a_clock_that_is_ahead_on_another_machine_does_not_burn_a_beating_holder(world):
    """The other machine reads the lease as long expired, but sees it move."""
    answers = world.zygote.run(
        world.job(place="one host", draw_seconds=0.6),
        world.job(place="another host", clock=86400.0, heartbeat=5, after_a_draw=True),
    )
    assert [answer.get("published") for answer in answers] == [True, True]
    assert (world.states(), len(world.journal("draw"))) == ([State.MEASURED], 1)
