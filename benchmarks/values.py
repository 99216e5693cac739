"""Values as they are: zeros, clocks, sums and tails of copies at epsilon 1, through whole releases.

Figures. `values.taxi.*` and `values.income.*` are of tables that `benchmarks/support/trips.py` makes, which are public:
how far shares of exact zeros, means, the hours of the day, the median duration and quantiles lie from the real ones.
`values.ks.<set>.<column>` is the Kolmogorov-Smirnov distance between the real and the copied values of a numeric column
of Adult, of the American Community Survey (PUMS, New York) and of Diabetes 130, nulls left out, and `.mean` the mean of
all. Bounds, bins and spikes below are written by hand from what is commonly known of the data sets, some maxima of
their rows among it; none is computed here. The mean of `--runs` releases is shown, and the worst of
them beside it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.figures import Figures
from benchmarks.support.trips import incomes, taxi_trips
from understudy import synthesize
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.coding.decode import decode_column
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.domain import TableDomain

TAXI: dict[str, Any] = {
    "pickup": {"type": "datetime", "min": "2026-01-05", "max": "2026-04-05T23:59:59", "bins": "week",
               "parts": ["date", "weekday", "hour"]},
    "dropoff": {"type": "datetime", "after": "pickup", "up_to": "6h", "bins": 40},
    "payment": {"type": "category", "values": ["card", "cash"]},
    "fare": {"type": "number", "min": 2.5, "max": 300, "bins": 40, "scale": "ratio", "step": 0.1},
    "tip": {"type": "number", "min": 0.01, "max": 100, "bins": 32, "scale": "ratio", "decimals": 2, "spikes": [0]},
    "tolls": {"type": "number", "min": 0.01, "max": 30, "bins": 6, "decimals": 2,
              "spikes": [0, 2.80, 6.55, 6.94, 12.00, 16.00]},
    "total": {"derive": "fare + tip + tolls"},
}  # fmt: skip
INCOME: dict[str, Any] = {
    "age": {"type": "integer", "min": 16, "max": 94, "bins": 16},
    "sex": {"type": "category", "values": ["F", "M"]},
    "income": {"type": "integer", "min": -19_998, "max": 2_000_000, "bins": 100, "scale": "signed", "spikes": [0]},
}
_WORDS: dict[str, Any] = {"type": "category", "other": True, "nullable": True}
ADULT: dict[str, Any] = {
    "age": {"type": "integer", "min": 17, "max": 90, "bins": 74},
    "workclass": {**_WORDS, "values": ["Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov",
                                       "State-gov", "Without-pay", "Never-worked"]},
    "fnlwgt": {"type": "integer", "min": 10_000, "max": 1_500_000, "bins": 40, "scale": "ratio"},
    "educational-num": {"type": "integer", "min": 1, "max": 16},
    "marital-status": {**_WORDS, "values": ["Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
                                            "Married-spouse-absent", "Married-AF-spouse"]},
    "gender": {"type": "category", "values": ["Female", "Male"]},
    "capital-gain": {"type": "integer", "min": 100, "max": 99_998, "bins": 32, "scale": "ratio",
                     "spikes": [0, 99_999]},
    "capital-loss": {"type": "integer", "min": 100, "max": 5_000, "bins": 32, "spikes": [0]},
    "hours-per-week": {"type": "integer", "min": 1, "max": 99, "bins": 99},
    "income": {"type": "category", "values": ["<=50K", ">50K"]},
}  # fmt: skip
PUMS: dict[str, Any] = {
    "AGEP": {"type": "integer", "min": 0, "max": 99, "bins": 100},
    "SEX": {"type": "category", "values": [1, 2]},
    "MAR": {"type": "category", "values": [1, 2, 3, 4, 5]},
    "WKHP": {"type": "integer", "min": 1, "max": 99, "bins": 99, "nullable": True},
    "WKWN": {"type": "integer", "min": 1, "max": 52, "bins": 52, "nullable": True},
    "JWMNP": {"type": "integer", "min": 1, "max": 200, "bins": 200, "nullable": True},
    "PINCP": {"type": "integer", "min": -19_997, "max": 4_209_995, "bins": 80, "scale": "signed", "spikes": [0],
              "nullable": True},
    "WAGP": {"type": "integer", "min": 4, "max": 999_999, "bins": 60, "scale": "signed", "spikes": [0],
             "nullable": True},
    "POVPIP": {"type": "integer", "min": 0, "max": 500, "bins": 100, "spikes": [0, 501], "nullable": True},
}  # fmt: skip
DIABETES: dict[str, Any] = {
    "gender": {**_WORDS, "values": ["Female", "Male"]},
    "age": {**_WORDS, "values": [f"[{low}-{low + 10})" for low in range(0, 100, 10)], "ordered": True},
    "time_in_hospital": {"type": "integer", "min": 1, "max": 14},
    "num_lab_procedures": {"type": "integer", "min": 1, "max": 132, "bins": 132},
    "num_procedures": {"type": "integer", "min": 0, "max": 6},
    "num_medications": {"type": "integer", "min": 1, "max": 81, "bins": 81},
    "number_outpatient": {"type": "integer", "min": 0, "max": 42, "bins": 43},
    "number_emergency": {"type": "integer", "min": 0, "max": 76, "bins": [0, 1, 2, 3, 4, 5, 7, 10, 15, 25, 76]},
    "number_inpatient": {"type": "integer", "min": 0, "max": 21, "bins": 22},
    "number_diagnoses": {"type": "integer", "min": 1, "max": 16},
    "readmitted": {"type": "category", "values": ["NO", "<30", ">30"]},
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=1, help="releases of each table; figures are their means")
    parser.add_argument("--epsilon", type=float, default=1.0)


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    tables: list[tuple[str, dict[str, Any], Callable[[], pa.Table | None], Callable[..., dict[str, float]]]] = [
        ("taxi", TAXI, taxi_trips, _taxi_figures),
        ("income", INCOME, incomes, _income_figures),
        ("ks.adult", ADULT, lambda: _csv(args.data / "adult" / "adult_raw.csv.gz", ADULT), _ks_figures(ADULT)),
        ("ks.pums", PUMS, lambda: _parquet(args.data / "pums2024" / "ny.parquet", PUMS), _ks_figures(PUMS)),
        ("ks.diabetes", DIABETES, lambda: _csv(args.data / "diabetes130" / "diabetic_data.csv.gz", DIABETES),
         _ks_figures(DIABETES)),
    ]  # fmt: skip
    for name, columns, load, measure in tables:
        if not figures.wants(f"values.{name}") or (real := load()) is None:
            continue
        found = [measure(real, _copy(real, columns, args.epsilon)) for _ in range(args.runs)]
        for key in found[0]:
            each = [one[key] for one in found]
            worst = min(each) if key == "total_exact" else max(each)
            figures.show(f"values.{name}.{key}", float(np.mean(each)), "worst", worst)


def _copy(real: pa.Table, columns: dict[str, Any], epsilon: float) -> pa.Table:
    spec = {**_spec(columns, epsilon), "snapshot": "public"}
    with tempfile.TemporaryDirectory() as home:
        return synthesize(real, spec, cap=(epsilon * 1.001, 1e-5), home=home).table


def _spec(columns: dict[str, Any], epsilon: float) -> dict[str, Any]:
    return {
        "name": "values",
        "privacy": {"account": "values", "epsilon": epsilon, "delta": 1e-6},
        "columns": columns,
        "generate": {"device": "cpu"},
    }


def _taxi_figures(real: pa.Table, copy: pa.Table) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in ("tip", "tolls"):
        one, other = _numbers(real, name), _numbers(copy, name)
        found[f"{name}_zeros"] = abs(float(np.mean(one == 0) - np.mean(other == 0)))
        found[f"{name}_mean"] = abs(float(other.mean() / one.mean()) - 1)
    hours, weekdays = [], []
    for table in (real, copy):
        moments = pd.DatetimeIndex(table["pickup"].to_pandas())
        hours.append(np.bincount(moments.hour, minlength=24) / len(moments))
        weekdays.append(np.bincount(moments.weekday, minlength=7) / len(moments))
    found["hours_tv"] = float(np.abs(hours[0] - hours[1]).sum() / 2)
    found["weekdays_tv"] = float(np.abs(weekdays[0] - weekdays[1]).sum() / 2)
    lasting = [(table["dropoff"].to_numpy() - table["pickup"].to_numpy()).astype("timedelta64[s]").astype(float)
               for table in (real, copy)]  # fmt: skip
    found["median_duration"] = abs(float(np.median(lasting[1]) / np.median(lasting[0])) - 1)
    found["dropoff_before_pickup"] = float(np.mean(lasting[1] < 0))
    rows = zip(*(copy[name].to_pylist() for name in ("fare", "tip", "tolls", "total")), strict=True)
    sums = [sum(Decimal(str(part)) for part in parts) == Decimal(str(total)) for *parts, total in rows]
    found["total_exact"] = float(np.mean(sums))
    return found


def _income_figures(real: pa.Table, copy: pa.Table) -> dict[str, float]:
    one, other = _numbers(real, "income"), _numbers(copy, "income")
    gaps = _quantile_gaps(one, other)
    resampled = _quantile_gaps(one, np.random.default_rng().choice(one, len(one)))
    return {
        "zeros": abs(float(np.mean(one == 0) - np.mean(other == 0))),
        "negatives": abs(float(np.mean(one < 0) - np.mean(other < 0))),
        "worst_quantile": float(gaps.max()),
        "worst_quantile_at": (int(gaps.argmax()) + 1) / 100,
        "mean_quantile": float(gaps.mean()),
        "resampled_worst_quantile": float(resampled.max()),
        "coded_worst_quantile": float(_quantile_gaps(one, _coded(real, "income")).max()),
    }


def _quantile_gaps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of the 1 to 99% quantiles, in units of the range between the first one's quartiles."""
    shares = np.arange(1, 100) / 100
    low, high = np.quantile(one, [0.25, 0.75])
    return np.asarray(np.abs(np.quantile(one, shares) - np.quantile(other, shares)) / (high - low))


