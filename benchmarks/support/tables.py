"""The real tables as integer codes over public domains; a table whose files are not in the directory is None.

Bounds and categories are from the data sets' documentation, not from their rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

Encoded = tuple[np.ndarray, int, bool]


@dataclass(frozen=True, eq=False)
class CodedTable:
    name: str
    columns: tuple[str, ...]
    codes: np.ndarray
    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    label: int


def load_tables(data: Path) -> list[CodedTable]:
    loaders = (adult, income_ny, diabetes, national, *(_classic(name) for name in ("nltcs", "br2000", "acs")))
    return [table for load in loaders if (table := load(data)) is not None]


def adult(data: Path) -> CodedTable | None:
    """All 14 columns; those of more than 42 codes are reduced by code * 32 // k."""
    return _adult(data, None, 42, "adult")


def adult_slice(data: Path) -> CodedTable | None:
    """The six columns of issue 3 at 32 bins."""
    return _adult(data, ("age", "education-num", "marital-status", "sex", "hours-per-week", "income>50K"), 32, "slice")


def _adult(data: Path, wanted: tuple[str, ...] | None, most: int, name: str) -> CodedTable | None:
    folder = data / "adult"
    if not (folder / "adult_codes.csv").exists():
        return None
    domain = json.loads((folder / "adult-domain.json").read_text())
    frame = pd.read_csv(folder / "adult_codes.csv")
    nominal = {
        "workclass",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "native-country",
        "income>50K",
    }
    parts: dict[str, Encoded] = {}
    for column in wanted or tuple(domain):
        codes, size = frame[column].to_numpy(), int(domain[column])
        if size > most:
            codes, size = codes * 32 // size, 32
        parts[column] = codes, size, column not in nominal
    return _assemble(name, parts, "income>50K")


def income_ny(data: Path) -> CodedTable | None:
    """ACS 2024 New York, the income task: AGEP > 16, WKHP >= 1, PINCP > 100; is PINCP above 50,000?"""
    path = data / "pums2024" / "ny.parquet"
    if not path.exists():
        return None
    frame = pd.read_parquet(path)
    frame = frame[(frame["AGEP"] > 16) & (frame["WKHP"] >= 1) & (frame["PINCP"] > 100)]
    parts = {
        "AGEP": _binned(frame["AGEP"], 17, 100, 32),
        "WKHP": _binned(frame["WKHP"], 1, 100, 32),
        "OCCP": _binned(frame["OCCP"], 0, 10000, 32),
        "SCHL": _listed(frame["SCHL"], range(1, 25), ordered=True),
        "POVPIP": _binned(frame["POVPIP"], 0, 502, 32),
    }
    small = {"SEX": 2, "RAC1P": 9, "CIT": 5, "MAR": 5, "COW": 9, "ESR": 6, "JWTRNS": 12, "HICOV": 2, "DIS": 2}
    for column, last in small.items():
        parts[column] = _listed(frame[column], range(1, last + 1), ordered=False)
    parts["income"] = (frame["PINCP"] > 50_000).to_numpy().astype(int), 2, False
    return _assemble("income_ny", parts, "income")


def people(data: Path) -> CodedTable | None:
    """ACS 2024, everybody in New York and Florida, ten columns: many rows for few columns."""
    paths = [data / "pums2024" / f"{state}.parquet" for state in ("ny", "fl")]
    if not all(path.exists() for path in paths):
        return None
    frame = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
    parts = {
        "AGEP": _binned(frame["AGEP"], 0, 100, 20),
        "SCHL": _listed(frame["SCHL"], range(1, 25), ordered=True),
        "POVPIP": _binned(frame["POVPIP"], 0, 502, 16),
    }
    for column, last in {"SEX": 2, "RAC1P": 9, "CIT": 5, "MAR": 5, "ESR": 6, "HICOV": 2, "DIS": 2}.items():
        parts[column] = _listed(frame[column], range(1, last + 1), ordered=False)
    return _assemble("people", parts, "HICOV")


def workers(data: Path) -> CodedTable | None:
    """ACS 2024, who works in New York: income and age in so many bins that groups of neighbours are measured too."""
    path = data / "pums2024" / "ny.parquet"
    if not path.exists():
        return None
    frame = pd.read_parquet(path)
    frame = frame[(frame["AGEP"] > 16) & (frame["WKHP"] >= 1) & (frame["PINCP"] > 100)]
    parts = {
        "PINCP": _binned(frame["PINCP"], 0, 200_000, 400),
        "AGEP": _binned(frame["AGEP"], 0, 100, 100),
        "WKHP": _binned(frame["WKHP"], 0, 100, 20),
    }
    for column, last in {"SEX": 2, "RAC1P": 9, "MAR": 5, "HICOV": 2}.items():
        parts[column] = _listed(frame[column], range(1, last + 1), ordered=False)
    return _assemble("workers", parts, "HICOV")


