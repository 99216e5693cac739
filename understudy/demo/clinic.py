"""The demo's warehouse: an invented clinic with dependence, skew, nulls, dates and patients who come back.

Three tables: patients, their visits, and what was prescribed at these. The view `visits_flat` is visits with what is
known of the patient beside each, for releases of one table.

Nothing here is anybody's data, so ordinary seeded randomness is right: everyone gets the same clinic.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.demo.prescribing import prescribed

FIRST_DAY = pd.Timestamp("2026-01-01")
DAYS = 304
"""The clinic is seen from January to October."""

MOST_VISITS = 40
"""Of one patient. The cap of the spec is lower and drops some."""

REGIONS = np.array(["north", "east", "south", "west", "centre", "abroad"])
WARDS = np.array(["emergency", "general", "surgery", "cardiology", "maternity", "paediatrics", "oncology"])
SEVERITIES = np.array(["minor", "moderate", "serious", "critical"])

FLAT_VIEW = """
CREATE VIEW visits_flat AS
SELECT visit_id, patient_id, visited_on, date_sub('year', born, visited_on) AS age, sex, region, insurance,
       ward, severity, smoker, bmi, stay_days, charge, readmitted
FROM visits JOIN patients USING (patient_id)
"""

Ints = npt.NDArray[np.int64]


def build_warehouse(path: Path, visits: int, seed: int = 20261) -> None:
    """Write a new DuckDB file, renamed into place so that a half-built one is never used."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    with duckdb.connect(str(unfinished)) as connection:
        for name, frame in clinic(visits, seed).items():
            connection.register("frame", frame)
            connection.table("frame").create(name)
            connection.unregister("frame")
        connection.execute(FLAT_VIEW)
    unfinished.rename(path)