def _coded(real: pa.Table, name: str) -> np.ndarray:
    """The column coded and decoded again: what bins alone lose, without noise or model."""
    spec = spec_of({**_spec(INCOME, 1.0), "source": {"uri": "x", "snapshot": "public"}, "publish": {"to": "x"}})
    column = next(column for column in TableDomain.of(spec).columns if column.name == name)
    codes = encode_column(real[name].combine_chunks(), column)
    return np.asarray(decode_column(codes, column, np.random.default_rng()).to_numpy(zero_copy_only=False), float)


def _ks_figures(columns: dict[str, Any]) -> Callable[[pa.Table, pa.Table], dict[str, float]]:
    numeric = [name for name, column in columns.items() if column["type"] in ("integer", "number")]

    def measure(real: pa.Table, copy: pa.Table) -> dict[str, float]:
        found = {name: _ks(_numbers(real, name), _numbers(copy, name)) for name in numeric}
        return {**found, "mean": float(np.mean(list(found.values())))}

    return measure


def _ks(one: np.ndarray, other: np.ndarray) -> float:
    places = np.unique(np.concatenate([one, other]))
    shares = [np.searchsorted(np.sort(values), places, side="right") / len(values) for values in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table[name].drop_null().cast(pa.float64()).to_numpy())


def _csv(path: Path, columns: dict[str, Any]) -> pa.Table | None:
    if not path.exists():
        return None
    return pa.Table.from_pandas(pd.read_csv(path, usecols=list(columns), na_values=["?"]), preserve_index=False)


def _parquet(path: Path, columns: dict[str, Any]) -> pa.Table | None:
    return pq.read_table(path, columns=list(columns)) if path.exists() else None
