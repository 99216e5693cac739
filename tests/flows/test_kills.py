"""A run killed with SIGKILL at any stage boundary is finished by the next one: one charge, one draw, one release."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from click.testing import Result

from tests.flows.conftest import Clinic
from tests.flows.processes import run_command
from understudy.pipelines.privacy.ledger.fault_points import STAGE_POINTS
from understudy.pipelines.privacy.ledger.ledger import State

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
FAST = ("after_privatize", "publish_before_pointer")
BEFORE_THE_CHARGE = ("after_select", "after_ingest", "after_normalize", "before_privatize")


def kill_and_finish(clinic: Clinic, run: Run, point: str) -> None:
    assert run_command(clinic.folder, clinic.home, "release", clinic.spec, fault=point) == -signal.SIGKILL
    charged = clinic.charges
    assert len(charged) == (0 if point in BEFORE_THE_CHARGE else 1)
    again = run("release", clinic.spec)
    assert again.exit_code == 0, again.output
    assert ("spent      nothing" in again.output) == bool(charged)
    [charge] = clinic.charges
    assert charge.state is State.MEASURED
    assert charged in ([], [charge])
    assert len(clinic.releases) == 1
    assert (clinic.folder / "releases" / "clinic-visits" / "latest" / "manifest.json").exists()
    assert clinic.ledger.verify().ok


@pytest.mark.parametrize("point", FAST)
def test_killed_and_finished(clinic: Clinic, run: Run, point: str) -> None:
    kill_and_finish(clinic, run, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", [point for point in STAGE_POINTS if point not in FAST])
def test_killed_and_finished_at_every_other_stage(clinic: Clinic, run: Run, point: str) -> None:
    kill_and_finish(clinic, run, point)


def test_killed_between_charge_and_store_is_burnt_and_can_be_paid_again(clinic: Clinic, run: Run) -> None:
    assert run_command(clinic.folder, clinic.home, "release", clinic.spec, fault="after_draw") == -signal.SIGKILL
    [charge] = clinic.charges
    assert charge.state is State.CHARGED
    burnt = run("release", clinic.spec)
    assert burnt.exit_code == 4, burnt.output
    assert "--pay-again" in burnt.output
    assert clinic.charges[0].state is State.BURNT
    assert clinic.releases == []
    paid = run("release", clinic.spec, "--pay-again")
    assert paid.exit_code == 0, paid.output
    assert sorted(charge.state for charge in clinic.charges) == [State.BURNT, State.MEASURED]
    assert run("release", clinic.spec).exit_code == 0
    assert len(clinic.charges) == 2