def clinic(visits: int, seed: int) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    person = _patients(max(1, visits * 2 // 5), rng)
    who, day = _comings(len(person["age"]), visits, rng)
    born_in_time = day >= person["born"][who]
    who, day = who[born_in_time], day[born_in_time]
    age, smoker = person["age"][who], person["smoker"][who]
    ward = _wards(who, age, person["sex"][who], rng)
    severity = np.clip(rng.poisson(0.5 + 0.008 * age + 0.7 * np.isin(ward, [2, 3, 6]) + 0.3 * smoker), 0, 3)
    stay = np.minimum(rng.negative_binomial(1.2, 1 / (1 + 0.6 * np.exp(0.75 * severity)), len(who)), 60)
    charge = np.round(np.exp(4.6 + 0.55 * severity + 0.8 * np.log1p(stay) + rng.normal(0, 0.45, len(who))), 2)
    seen = pd.DataFrame(
        {
            "visit_id": np.arange(1, len(who) + 1) + 700_000,
            "patient_id": _patient_ids(who),
            "visited_on": _dates(day),
            "ward": WARDS[ward],
            "severity": SEVERITIES[severity],
            "stay_days": stay,
            "charge": np.minimum(charge, 60_000),
            "readmitted": rng.random(len(who)) < 0.03 + 0.05 * severity + 0.05 * (age > 70),
        }
    )
    seen.loc[rng.random(len(who)) < 0.05, "charge"] = np.nan
    prescriptions = prescribed(seen["visit_id"].to_numpy(), ward, severity, age, rng)
    return {"patients": _patient_table(person, rng), "visits": seen, "prescriptions": prescriptions}


def _patients(count: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    young = rng.random(count) < 0.25
    years = np.where(young, rng.gamma(2.0, 8.0, count), rng.normal(58, 17, count)).clip(0, 104.9)
    born = DAYS - 1 - np.floor(years * 365.25).astype(int)  # days from the first day
    age = years.astype(int)
    sex = rng.choice(3, count, p=[0.53, 0.46, 0.01])
    region = rng.choice(len(REGIONS), count, p=[0.3, 0.22, 0.2, 0.15, 0.11, 0.02])
    insured_privately = rng.random(count) < np.where(region == 3, 0.45, 0.2)
    insurance = np.where(insured_privately, 1, np.where(rng.random(count) < 0.06, 2, 0))
    smoker = (rng.random(count) < np.where((age > 17) & (age < 65), 0.27, 0.09)) & (age > 14)
    bmi = np.clip(rng.normal(17 + 10 * np.tanh(age / 25) + 1.5 * (sex == 1), 4.2, count), 12, 52)
    return {
        "age": age, "born": born, "sex": sex, "region": region, "insurance": insurance, "smoker": smoker, "bmi": bmi,
    }  # fmt: skip


def _patient_table(person: dict[str, np.ndarray], rng: np.random.Generator) -> pd.DataFrame:
    count = len(person["age"])
    frame = pd.DataFrame(
        {
            "patient_id": _patient_ids(np.arange(count)),
            "born": _dates(person["born"]),
            "sex": np.array(["F", "M", "X"])[person["sex"]],
            "region": REGIONS[person["region"]],
            "insurance": np.array(["public", "private", "none"])[person["insurance"]],
            "smoker": pd.array(person["smoker"].astype(bool), dtype="boolean"),
            "bmi": np.round(person["bmi"], 1),
        }
    )
    frame.loc[rng.random(count) < 0.08, "smoker"] = pd.NA
    frame.loc[rng.random(count) < 0.2, "bmi"] = np.nan
    frame.loc[rng.random(count) < 0.04, "insurance"] = None
    return frame


def _comings(patients: int, visits: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Who comes and when: a few patients come often, and most visits but the first follow soon on the one before."""
    weight = rng.pareto(4.0, patients) + 0.6
    numbers = np.minimum(
        np.bincount(rng.choice(patients, visits, p=weight / weight.sum()), minlength=patients), MOST_VISITS
    )
    who = np.repeat(np.arange(patients), numbers)
    first = np.append(True, who[1:] != who[:-1])
    soon = rng.random(len(who)) < 0.6
    gap = np.where(soon, rng.exponential(18, len(who)), rng.exponential(60, len(who)))
    elapsed = np.cumsum(np.where(first, 0.0, gap))
    elapsed -= elapsed[first].repeat(numbers[numbers > 0])
    whole = np.maximum.reduceat(elapsed, np.flatnonzero(first)).repeat(numbers[numbers > 0])
    fits = np.minimum(1.0, (DAYS - 1) / np.maximum(whole, 1.0))  # those who come very often come in shorter gaps
    start = rng.random(patients)[who] * (DAYS - 1 - whole * fits)
    return who, np.maximum(np.floor(start + elapsed * fits), 0).astype(np.int64)


def _wards(who: Ints, age: np.ndarray, sex: np.ndarray, rng: np.random.Generator) -> Ints:
    """A ward for each visit: children in paediatrics, births in maternity, hearts and tumours late in life. Half of all
    who come again come to the ward they were in before."""
    score = np.zeros((len(age), len(WARDS)))
    score[:, 0], score[:, 1], score[:, 2] = 1.2, 1.3, 0.6
    score[:, 3] = np.where(age > 50, 0.9, -2.0)
    score[:, 4] = np.where((sex == 0) & (age > 17) & (age < 46), 1.6, -99.0)
    score[:, 5] = np.where(age < 17, 3.2, -9.0)
    score[:, 6] = np.where(age > 45, 0.3, -1.5)
    drawn = np.argmax(score + rng.gumbel(size=score.shape), axis=1)
    stays = np.append(False, who[1:] == who[:-1]) & (rng.random(len(who)) < 0.5)
    from_row = np.maximum.accumulate(np.where(stays, 0, np.arange(len(who))))
    wards: Ints = drawn[from_row]
    return wards


def _patient_ids(who: Ints) -> np.ndarray:
    return np.char.add("P", (who + 100_000).astype(str))


def _dates(days: np.ndarray) -> np.ndarray:
    return np.asarray((FIRST_DAY + pd.to_timedelta(days, unit="D")).date)
