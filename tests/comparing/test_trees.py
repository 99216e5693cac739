"""`understudy compare` of several tables: read through their bounds, marked, no gate, and right about what is wrong."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import Place

SPEC = """\
name: clinic
source: {uri: patients.csv, snapshot: "2026-10"}
privacy: {account: clinic, unit: patients, epsilon: 20, delta: 1e-6}
tables:
  patients:
    key: patient_id
    columns: {sex: {type: category, values: [f, m]}}
  visits:
    source: {uri: visits.csv}
    key: visit_id
    parent: {table: patients, by: patient_id}
    max_rows: 3
    order_by: "on"
    columns:
      ward: {type: category, values: [a, b, c]}
      "on": {type: date, min: 2026-01-01, max: 2026-12-31, bins: quarter}
generate: {epochs: 2, particles: 500, device: cpu}
publish: {to: out}
"""
CANARY = "canary-7"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("clinic"))
    rng = np.random.default_rng(8)
    patients, visits = ["patient_id,sex"], ["visit_id,patient_id,ward,on"]
    for who in range(600):
        sex = "fm"[who % 2]
        patients.append(f"{CANARY if who == 7 else who},{sex}")
        for _ in range(rng.integers(0, 6)):
            ward = "a" if sex == "f" and rng.random() < 0.8 else rng.choice(["b", "c"])
            day = f"2026-{rng.integers(1, 13):02d}-{rng.integers(1, 28):02d}"
            visits.append(f"v{len(visits)},{CANARY if who == 7 else who},{ward},{day}")
    (made.folder / "patients.csv").write_text("\n".join(patients) + "\n")
    (made.folder / "visits.csv").write_text("\n".join(visits) + "\n")
    (made.folder / "spec.yaml").write_text(SPEC)
    opened = made.run("ledger", "open", "clinic", "--epsilon", "50", "--delta", "1e-6", "--entity", "patients")
    assert opened.code == 0, opened.text
    released = made.run("release", "spec.yaml")
    assert released.code == 0, released.text
    return made


@pytest.fixture(scope="module")
def compared(place: Place) -> Path:
    before = place.run("ledger", "history", "clinic").out
    told = place.run("compare", "spec.yaml", "out/clinic", "--label", "visits.ward", "--label", "sex")
    assert told.code == 0, told.text
    assert "CONFIDENTIAL" in told.text
    assert "2 tables, 3 columns" in told.text
    assert place.run("ledger", "history", "clinic").out == before  # it spends nothing
    page = re.search(r"page +(\S+)", told.text)
    assert page is not None
    return Path(page.group(1))


def test_each_table_is_compared_alone_with_those_above_and_in_order(compared: Path) -> None:
    found = json.loads((compared.parent / "comparison.json").read_text())
    patients, visits = found["tables"]
    assert found["real_roots"] == patients["real_rows"] == 600
    assert visits["real_rows"] < 600 * 3  # bounded, as they were measured
    across = {" x ".join(each["columns"]): each["distance"] for each in visits["across"]}
    assert across["visits.ward x patients.sex"] < 0.1
    assert [each["columns"] for each in visits["numbers"]] == [["visits.number"]]
    assert visits["numbers"][0]["distance"] < 0.1
    assert ["visits.ward", "visits.previous.ward"] in [each["columns"] for each in visits["in_order"]]
    assert not patients["in_order"]
    assert all(check["broken"] == 0 for check in found["keys"])
    assert "visits: patient_id names no row of patients" in [check["what"] for check in found["keys"]]
    [held] = [remark for remark in found["remarks"] if "intervals of counts held" in remark]
    assert 0.8 < float(held.split(" in ")[1].split("%")[0]) / 100 <= 1


def test_rows_are_told_apart_and_learnt_from_with_those_above_them(compared: Path) -> None:
    found = json.loads((compared.parent / "comparison.json").read_text())
    apart = {table["table"]: table["detection"] for table in found["tables"]}
    assert 0.35 < apart["patients"]["auc"] < 0.65
    assert apart["visits"]["auc"] < 0.75
    learnt = {each["label"]: each for each in found["downstream"]}
    assert set(learnt) == {"visits.ward", "patients.sex"}
    ward = learnt["visits.ward"]  # which a patient's sex tells, and nothing that a visit has
    assert min(ward["trained_on_real"], ward["trained_on_synthetic"]) > 0.6
    assert "Telling its rows apart" in compared.read_text()


def test_it_is_marked_kept_from_others_and_quotes_no_id(compared: Path) -> None:
    page = compared.read_text()
    assert "CONFIDENTIAL" in page
    assert "visits of patients" in page
    assert CANARY not in page + (compared.parent / "comparison.json").read_text()
    assert stat.S_IMODE(compared.parent.stat().st_mode) == 0o700


def test_a_copy_of_other_tables_is_far_and_told_apart(place: Place) -> None:
    swapped = (place.folder / "visits.csv").read_text().replace(",a,", ",x,").replace(",b,", ",a,")
    (place.folder / "visits.csv").write_text(swapped.replace(",x,", ",b,"))
    told = place.run("compare", "spec.yaml", "out/clinic", "--to", "elsewhere")
    assert told.code == 0, told.text
    [document] = place.folder.glob("elsewhere/**/comparison.json")
    visits = json.loads(document.read_text())["tables"][1]
    assert visits["columns"][0]["columns"] == ["visits.ward"]
    assert visits["columns"][0]["distance"] > 0.1
    assert json.loads(document.read_text())["tables"][1]["detection"]["auc"] > 0.6
    refused = place.run("compare", "spec.yaml", "out/clinic", "--label", "height")
    assert refused.code == 2
    assert "choose among patients.sex, visits.ward, visits.on" in refused.text
