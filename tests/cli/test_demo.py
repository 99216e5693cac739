"""The demo's clinic: what the specs beside it say of its tables, and what its documents say of it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pytest

from understudy.demo.clinic import build_warehouse, clinic
from understudy.demo.specs import FLAT, TABLES
from understudy.pipelines.spec.reading import load_spec


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return clinic(5_000, 3)


def test_keys_of_the_clinic_fit_and_nobody_comes_before_they_are_born(tables: dict[str, pd.DataFrame]) -> None:
    patients, visits, prescriptions = tables["patients"], tables["visits"], tables["prescriptions"]
    assert patients.patient_id.is_unique
    assert visits.visit_id.is_unique
    assert set(visits.patient_id) < set(patients.patient_id)  # some never came
    assert set(prescriptions.visit_id) < set(visits.visit_id)
    assert abs(len(visits) - 5_000) < 100
    seen = visits.merge(patients)
    assert (seen.visited_on >= seen.born).all()
    assert not ((seen.sex == "M") & (seen.ward == "maternity")).any()


def test_the_clinic_has_what_a_copy_should_keep(tables: dict[str, pd.DataFrame]) -> None:
    patients, visits, prescriptions = tables["patients"], tables["visits"], tables["prescriptions"]
    numbers = visits.groupby("patient_id").size()
    assert numbers.max() > 8  # the bound of the spec drops some
    before = visits.groupby("patient_id").ward.shift()
    assert 0.5 < (visits.ward == before)[before.notna()].mean() < 0.8
    years = 2026 - pd.to_datetime(visits.merge(patients).born).dt.year.to_numpy()
    assert years[visits.ward == "paediatrics"].mean() < 18 < 45 < years[visits.ward == "oncology"].mean()
    wards = prescriptions.merge(visits).groupby("drug").ward.agg(lambda each: each.mode()[0])
    assert wards["chemotherapy"] == "oncology"


@pytest.mark.parametrize("text", [TABLES, FLAT])
def test_the_specs_name_tables_and_columns_that_are_there(text: str, tmp_path: Path) -> None:
    build_warehouse(tmp_path / "clinic.duckdb", 1_000)
    (tmp_path / "spec.yaml").write_text(text)
    with duckdb.connect(str(tmp_path / "clinic.duckdb"), read_only=True) as warehouse:
        for alone in load_spec(tmp_path / "spec.yaml").alone.values():
            told = {row[0] for row in warehouse.execute(f"DESCRIBE {alone.source.table}").fetchall()}
            assert set(alone.columns) <= told
