"""The same words in another place are not the same data: by command line and flow, with the real ledger."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.examples import build_clinic
from tests.flows.conftest import Clinic, clinic, run  # noqa: F401  fixtures
from understudy.pipelines.privacy.ledger import history

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def elsewhere(clinic: Clinic, tmp_path: Path) -> Clinic:  # noqa: F811
    """Another directory with the same spec, word for word, beside another table."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    build_clinic(folder, rows=500, seed=8)
    shutil.copy(clinic.spec, folder / clinic.spec.name)
    return Clinic(folder, clinic.home)


def test_the_same_spec_beside_another_file_does_not_find_the_first_ones_measurement(
    clinic: Clinic, elsewhere: Clinic, run: Run  # noqa: F811
) -> None:  # fmt: skip
    """On 7b5a274 the second exits with 0, spends nothing and publishes the first table's measurement as its own."""
    assert run("release", clinic.spec).exit_code == 0
    for words in (("release", elsewhere.spec), ("release", elsewhere.spec, "--resume"), ("plan", elsewhere.spec)):
        refused = run(*words)
        assert refused.exit_code == 2, refused.output
        assert str(clinic.folder / "clinic.duckdb") in refused.output
        assert str(elsewhere.folder / "clinic.duckdb") in refused.output
        assert "source.id" in refused.output
        assert "ledger moved" in refused.output
    assert elsewhere.releases == []
    assert len(clinic.charges) == 1


@pytest.mark.slow
def test_other_data_says_so_by_an_id_and_pays_for_itself(
    clinic: Clinic, elsewhere: Clinic, run: Run  # noqa: F811
) -> None:  # fmt: skip
    run("ledger", "cap", "clinic", "--epsilon", "3", "--delta", "1e-6", "--reason", "two tables")
    assert run("release", clinic.spec).exit_code == 0
    elsewhere.write(("{uri:", "{id: north, uri:"))
    released = run("release", elsewhere.spec)
    assert released.exit_code == 0, released.output
    assert "spent      epsilon" in released.output
    assert len(clinic.charges) == 2


@pytest.mark.slow
def test_a_source_with_an_id_moves_for_free(clinic: Clinic, run: Run, tmp_path: Path) -> None:  # noqa: F811
    clinic.write(("{uri:", "{id: north, uri:"))
    assert run("release", clinic.spec).exit_code == 0
    moved = Clinic(clinic.folder.rename(tmp_path / "moved"), clinic.home)
    shutil.rmtree(moved.folder / "releases")
    again = run("release", moved.spec)
    assert again.exit_code == 0, again.output
    assert "spent      nothing" in again.output
    assert len(moved.charges) == len(moved.releases) == 1


def test_a_moved_checkout_resumes_once_somebody_says_that_it_moved(
    clinic: Clinic, run: Run, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    assert run("release", clinic.spec).exit_code == 0
    moved = Clinic(clinic.folder.rename(tmp_path / "moved"), clinic.home)
    shutil.rmtree(moved.folder / "releases")
    assert run("release", moved.spec).exit_code == 2
    assert run("ledger", "moved", moved.spec, "--reason", " ").exit_code == 2
    said = run("ledger", "moved", moved.spec, "--reason", "the disk was replaced")
    assert said.exit_code == 0, said.output
    assert str(clinic.folder / "clinic.duckdb") in said.output
    again = run("release", moved.spec)
    assert again.exit_code == 0, again.output
    assert "spent      nothing" in again.output
    assert len(moved.charges) == len(moved.releases) == 1
    assert run("ledger", "verify").exit_code == 0
    assert "the disk was replaced" in run("ledger", "history", "clinic").output
    [line] = [entry for entry in moved.ledger.history("clinic") if entry.action == history.MOVED]
    assert line.body["was"] == f"database {clinic.folder / 'clinic.duckdb'}"


def test_nothing_that_was_never_measured_has_moved(clinic: Clinic, run: Run) -> None:  # noqa: F811
    refused = run("ledger", "moved", clinic.spec, "--reason", "why not")
    assert refused.exit_code == 2
    assert "never measured" in refused.output


@pytest.mark.slow
def test_a_link_to_the_checkout_is_the_checkout(clinic: Clinic, run: Run, tmp_path: Path) -> None:  # noqa: F811
    assert run("release", clinic.spec).exit_code == 0
    link = tmp_path / "link"
    link.symlink_to(clinic.folder)
    again = run("release", link / clinic.spec.name)
    assert again.exit_code == 0, again.output
    assert "spent      nothing" in again.output


def test_a_ledger_of_before_is_found_as_it_was(
    clinic: Clinic, elsewhere: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    """A charge that names no source, as older versions made them, is used as it always was."""
    with monkeypatch.context() as old:
        old.setattr("understudy.tasks.privatize.data_identity", lambda source, base: "")
        assert run("release", clinic.spec).exit_code == 0
    assert not any("source" in entry.body for entry in clinic.ledger.history("clinic"))
    again = run("release", elsewhere.spec)
    assert again.exit_code == 0, again.output
    assert "spent      nothing" in again.output


@pytest.mark.slow
def test_where_it_was_measured_cannot_be_edited_unnoticed(clinic: Clinic, run: Run) -> None:  # noqa: F811
    import sqlite3

    assert run("release", clinic.spec).exit_code == 0
    with sqlite3.connect(clinic.home / "ledger.db") as connection:
        connection.execute("UPDATE ledger_history SET body = replace(body, ?, '/')", [f"{clinic.folder}/"])
    assert run("ledger", "verify").exit_code != 0
