"""Trees of tables to measure on: two real ones and a made clinic, as frames with the spec of their tables.

Bounds and categories are from the data sets' documentation, not from their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SPECIALTIES = (
    "InternalMedicine",
    "Emergency/Trauma",
    "Family/GeneralPractice",
    "Cardiology",
    "Surgery-General",
    "Nephrology",
    "Orthopedics",
    "Radiologist",
    "Pulmonology",
    "Psychiatry",
    "?",
)
MADE_PATIENTS = 40_000
WARDS = 6
DRUGS = 10


@dataclass(frozen=True, eq=False)
class FamilySet:
    """Frames by table, root first, and the `tables` of a spec."""

    name: str
    frames: dict[str, pd.DataFrame]
    tables: dict[str, Any]


def load_families(data: Path) -> dict[str, Callable[[], FamilySet | None]]:
    """By name; a set whose files are not there is None."""
    return {
        "diabetes": lambda: diabetes_families(data),
        "households": lambda: households(data),
        "clinic": lambda: made_clinic(MADE_PATIENTS),
    }


def diabetes_families(data: Path) -> FamilySet | None:
    """Diabetes 130-US hospitals: patients, and their encounters in the order of their ids."""
    path = data / "diabetes130" / "diabetic_data.csv.gz"
    if not path.exists():
        return None
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame["encounter"] = frame["encounter_id"].astype(int)
    for column in ("time_in_hospital", "num_medications", "number_inpatient"):
        frame[column] = frame[column].astype(int)
    frame["diagnosis"] = frame["diag_1"].map(_diagnosis)
    frame = frame.sort_values("encounter")
    patients = frame.drop_duplicates("patient_nbr")[["patient_nbr", "race", "gender", "age"]]
    ages = [f"[{low}-{low + 10})" for low in range(0, 100, 10)]
    encounters = {
        "encounter": {"type": "integer", "min": 0, "max": 449_999_999, "bins": 18},
        "admission_type_id": _listed(range(1, 9)),
        "medical_specialty": {**_listed(SPECIALTIES), "other": True},
        "time_in_hospital": {"type": "integer", "min": 1, "max": 14, "bins": 14},
        "num_medications": {"type": "integer", "min": 0, "max": 79, "bins": 16},
        "number_inpatient": {"type": "integer", "min": 0, "max": 7, "bins": 8},
        "diagnosis": _listed(
            ("circulatory", "respiratory", "digestive", "diabetes", "injury", "genitourinary", "tumour", "other")
        ),
        "insulin": _listed(("No", "Down", "Steady", "Up")),
        "change": _listed(("No", "Ch")),
        "readmitted": _listed(("NO", "<30", ">30")),
    }
    tables = {
        "patients": {
            "source": {"table": "patients"},
            "key": "patient_nbr",
            "columns": {
                "race": {**_listed(("AfricanAmerican", "Asian", "Caucasian", "Hispanic")), "other": True},
                "gender": {**_listed(("Female", "Male")), "other": True},
                "age": {**_listed(ages), "ordered": True},
            },
        },
        "encounters": {
            "source": {"table": "encounters"},
            "parent": {"table": "patients", "by": "patient_nbr"},
            "max_rows": 16,
            "order_by": "encounter",
            "columns": encounters,
        },
    }
    frames = {"patients": patients, "encounters": frame[["patient_nbr", *encounters]]}
    return FamilySet("diabetes", frames, tables)


def households(data: Path) -> FamilySet | None:
    """American Community Survey 2024, New York: households by SERIALNO, people in the order of SPORDER."""
    path = data / "pums2024" / "ny.parquet"
    if not path.exists():
        return None
    frame = pd.read_parquet(path).sort_values(["SERIALNO", "SPORDER"])
    frame["area"] = frame["PUMA"].str[:2].astype(int)
    first = frame.drop_duplicates("SERIALNO")[["SERIALNO", "area", "POVPIP"]]
    income = frame.groupby("SERIALNO")["PINCP"].sum(min_count=1).rename("income")
    homes = first.merge(income, left_on="SERIALNO", right_index=True)
    people = {
        "SPORDER": {"type": "integer", "min": 1, "max": 20, "bins": 20},
        "AGEP": {
            "type": "integer",
            "bins": [0, 3, 6, 10, 14, 18, 22, 26, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 99],
        },
        "SEX": _listed((1, 2)),
        "RAC1P": _listed(range(1, 10)),
        "MAR": _listed(range(1, 6)),
        "SCHL": {"type": "integer", "min": 1, "max": 24, "bins": 12, "nullable": True},
        "ESR": {**_listed(range(1, 7)), "nullable": True},
        "CIT": _listed(range(1, 6)),
        "HICOV": _listed((1, 2)),
        "DIS": _listed((1, 2)),
    }
    tables = {
        "households": {
            "source": {"table": "households"},
            "key": "SERIALNO",
            "columns": {
                "area": {**_listed(range(1, 45)), "other": True},
                "POVPIP": {"type": "integer", "min": 0, "max": 501, "bins": 10, "nullable": True},
                "income": {"type": "integer", "min": 0, "max": 299_999, "bins": 10, "nullable": True},
            },
        },
        "people": {
            "source": {"table": "people"},
            "parent": {"table": "households", "by": "SERIALNO"},
            "max_rows": 12,
            "order_by": "SPORDER",
            "columns": people,
        },
    }
    return FamilySet("households", {"households": homes, "people": frame[["SERIALNO", *people]]}, tables)


def made_clinic(patients: int, seed: int = 7) -> FamilySet:
    """Patients keep to a ward; who is chronic comes more often; drugs go by ward and by how ill somebody is."""
    rng = np.random.default_rng(seed)
    chronic, old = rng.random(patients) < 0.3, rng.integers(0, 9, patients)
    region = rng.integers(0, 5, patients)
    sex = rng.integers(0, 2, patients)
    mean = 1.0 + 2.5 * chronic + 0.35 * old
    visits_of = np.minimum(rng.poisson(mean), 24)
    who = np.repeat(np.arange(patients), visits_of)
    home = region + rng.integers(0, 2, patients)
    follows = np.concatenate([[False], who[1:] == who[:-1]]) if len(who) else np.zeros(0, bool)
    ward = np.where(rng.random(len(who)) < 0.7, home[who], rng.integers(0, WARDS, len(who)))
    severity = np.clip(rng.normal(1.0 + 0.8 * chronic[who] + 0.1 * old[who], 0.8), 0, 3).astype(int)
    first_day = rng.integers(0, 300, patients)
    gap = np.where(rng.random(len(who)) < 0.35, rng.integers(0, 8, len(who)), rng.exponential(40, len(who)))
    run = np.cumsum(np.where(follows, np.ceil(gap), 0))
    start = run[np.flatnonzero(~follows)] if len(who) else run
    day = first_day[who] + run - np.repeat(start, visits_of[visits_of > 0])
    day = np.minimum(day, 729).astype(int)
    drugs_of = np.minimum(rng.poisson(0.6 + 0.7 * severity), 6)
    visit = np.repeat(np.arange(len(who)), drugs_of)
    why = rng.random(len(visit))
    any_drug = rng.integers(0, DRUGS, len(visit))
    drug = np.select([why < 0.5, why < 0.7], [ward[visit], WARDS + severity[visit]], any_drug)
    days_after = np.minimum(rng.exponential(4 + 9 * (severity[visit] < 2) + 6 * (drug % 3)), 59).astype(int)
    dose = np.clip(rng.normal(1 + 0.5 * severity[visit] + (drug % 2), 0.7), 0, 4).astype(int)
    frames = {
        "patients": pd.DataFrame(
            {
                "patient": np.arange(patients),
                "sex": sex,
                "decade": old,
                "region": region,
                "chronic": chronic * 1,
            }
        ),
        "visits": pd.DataFrame(
            {
                "visit": np.arange(len(who)),
                "patient": who,
                "visited_on": pd.to_datetime("2024-01-01") + pd.to_timedelta(day, unit="D"),
                "ward": ward,
                "severity": severity,
            }
        ),
        "drugs": pd.DataFrame({"visit": visit, "drug": drug, "dose": dose, "days_after": days_after}),
    }
    tables = {
        "patients": {
            "source": {"table": "patients"},
            "key": "patient",
            "columns": {
                "sex": _listed(range(2)),
                "decade": {"type": "integer", "min": 0, "max": 8, "bins": 9},
                "region": _listed(range(5)),
                "chronic": _listed(range(2)),
            },
        },
        "visits": {
            "source": {"table": "visits"},
            "key": "visit",
            "parent": {"table": "patients", "by": "patient"},
            "max_rows": 24,
            "order_by": "visited_on",
            "columns": {
                "visited_on": {"type": "date", "min": "2024-01-01", "max": "2025-12-31", "bins": "month"},
                "ward": _listed(range(WARDS)),
                "severity": {"type": "integer", "min": 0, "max": 3, "bins": 4},
            },
        },
        "drugs": {
            "source": {"table": "drugs"},
            "parent": {"table": "visits", "by": "visit"},
            "max_rows": 6,
            "columns": {
                "drug": _listed(range(DRUGS)),
                "dose": {"type": "integer", "min": 0, "max": 4, "bins": 5},
                "days_after": {"type": "integer", "bins": [0, 1, 3, 8, 15, 30, 59]},
            },
        },
    }
    frames["visits"]["visited_on"] = frames["visits"]["visited_on"].dt.date
    return FamilySet("clinic", frames, tables)


def _listed(values: Any) -> dict[str, Any]:
    return {"type": "category", "values": list(values)}


def _diagnosis(code: str) -> str:
    """The chapter of an ICD-9 code, as the data set's paper groups them (Strack et al. 2014, table 2)."""
    try:
        number = float(code)
    except ValueError:
        return "other"
    chapters = {
        "circulatory": ((390, 460), (785, 786)),
        "respiratory": ((460, 520), (786, 787)),
        "digestive": ((520, 580), (787, 788)),
        "diabetes": ((250, 251),),
        "injury": ((800, 1000),),
        "genitourinary": ((580, 630), (788, 789)),
        "tumour": ((140, 240),),
    }
    for name, spans in chapters.items():
        if any(low <= number < high for low, high in spans):
            return name
    return "other"
