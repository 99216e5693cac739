"""A release that is told to stop says so in one line, spends what it says, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.cli.commands import Place, new_place, wait_for
from understudy.pipelines.privacy.ledger.ledger import State

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
WAITING = "waiting for Prefect"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return new_place(tmp_path_factory.mktemp("stopping"))


def stopped(place: Place, snapshot: str, stage: str, number: signal.Signals, fault: str = "") -> None:
    """Start, wait for the stage, send the signal: one line, its code, and 10 s later no process and no file."""
    running = place.start("release", place.spec(snapshot), UNDERSTUDY_FAULT=fault)
    running.wait_for_stage(stage)
    before = len(running.err.read_text().splitlines())
    ended = running.send(number)
    if number == signal.SIGKILL:
        assert ended.code == -signal.SIGKILL
    else:
        assert ended.code == CODES[number], ended.text
        [line] = [
            line
            for line in ended.err.splitlines()[before:]
            if not line.endswith((" ...", "`understudy keys show` prints"))
        ]
        assert line.startswith(f"understudy: stopped by {WORDS[number]}"), ended.err
    assert "Traceback" not in ended.text
    place.wait_until_nothing_is_left()


@pytest.mark.parametrize("number", CODES, ids=WORDS.values())
def test_a_signal_before_the_server_is_up_is_answered_at_once(place: Place, number: signal.Signals) -> None:
    stopped(place, f"early-{number}", WAITING, number)
    assert place.charges(f"early-{number}") == []


def test_a_command_that_is_killed_leaves_no_server(place: Place) -> None:
    stopped(place, "killed", "planning", signal.SIGKILL)
    assert place.charges("killed") == []


def test_ctrl_c_between_charge_and_draw_lets_the_purchase_finish(place: Place) -> None:
    running = place.start("release", place.spec("between"), UNDERSTUDY_FAULT="after_t1:0.5")
    wait_for(lambda: place.charges("between"), running.err.read_text)
    ended = running.send(signal.SIGINT)
    assert ended.code == 130, ended.text
    [charge] = place.charges("between")
    assert charge.state is State.MEASURED
    assert place.ledger.verify().ok
    place.wait_until_nothing_is_left()


def test_a_command_that_waits_for_the_ledger_is_stopped_in_one_line(place: Place) -> None:
    with closing(sqlite3.connect(place.home / "ledger.db", isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        running = place.start("ledger", "cap", "clinic", "--epsilon", "8", "--delta", "1e-6", "--reason", "less")
        wait_for(lambda: "ledger.db" in open_files(running.process.pid), running.err.read_text)
        ended = running.send(signal.SIGINT)
        holder.execute("ROLLBACK")
    assert (ended.code, len(ended.err.splitlines())) == (130, 1), ended.text


def open_files(pid: int) -> str:
    links = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            links.append(os.readlink(descriptor))
    return " ".join(links)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "fault"),
    [("planning", "after_select:60"), ("opening the table", "after_ingest:60"),
     ("counting and measuring", "before_privatize:60"), ("counting and measuring", "after_t1:60"),
     ("counting and measuring", "measurement_staged:60"), ("generating", "after_generate:60"),
     ("checking", "after_validate:60"), ("publishing", "publish_staged:60"), ("publishing", "publish_mid_rename:60")],
)  # fmt: skip
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_every_signal_at_every_stage(place: Place, stage: str, fault: str, number: signal.Signals) -> None:
    snapshot = f"{fault.partition(':')[0]}-{number}".replace("_", "-")
    burns = fault.startswith(("after_t1", "measurement_staged"))  # a purchase that cannot finish in time
    if burns:
        running = place.start("release", place.spec(snapshot), UNDERSTUDY_FAULT=fault)
        wait_for(lambda: place.charges(snapshot), running.err.read_text)
        ended = running.send(number)
        assert ended.code == CODES.get(number, -signal.SIGKILL), ended.text
        assert "Traceback" not in ended.text
        place.wait_until_nothing_is_left()
    else:
        stopped(place, snapshot, stage, number, fault)
    paid = place.charges(snapshot)
    again = place.run("release", place.spec(snapshot))
    assert again.code == (4 if burns else 0), again.text
    [charge] = place.charges(snapshot)
    assert charge.state is (State.BURNT if burns else State.MEASURED)
    assert [each.mid for each in paid] in ([], [charge.mid])
    assert place.ledger.verify().ok


def test_nothing_is_left_after_a_release_that_ended_well(place: Place) -> None:
    ended = place.run("release", place.spec("whole"))
    assert ended.code == 0, ended.text
    stages = [
        "waiting for Prefect",
        "planning",
        "opening the table",
        "counting",
        "generating",
        "checking",
        "publishing",
    ]
    assert all(stage in ended.err for stage in stages), ended.err
    place.wait_until_nothing_is_left()


@pytest.mark.slow
def test_two_releases_in_one_new_home_do_not_collide(tmp_path: Path) -> None:
    place = new_place(tmp_path)
    running = [place.start("release", place.spec(name)) for name in ("one", "two")]
    assert [each.end().code for each in running] == [0, 0]
    assert len(place.charges("one")) == len(place.charges("two")) == 1
    place.wait_until_nothing_is_left()
