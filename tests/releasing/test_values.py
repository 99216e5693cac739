"""Releases of tables with spikes, times and sums, through the Python interface: what is published is as declared."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from understudy import synthesize

COLUMNS: dict[str, Any] = {
    "pickup": {"type": "datetime", "min": "2026-01-05", "max": "2026-02-01T23:59:59", "bins": "week",
               "parts": ["date", "hour", "weekday"]},
    "dropoff": {"type": "datetime", "after": "pickup", "up_to": "2h"},
    "fare": {"type": "number", "min": 2, "max": 100, "decimals": 2, "scale": "ratio"},
    "tip": {"type": "number", "min": 0, "max": 30, "decimals": 2, "spikes": [0]},
    "total": {"derive": "fare + tip"},
}  # fmt: skip


def trips(rows: int = 4000) -> pa.Table:
    rng = np.random.default_rng(5)
    start = np.datetime64("2026-01-05") + rng.integers(0, 28, rows).astype("timedelta64[D]")
    start = start.astype("datetime64[us]") + np.clip(rng.normal(17, 3, rows) * 3600, 0, 86_399).astype("timedelta64[s]")
    fare = np.round(rng.lognormal(2.5, 0.5, rows), 2)
    tip = np.where(rng.random(rows) < 0.4, 0.0, np.round(fare * 0.2, 2))
    seconds = np.round(rng.lognormal(6.5, 0.5, rows)).astype("timedelta64[s]")
    return pa.table(
        {"who": rng.integers(0, 3000, rows), "pickup": start, "dropoff": start + seconds, "fare": fare, "tip": tip}
    )


@pytest.mark.parametrize("unit", [{}, {"entity": "who", "max_rows": 3}], ids=["rows", "entities"])
def test_a_release_keeps_zeros_hours_order_and_sums(tmp_path: Path, unit: dict[str, Any]) -> None:
    spec = {
        "name": "trips",
        "snapshot": "2026-01",
        "privacy": {"account": "t", "epsilon": 5, "delta": 1e-6, "unit": unit},
        "columns": COLUMNS,
        "generate": {"epochs": 3, "device": "cpu"},
    }
    real = trips()
    release = synthesize(real, spec, cap=(10, 1e-5), home=tmp_path)
    rows = release.table.to_pylist()
    assert list(rows[0]) == list(COLUMNS)
    assert abs(np.mean([row["tip"] == 0 for row in rows]) - np.mean(real["tip"].to_numpy() == 0)) < 0.03
    hours = [
        np.bincount([moment.hour for moment in table["pickup"].to_pylist()], minlength=24) / table.num_rows
        for table in (release.table, real)
    ]
    assert np.abs(hours[0] - hours[1]).sum() / 2 < 0.05
    assert all(dt.timedelta() <= row["dropoff"] - row["pickup"] <= dt.timedelta(hours=2) for row in rows)
    assert all(Decimal(str(row["total"])) == Decimal(str(row["fare"])) + Decimal(str(row["tip"])) for row in rows)
    assert "modelled by date (4)" in release.card


@pytest.mark.parametrize("method", [{"name": "gaussian", "mode": "copula"}, {"name": "gaussian"}])
def test_other_methods_put_times_together_too(tmp_path: Path, method: dict[str, Any]) -> None:
    spec = {
        "name": "trips",
        "snapshot": "2026-01",
        "privacy": {"account": "t", "epsilon": 5, "delta": 1e-6},
        "columns": COLUMNS,
        "method": method,
    }
    rows = synthesize(trips(), spec, cap=(10, 1e-5), home=tmp_path).table.to_pylist()
    assert all(row["pickup"] <= row["dropoff"] for row in rows)
    assert all(Decimal(str(row["total"])) == Decimal(str(row["fare"])) + Decimal(str(row["tip"])) for row in rows)