def diabetes(data: Path) -> CodedTable | None:
    """Diabetes 130-US hospitals: is the patient readmitted within 30 days?"""
    path = data / "diabetes130" / "diabetic_data.csv.gz"
    if not path.exists():
        return None
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    ages = [f"[{low}-{low + 10})" for low in range(0, 100, 10)]
    parts = {
        "race": _listed(frame["race"], ("AfricanAmerican", "Asian", "Caucasian", "Hispanic", "Other"), ordered=False),
        "gender": _listed(frame["gender"], ("Female", "Male"), ordered=False),
        "age": _listed(frame["age"], ages, ordered=True),
        "admission_type_id": _listed(frame["admission_type_id"], map(str, range(1, 9)), ordered=False),
        "discharge_disposition_id": _listed(frame["discharge_disposition_id"], map(str, range(1, 30)), ordered=False),
        "time_in_hospital": _listed(frame["time_in_hospital"], map(str, range(1, 15)), ordered=True),
        "num_lab_procedures": _binned(frame["num_lab_procedures"].astype(int), 0, 133, 32),
        "num_procedures": _listed(frame["num_procedures"], map(str, range(7)), ordered=True),
        "num_medications": _binned(frame["num_medications"].astype(int), 0, 82, 32),
        "number_inpatient": _binned(frame["number_inpatient"].astype(int), 0, 22, 22),
        "number_diagnoses": _listed(frame["number_diagnoses"], map(str, range(1, 17)), ordered=True),
        "A1Cresult": _listed(frame["A1Cresult"], ("None", "Norm", ">7", ">8"), ordered=False),
        "insulin": _listed(frame["insulin"], ("No", "Down", "Steady", "Up"), ordered=False),
        "change": _listed(frame["change"], ("No", "Ch"), ordered=False),
        "readmitted": ((frame["readmitted"] == "<30").to_numpy().astype(int), 2, False),
    }
    return _assemble("diabetes", parts, "readmitted")


def patients(data: Path) -> np.ndarray | None:
    """Whose rows those of `diabetes` are."""
    path = data / "diabetes130" / "diabetic_data.csv.gz"
    return pd.read_csv(path, usecols=["patient_nbr"])["patient_nbr"].to_numpy() if path.exists() else None


def national(data: Path) -> CodedTable | None:
    """NIST Diverse Communities, national 2019: does the household own its home?"""
    folder = data / "nist2019"
    if not (folder / "national2019.csv").exists():
        return None
    frame = pd.read_csv(folder / "national2019.csv", dtype=str, keep_default_na=False)
    schema = json.loads((folder / "national2019.json").read_text())["schema"]
    ordered = {"NOC", "NPF", "EDU", "PINCP_DECILE"}
    skipped = {"INDP", "DENSITY", "PINCP", "PWGTP", "WGTP"}
    parts: dict[str, Encoded] = {}
    for column, facts in schema.items():
        if column in skipped:
            continue
        if "values" in facts:
            parts[column] = _listed(frame[column], map(str, facts["values"]), ordered=column in ordered)
        else:
            numbers = pd.to_numeric(frame[column], errors="coerce")
            parts[column] = _binned(numbers, facts["min"], facts["max"] + 1, 32)
    return _assemble("nist2019", parts, "OWN_RENT")


def _classic(name: str) -> Callable[[Path], CodedTable | None]:
    def load(data: Path) -> CodedTable | None:
        path = data / "classics" / f"{name}.csv"
        if not path.exists():
            return None
        domain = json.loads(path.with_suffix(".json").read_text())
        frame = pd.read_csv(path)
        parts = {
            column: (
                frame[column].to_numpy(),
                int(domain[column]["domain"]),
                int(domain[column]["domain"]) > 10,
            )
            for column in frame.columns
        }
        return _assemble(name, parts, frame.columns[-1])

    return load


def _listed(values: pd.Series, known: object, *, ordered: bool) -> Encoded:
    """Codes in the order given; anything else, null included, is one more code."""
    places = {value: place for place, value in enumerate(known)}  # type: ignore[arg-type, var-annotated]
    codes = values.map(places)
    missing = bool(codes.isna().any())
    filled = codes.fillna(len(places)).to_numpy().astype(int)
    return filled, len(places) + missing, ordered and not missing


def _binned(values: pd.Series, low: float, high: float, bins: int) -> Encoded:
    """Equal bins of [low, high), clipped; null is one more code at the end."""
    numbers = pd.to_numeric(values).to_numpy(dtype=float, na_value=np.nan)
    codes = np.clip(np.nan_to_num((numbers - low) / (high - low) * bins), 0, bins - 1).astype(int)
    missing = np.isnan(numbers)
    codes[missing] = bins
    return codes, bins + int(missing.any()), True


def _assemble(name: str, parts: dict[str, Encoded], label: str) -> CodedTable:
    columns = tuple(parts)
    codes = np.stack([part[0] for part in parts.values()], axis=1).astype(np.int64)
    sizes, ordered = tuple(part[1] for part in parts.values()), tuple(part[2] for part in parts.values())
    return CodedTable(name, columns, codes, sizes, ordered, columns.index(label))
