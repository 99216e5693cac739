"""What was prescribed at the visits of the demo's clinic: none to four drugs a visit, by ward and severity."""

from __future__ import annotations

import numpy as np
import pandas as pd

DRUGS = np.array(["painkiller", "antibiotic", "beta_blocker", "statin", "chemotherapy", "iron", "insulin"])
MOST = 4
"""Drugs of one visit."""

_BY_WARD = np.array(
    [  # emergency, general, surgery, cardiology, maternity, paediatrics, oncology
        [5.0, 2.0, 0.5, 0.4, 0.0, 0.2, 0.6],
        [2.0, 2.5, 0.8, 1.2, 0.0, 0.4, 1.5],
        [6.0, 3.5, 0.3, 0.3, 0.0, 0.6, 0.4],
        [0.6, 0.3, 5.0, 4.0, 0.0, 0.1, 0.8],
        [2.0, 0.7, 0.0, 0.0, 0.0, 5.0, 0.5],
        [2.5, 4.5, 0.0, 0.0, 0.0, 0.5, 0.4],
        [2.5, 0.8, 0.2, 0.3, 6.0, 0.8, 0.2],
    ]
)
_USUAL_DAYS = np.array([5, 7, 60, 90, 21, 45, 90])


def prescribed(
    visits: np.ndarray, ward: np.ndarray, severity: np.ndarray, age: np.ndarray, rng: np.random.Generator
) -> pd.DataFrame:
    """One row a drug; severe cases get more of them, the old for longer."""
    numbers = np.minimum(rng.poisson(0.35 + 0.45 * severity), MOST)
    row = np.repeat(np.arange(len(visits)), numbers)
    drug = np.argmax(np.log(_BY_WARD + 1e-9)[ward[row]] + rng.gumbel(size=(len(row), len(DRUGS))), axis=1)
    days = np.ceil(_USUAL_DAYS[drug] * rng.gamma(4.0, 0.25, len(row)) * np.where(age[row] > 70, 1.4, 1.0))
    return pd.DataFrame(
        {
            "visit_id": visits[row],
            "drug": DRUGS[drug],
            "days": np.clip(days, 1, 180).astype(int),
            "repeat": rng.random(len(row)) < np.where(days > 30, 0.5, 0.1),
        }
    )
