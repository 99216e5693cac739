"""The demo's warehouse: an invented clinic with dependence, skew, nulls, dates and patients who come back.

Nothing here is anybody's data, so ordinary seeded randomness is right: everyone gets the same clinic.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

WARDS = np.array(["emergency", "general", "surgery", "cardiology", "maternity", "paediatrics", "oncology"])
SEVERITIES = np.array(["minor", "moderate", "serious", "critical"])
REGIONS = np.array(["north", "east", "south", "west", "centre", "abroad"])


def build_warehouse(path: Path, visits: int, seed: int = 20261) -> None:
    """Write table `visits` into a new DuckDB file, renamed into place so that a half-built one is never used."""
    frame = clinic_visits(visits, seed)
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    with duckdb.connect(str(unfinished)) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
    unfinished.rename(path)


def clinic_visits(visits: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    patients = max(1, visits * 2 // 5)
    person = _patients(patients, rng)
    # A few patients come often: visits per patient are skewed, and the cap of the spec drops some of them.
    weight = rng.pareto(4.0, patients) + 0.6
    who = rng.choice(patients, visits, p=weight / weight.sum())
    age, sex, smoker = person["age"][who], person["sex"][who], person["smoker"][who]
    ward = _wards(age, sex, rng)
    severity = np.clip(rng.poisson(0.5 + 0.008 * age + 0.7 * np.isin(ward, [2, 3, 6]) + 0.3 * smoker), 0, 3)
    stay = np.minimum(rng.negative_binomial(1.2, 1 / (1 + 0.6 * np.exp(0.75 * severity)), visits), 60)
    charge = np.round(np.exp(4.6 + 0.55 * severity + 0.4 * np.log1p(stay) * 2 + rng.normal(0, 0.45, visits)), 2)
    day = (rng.beta(1.1, 1.0, visits) * 304).astype(int)
    readmitted = rng.random(visits) < 0.03 + 0.05 * severity + 0.05 * (age > 70)
    frame = pd.DataFrame(
        {
            "visit_id": np.arange(1, visits + 1) + 700_000,
            "patient_id": np.char.add("P", (who + 100_000).astype(str)),
            "visited_on": (pd.Timestamp("2026-01-01") + pd.to_timedelta(day, unit="D")).date,
            "age": age,
            "sex": np.array(["F", "M", "X"])[sex],
            "region": REGIONS[person["region"][who]],
            "insurance": np.array(["public", "private", "none"])[person["insurance"][who]],
            "ward": WARDS[ward],
            "severity": SEVERITIES[severity],
            "smoker": pd.array(smoker.astype(bool), dtype="boolean"),
            "bmi": np.round(person["bmi"][who], 1),
            "stay_days": stay,
            "charge": np.minimum(charge, 60_000),
            "readmitted": readmitted,
        }
    )
    frame.loc[rng.random(visits) < 0.08, "smoker"] = pd.NA
    frame.loc[rng.random(visits) < 0.15 + 0.1 * (severity == 0), "bmi"] = np.nan
    frame.loc[rng.random(visits) < 0.05, "charge"] = np.nan
    frame.loc[rng.random(visits) < 0.04, "insurance"] = None
    return frame


def _patients(count: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    young = rng.random(count) < 0.25
    age = np.where(young, rng.gamma(2.0, 8.0, count), rng.normal(58, 17, count)).clip(0, 104).astype(int)
    sex = rng.choice(3, count, p=[0.53, 0.46, 0.01])
    region = rng.choice(len(REGIONS), count, p=[0.3, 0.22, 0.2, 0.15, 0.11, 0.02])
    insured_privately = rng.random(count) < np.where(region == 3, 0.45, 0.2)
    insurance = np.where(insured_privately, 1, np.where(rng.random(count) < 0.06, 2, 0))
    smoker = (rng.random(count) < np.where((age > 17) & (age < 65), 0.27, 0.09)) & (age > 14)
    bmi = np.clip(rng.normal(17 + 10 * np.tanh(age / 25) + 1.5 * (sex == 1), 4.2, count), 12, 52)
    return {"age": age, "sex": sex, "region": region, "insurance": insurance, "smoker": smoker, "bmi": bmi}


def _wards(age: np.ndarray, sex: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A ward for each visit: children in paediatrics, births in maternity, hearts and tumours late in life."""
    score = np.zeros((len(age), len(WARDS)))
    score[:, 0], score[:, 1], score[:, 2] = 1.2, 1.3, 0.6
    score[:, 3] = np.where(age > 50, 0.9, -2.0)
    score[:, 4] = np.where((sex == 0) & (age > 17) & (age < 46), 1.6, -9.0)
    score[:, 5] = np.where(age < 17, 3.2, -9.0)
    score[:, 6] = np.where(age > 45, 0.3, -1.5)
    wards: np.ndarray = np.argmax(score + rng.gumbel(size=score.shape), axis=1)
    return wards
