"""The ledger remembers what was published and who did it, so that a release cannot be swapped and called the same."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from tests.cli.commands import new_place
from tests.flows.conftest import Clinic
from understudy.pipelines.canonical import sha256_file

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")


def swap_rows(place: Path) -> None:
    """Other rows in place of the data, every hash corrected."""
    part = place / "data" / "part-00000.parquet"
    table = pq.read_table(part)
    index = table.column_names.index("age")
    pq.write_table(table.set_column(index, "age", pc.subtract(110, table["age"])), part)
    path = place / "manifest.json"
    manifest = json.loads(path.read_text())
    for file in manifest["files"]:
        changed = place / file["path"]
        file.update(sha256=sha256_file(changed), bytes=changed.stat().st_size)
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def test_rows_put_in_place_of_the_data_with_hashes_corrected_are_found(clinic: Clinic, run: Run) -> None:
    assert run("release", clinic.spec).exit_code == 0
    [place] = clinic.releases
    swap_rows(place)
    checked = run("recertify", place)
    assert checked.exit_code == 5
    assert "does not hold: statement, publication" in checked.output
    again = run("release", clinic.spec)
    assert again.exit_code == 1
    assert "is not the release that was published there" in again.output
    place.rename(place.parent.parent / "moved-away")
    assert run("release", clinic.spec).exit_code == 0  # the way back is free
    assert run("recertify", *clinic.releases).exit_code == 0
    assert len(clinic.charges) == 1


def test_a_release_that_was_published_and_not_recorded_is_recorded_by_the_next_run(tmp_path: Path) -> None:
    """Killed after the target accepted it, before the ledger was told."""
    place = new_place(tmp_path)
    spec = place.spec("2026-10")
    assert place.run("release", spec, UNDERSTUDY_FAULT="published_unrecorded").code == -signal.SIGKILL
    [release] = [path.parent for path in tmp_path.glob("releases/clinic-visits/2026*/manifest.json")]
    assert place.ledger.publications("clinic") == ()
    assert place.run("release", spec).code == 0
    [publication] = place.ledger.publications("clinic")
    assert publication.release_id == release.name
    assert publication.manifest_sha256 == sha256_file(release / "manifest.json")
    assert publication.mids == tuple(charge.mid for charge in place.charges("2026-10"))
    assert place.run("release", spec).code == 0
    assert len(place.ledger.publications("clinic")) == 1
    swap_rows(release)
    assert place.run("recertify", release).code == 5


def test_every_line_of_the_history_says_who(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.cli.releasing.at_a_terminal", lambda: True)
    clinic.write(("{to: releases/}", "{to: releases/, approval: required}"))
    assert run("ledger", "cap", "clinic", "--epsilon", 3, "--delta", "1e-6", "--reason", "more").exit_code == 0
    assert run("release", clinic.spec, "--approve").exit_code == 0
    lines = clinic.ledger.history("clinic")
    actions = ["opened", "cap_changed", "key", "charged", "measured", "approved", "published"]
    assert [line.action for line in lines] == actions
    me, here = pwd.getpwuid(os.geteuid()).pw_name, socket.gethostname()
    assert {(line.body["who"]["user"], line.body["who"]["host"]) for line in lines} == {(me, here)}
    runs = {line.body["who"].get("run") for line in lines[3:]}
    assert runs == {clinic.charges[0].flow_run}
    assert f"{me}@{here}" in run("ledger", "history", "clinic").output
    assert run("ledger", "verify").exit_code == 0
