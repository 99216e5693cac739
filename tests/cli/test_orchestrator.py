"""A Prefect server that cannot be used is found before anything is paid, in one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.bad_servers import CANARY, bad_server
from tests.cli.commands import Ended, Place, new_place

KINDS = ("dead", "words", "503", "other version")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return new_place(tmp_path_factory.mktemp("orchestrator"))


def refused(place: Place, url: str, name: str, command: str = "release") -> Ended:
    changes = [("publish:", 'schedule: {cron: "0 6 1 * *"}\npublish:')] if command == "deploy" else []
    path = place.spec("{{ month }}" if command == "deploy" else name, *changes)
    ended = place.run(command, path, PREFECT_API_URL=url)
    assert ended.code == 1, ended.text
    assert "Traceback" not in ended.text
    assert CANARY not in ended.text
    lines = [line for line in ended.err.splitlines() if not line.endswith((" ...", "`understudy keys show` prints"))]
    assert lines[0].startswith("understudy: "), ended.err
    assert len(lines) == 2, ended.err  # what is wrong, and what to do
    assert place.charges(name) == []
    return ended


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_cannot_be_used_is_one_message_and_no_charge(place: Place, kind: str) -> None:
    with bad_server(kind) as url:
        ended = refused(place, url, kind.replace(" ", "-"))
    assert ("2.20.1" in ended.err) == (kind == "other version")


def test_deploying_to_a_dead_server_is_one_message(place: Place) -> None:
    with bad_server("dead") as url:
        refused(place, url, "deployed", "deploy")


def test_an_address_that_is_none_is_one_message_without_its_password(place: Place) -> None:
    for url in ("garbage", "ftp://me:hunter2@127.0.0.1:1/api", "http://me:hunter2@[::1/api"):
        assert "hunter2" not in refused(place, url, "address").text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["silent", "dripping"])
def test_a_server_that_never_finishes_answering_is_given_up(place: Place, kind: str) -> None:
    with bad_server(kind) as url:
        refused(place, url, kind)


def test_a_home_that_cannot_hold_a_server_is_one_message(place: Place, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "prefect").write_text("in the way")
    opened = ("ledger", "open", "clinic", "--epsilon", "9", "--delta", "1e-6", "--entity", "patient_id")
    assert place.run("--home", tmp_path / "home", *opened, "--max-rows", 4).code == 0
    ended = place.run("--home", tmp_path / "home", "release", place.spec("nowhere"))
    assert ended.code == 1
    assert "temporary Prefect server" in ended.err
    assert "Traceback" not in ended.text
