"""Many processes at once on one account. The full race (32 processes x 100 spends) is in soak.py."""

from __future__ import annotations

from tests.faults.harness import World, unexpected
from tests.faults.soak import race


def test_duplicates_started_together_make_one_charge_and_one_draw(world):
    answers = world.zygote.run(*(world.job(draw_seconds=0.05) for _ in range(6)))
    assert [answer.get("published") for answer in answers] == [True] * 6
    assert world.violations() == []
    assert (len(world.states()), len(world.journal("draw"))) == (1, 1)


def test_duplicates_of_which_some_are_killed(world):
    faults = ["after_t1", "measurement_renamed", "after_t2", "", "", "inside_t1"]
    assert unexpected(world.zygote.run(*(world.job(fault=fault) for fault in faults))) == []
    assert world.violations() == []
    assert unexpected([world.release()]) == []
    assert (len(world.states()), len(world.journal("draw"))) == (1, len(world.journal("draw")[:1]))


def test_a_race_never_overspends(zygote, ledger_url, tmp_path):
    world = World(zygote, tmp_path / "world", ledger_url, cap="3", sigma=3.0)
    figures = race(world, processes=8, spends=6)
    assert world.violations() == []
    assert figures["refused"] > 0
    assert figures["charges"] == figures["fit"]


def test_a_spec_edited_in_mid_run_is_another_charge(world):
    world.release(fault="after_draw")
    edited = world.release(spec_hash="6" * 64)
    assert edited.get("published"), edited
    assert world.violations() == []
    assert len(world.states()) == 2
