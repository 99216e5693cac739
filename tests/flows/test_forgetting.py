"""A ledger that was deleted, swapped or restored, beside a store or a release that remembers, pays for nothing more."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.flows.conftest import Clinic

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
OPEN = ("ledger", "open", "clinic", "--epsilon", "1.7", "--delta", "1e-6", "--entity", "patient_id", "--max-rows", 4)
NOVEMBER = ('"2026-10"', '"2026-11"')


def forget(home: Path) -> None:
    for path in home.glob("ledger.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_an_account_is_not_opened_anew_beside_its_measurements(clinic: Clinic, run: Run) -> None:
    assert run("release", clinic.spec).exit_code == 0
    forget(clinic.home)
    refused = run(*OPEN)
    assert refused.exit_code == 1
    assert "does not know 1 measurement(s) of account 'clinic'" in refused.output
    assert "backup" in refused.output
    assert run("ledger", "open", "other", *OPEN[3:]).exit_code == 0  # an account that nobody remembers


def test_a_ledger_put_in_the_place_of_another_is_not_charged(
    clinic: Clinic, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("release", clinic.spec).exit_code == 0
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("UNDERSTUDY_HOME", str(tmp_path / "elsewhere"))
        elsewhere.setenv("UNDERSTUDY_LEDGER", "")
        assert run(*OPEN).exit_code == 0
    forget(clinic.home)
    shutil.copy(tmp_path / "elsewhere" / "ledger.db", clinic.home / "ledger.db")
    clinic.write(("{to: releases/}", "{to: others/}"), NOVEMBER)  # nothing is published there that could remember
    refused = run("release", clinic.spec)
    assert refused.exit_code == 1
    assert "another ledger paid for them" in refused.output
    assert (clinic.charges, list(clinic.folder.glob("others/*/*/manifest.json"))) == ([], [])


@pytest.mark.parametrize("target", ["directory", "duckdb", "postgresql", "s3"])
def test_a_home_restored_whole_pays_for_nothing_beside_a_release_that_knows_more(
    clinic: Clinic, run: Run, target: str, tmp_path: Path, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    place = "{to: releases/}"
    if target == "duckdb":
        place = f'{{to: "duckdb:///{clinic.folder}/out.duckdb", table: copies}}'
    elif target == "postgresql":
        monkeypatch.setenv("WAREHOUSE_URL", request.getfixturevalue("warehouse").uri)
        place = "{to: postgresql+env://WAREHOUSE_URL, table: copies}"
    elif target == "s3":
        place = f'{{to: "s3://{request.getfixturevalue("bucket")}/releases"}}'
    clinic.write(("{to: releases/}", place))
    old = tmp_path / "old"
    shutil.copytree(clinic.home, old)
    assert run("release", clinic.spec).exit_code == 0
    newest = clinic.charges
    kept = tmp_path / "kept"
    clinic.home.rename(kept)
    shutil.copytree(old, clinic.home)
    clinic.write(("{to: releases/}", place), NOVEMBER)
    refused = run("release", clinic.spec)
    assert refused.exit_code == 1
    assert "older than that release, or another ledger" in refused.output
    assert clinic.charges == []
    shutil.rmtree(clinic.home)
    kept.rename(clinic.home)  # the way back
    assert clinic.charges == newest
    clinic.write(("{to: releases/}", place))
    assert run("release", clinic.spec).exit_code == 0  # what was paid for is still free


def test_recertify_names_a_ledger_that_has_forgotten(clinic: Clinic, run: Run, tmp_path: Path) -> None:
    shutil.copytree(clinic.home, tmp_path / "old")
    assert run("release", clinic.spec).exit_code == 0
    assert run("recertify", *clinic.releases).exit_code == 0
    shutil.rmtree(clinic.home)
    shutil.copytree(tmp_path / "old", clinic.home)
    checked = run("recertify", *clinic.releases)
    assert checked.exit_code == 5
    assert "lacks the line that the manifest names" in checked.output
