"""A spec and a table that many tests share."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np

SPEC = """\
name: clinic-visits
source: {uri: "duckdb:///clinic.duckdb", table: visits, snapshot: "2026-10"}
method: {name: privpgd, marginals: all-2way}
privacy: {account: clinic, relation: add_remove, unit: {entity: patient_id, max_rows: 4}, epsilon: 1.0, delta: 1e-6}
columns:
  age: {type: integer, min: 0, max: 110, bins: 32}
  sex: {type: category, values: [F, M, X]}
  charge: {type: number, min: 0, max: 20000, scale: log, bins: 32, nullable: true}
  visited_on: {type: date, min: 2026-01-01, max: 2026-12-31, bins: month}
  ward: {type: category, values: [A, B, C], other: true}
  smoker: {type: boolean, nullable: true}
  visit_id: {type: identifier, action: surrogate}
  patient_id: {type: identifier, action: drop}
publish: {to: releases/}
"""


def build_clinic(folder: Path, rows: int = 2000, seed: int = 3) -> Path:
    """The table that SPEC describes, with dependence, nulls and an unlisted ward."""
    rng = np.random.default_rng(seed)
    patients = rng.integers(0, max(1, rows // 2), rows)
    age = np.clip(rng.normal(50, 20, rows), 0, 110).astype(int)
    charge = np.round(np.exp(rng.normal(4 + age / 40, 1)), 2)
    ward = np.where(age > 60, "A", np.where(rng.random(rows) < 0.5, "B", "C"))
    ward[rng.random(rows) < 0.05] = "Z"
    path = folder / "clinic.duckdb"
    columns = {
        "patient_id": np.char.add("P", patients.astype(str)),
        "visit_id": np.arange(rows),
        "age": age,
        "sex": np.array(["F", "M", "X"])[rng.choice(3, rows, p=[0.5, 0.49, 0.01])],
        "charge": np.where(rng.random(rows) < 0.1, np.nan, charge),
        "visited_on": (np.datetime64("2026-01-01") + rng.integers(0, 300, rows)).astype("datetime64[D]").astype(str),
        "ward": ward,
        "smoker": np.where(rng.random(rows) < 0.1, "", np.where(age < 40, "true", "false")),
    }
    import pyarrow as pa

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", table)
        connection.execute(
            "CREATE TABLE visits AS SELECT * REPLACE (CAST(visited_on AS DATE) AS visited_on, "
            "CASE WHEN isnan(charge) THEN NULL ELSE charge END AS charge, "
            "CASE smoker WHEN 'true' THEN true WHEN 'false' THEN false END AS smoker) FROM rows"
        )
    return path
