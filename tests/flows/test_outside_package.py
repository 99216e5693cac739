"""A source and a target of other packages, installed and named by a spec: nothing else is changed."""

from __future__ import annotations

import json

import duckdb
import pyarrow.feather
import pytest

from tests.flows.conftest import Clinic
from tests.flows.processes import run_command
from tests.outside import install_feather, install_jsonl

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_a_spec_reads_and_publishes_by_other_packages(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    place = clinic.folder / "site"
    install_feather(place)
    install_jsonl(place)
    with duckdb.connect(clinic.folder / "clinic.duckdb", read_only=True) as connection:
        visits = connection.sql("SELECT * FROM visits").to_arrow_table()
    pyarrow.feather.write_feather(visits, clinic.folder / "visits.feather", chunksize=700)
    (clinic.folder / "clinic.duckdb").unlink()
    clinic.write(
        ('"duckdb:///clinic.duckdb", table: visits', '"feather:///visits.feather"'),
        ("to: releases/", 'to: "jsonl:///out"'),
    )
    without = run_command(clinic.folder, clinic.home, "plan", clinic.spec)
    told = (clinic.folder / "run.log").read_text()
    assert without == 2
    assert "feather://... is not a source this version reads" in told
    monkeypatch.setenv("PYTHONPATH", str(place))
    assert run_command(clinic.folder, clinic.home, "plan", clinic.spec) == 0
    assert clinic.charges == []
    log = clinic.folder / "run.log"
    assert run_command(clinic.folder, clinic.home, "release", clinic.spec) == 0, log.read_text()
    [charge] = clinic.charges
    [path] = (clinic.folder / "out" / "clinic-visits").glob("*.jsonl")
    head, *rows = path.read_text().splitlines()
    manifest = json.loads(json.loads(head)["manifest"])
    assert manifest["rows"] == len(rows) > 0
    assert [event["mid"] for event in manifest["guarantee"]["events"]] == [charge.mid]
    assert run_command(clinic.folder, clinic.home, "release", clinic.spec) == 0  # free, and changes nothing
    assert len(clinic.charges) == 1
    address = f"jsonl:///{path}"
    assert run_command(clinic.folder, clinic.home, "verify", address) == 0, log.read_text()
    assert run_command(clinic.folder, clinic.home, "recertify", address) == 0, log.read_text()
    path.write_text(path.read_text().replace('"age": 1', '"age": 2', 1))
    assert run_command(clinic.folder, clinic.home, "verify", address) != 0
