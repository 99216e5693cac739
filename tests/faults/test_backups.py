"""Backups made while releases run and are killed: each verifies, and what is restored from it never draws what it
knows a second time."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.harness import World, Zygote, unexpected
from understudy.pipelines.privacy.ledger.fault_points import PROTOCOL_POINTS
from understudy.pipelines.privacy.ledger.ledger import Ledger, State
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.releasing.backing_up import back_up, restore
from understudy.pipelines.releasing.workspace import Workspace

ENDS = (*PROTOCOL_POINTS, "whole", "whole too")
"""Where a release is killed, or that it is not."""
SNAPSHOTS = [f"{end}-{copy}" for end in ENDS for copy in range(2)]


class Backing:
    """Backups one after the other, by a thread of this process, until it is told to stop; and one more after that."""

    def __init__(self, world: World) -> None:
        self.world, self.made, self.errors = world, list[Path](), list[BaseException]()
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run)

    def __enter__(self) -> Backing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._back_up()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._back_up()
        except BaseException as error:
            self.errors.append(error)

    def _back_up(self) -> None:
        place = self.world.directory / f"backup-{len(self.made)}"
        back_up(Workspace(self.world.directory, self.world.url), self.world.store, place)
        self.made.append(place)


@pytest.fixture
def killed(zygote: Zygote, tmp_path: Path, ledger_url: str) -> tuple[World, list[Path]]:
    """A world in which a release of each snapshot was killed at its point, and then others ran to their end."""
    world = World(zygote, tmp_path / "world", ledger_url)
    with Backing(world) as backing:
        for copy in range(2):
            batch = [world.job(f"{end}-{copy}", fault=end if end in PROTOCOL_POINTS else "") for end in ENDS]
            assert unexpected(zygote.run(*batch)) == []
    assert backing.errors == []
    return world, backing.made


def test_every_backup_verifies_and_a_restored_one_draws_nothing_that_it_knows(
    killed: tuple[World, list[Path]], zygote: Zygote, tmp_path: Path
) -> None:
    world, backups = killed
    assert len(backups) >= 3
    sizes = [len(Ledger(f"sqlite:///{backup}/ledger.db").history()) for backup in backups]
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0], "no backup was made while releases ran"
    assert world.violations() == []
    for index in sorted({len(backups) // 3, len(backups) // 2, len(backups) - 1}):
        place = tmp_path / f"restored-{index}"
        url = f"sqlite:///{place}/ledger.db"
        done = restore(Workspace(place, url), MeasurementStore(place / "measurements"), backups[index])
        assert done.newer == ()
        again = World(zygote, place, url)
        assert again.ledger.verify().ok
        known = {charge.mid: charge for charge in again.ledger.charges("clinic")}
        assert sorted(again.store.mids()) == sorted(m for m, c in known.items() if c.state is State.MEASURED)
        answers = zygote.run(*(again.job(snapshot, wait=5) for snapshot in SNAPSHOTS))
        assert unexpected(answers) == []
        draws = Counter(entry["mid"] for entry in again.journal("draw"))
        assert not draws.keys() & known.keys(), "something that the backup knew was drawn again"
        assert set(draws.values()) <= {1}
        charges = {charge.mid: charge for charge in again.ledger.charges("clinic")}
        assert draws.keys() == charges.keys() - known.keys(), "each further draw has a charge of its own"
        settled = {mid: charges[mid].state for mid, charge in known.items() if charge.state is State.CHARGED}
        assert set(settled.values()) <= {State.BURNT}
        assert all(charges[mid] == charge for mid, charge in known.items() if charge.state is not State.CHARGED)
        assert again.ledger.verify().ok
