"""Much of a column was not understood: the real command says so in red, and refuses where the spec says so."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import Place

ROWS = 3000
SPEC = """\
name: trips
source: {uri: trips.csv, snapshot: "2014"}
privacy: {account: taxi, epsilon: 2, delta: 1e-6, quality: 0.05}
columns:
  day: {type: date, min: 2014-01-01, max: 2014-12-31, nullable: true}
  tip: {type: number, min: 0, max: 20, bins: 4, nullable: true}
generate: {epochs: 1, particles: 300, device: cpu}
publish: {to: out, rows: 200REFUSE}
"""
RED, PLAIN = "\x1b[31m", "\x1b[0m"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    rows = [f"{row % 12 + 1:02d}/01/2014,{row % 13}" if row % 5 else f"2014-06-01,{row % 13}" for row in range(ROWS)]
    (tmp_path / "trips.csv").write_text("\n".join(["day,tip", *rows]) + "\n")
    opened = made.run("ledger", "open", "taxi", "--epsilon", "9", "--delta", "1e-5")
    assert opened.code == 0, opened.text
    return made


def at_a_terminal(place: Place, *words: object) -> str:
    """What a person sees on a terminal; colours are not written to files."""
    shown, theirs = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT", "UNDERSTUDY"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy.cli.main", *(str(word) for word in words)], stdout=theirs,
        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=place.folder,
        env=inherited | {"UNDERSTUDY_HOME": str(place.home), "TMPDIR": str(place.tmp), "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    told = b""
    try:
        while part := os.read(shown, 65_536):
            told += part
    except OSError:  # the other end was closed
        pass
    finally:
        os.close(shown)
    assert process.wait(timeout=60) == 0, told.decode()
    return told.decode().replace("\r\n", "\n")


def test_a_column_that_was_not_understood_is_refused_with_code_6_and_told_in_red(place: Place) -> None:
    spec = place.folder / "trips.yaml"
    spec.write_text(SPEC.replace("REFUSE", ", refuse_if: {unreadable: 0.02}"))
    refused = place.run("release", spec)
    assert refused.code == 6, refused.text
    assert "too much was not understood: day: " in refused.err
    assert "unreadable (limit 2.0%)" in refused.err
    assert "tip:" not in refused.err
    assert "Traceback" not in refused.text
    assert not list(place.folder.glob("out/trips/*/manifest.json"))
    [charge] = place.ledger.charges("taxi")

    spec.write_text(SPEC.replace("REFUSE", ""))
    told = at_a_terminal(place, "release", spec)
    [red] = [line for line in told.splitlines() if RED in line]
    assert red.startswith(f"{RED}warning    about "), red
    assert red.endswith(f" of day was not understood (docs/formats.md){PLAIN}"), red
    assert "spent      nothing" in told
    [after] = place.ledger.charges("taxi")  # the measurement was kept
    assert after.mid == charge.mid
    latest = place.folder / "out" / "trips" / "latest"
    card = (latest / "card.html").read_text()
    assert '<p class="alarm">Much of <bdi>day</bdi> was not understood: do not rely on it.</p>' in card
    assert '<tr class="alarm"><th scope="row"><bdi>day</bdi></th>' in card
    day, tip = json.loads((latest / "manifest.json").read_text())["quality"]
    assert (day["column"], day["alarming"], tip["alarming"]) == ("day", True, False)
    assert day["shares"]["unreadable"] == pytest.approx(0.8, abs=0.05)

    again = at_a_terminal(place, "generate", "--from", charge.mid, "--to", "more", "--rows", 50, "--epochs", 1)
    assert f"{RED}warning    about " in again
