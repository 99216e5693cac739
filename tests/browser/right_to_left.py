"""A table of which every name and value is Arabic or Hebrew: long ones, ones with digits and brackets, short ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

PERSON = "מספר המטופל"
WARD = "القسم الذي دخل إليه المريض عند وصوله إلى المستشفى (أول مرة)"
SEX, AGE, CHARGE, DAY, SMOKES = "מין", "العمر", "التكلفة [ريال] 2026", "יום הביקור", "معشן?"
WARDS = [
    "الجراحة",
    "الولادة والأمراض النسائية والعناية بالأطفال حديثي الولادة",
    "מחלקה פנימית (ב׳) 12",
    "قسم 3/ب",
    "🩺 طوارئ",
]
SEXES = ["זכר", "נקבה", "غير معروف"]


def spec(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "privacy": {
            "account": "leftward",
            "epsilon": 2,
            "delta": 1e-6,
            "unit": {"entity": PERSON, "max_rows": 3},
            "quality": 0.05,
        },
        "columns": {
            PERSON: {"type": "identifier", "action": "drop"},
            WARD: {"type": "category", "values": WARDS, "other": True},
            SEX: {"type": "category", "values": SEXES, "nullable": True},
            AGE: {"type": "integer", "min": 0, "max": 110, "bins": 22},
            CHARGE: {"type": "number", "min": -1e6, "max": 1e6, "bins": 30, "spikes": [0]},
            DAY: {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": "month"},
            SMOKES: {"type": "boolean"},
        },
        "method": {"name": "privpgd", "marginals": "all-2way"},
        "generate": {
            "epochs": 2,
            "particles": 500,
            "device": "cpu",
            "rules": [{"forbid": {SEX: SEXES[:1], WARD: [WARDS[1]]}}],
        },
    }


def rows(number: int = 600) -> pa.Table:
    rng = np.random.default_rng(6)
    ward, sex = rng.integers(0, len(WARDS), number), rng.integers(0, len(SEXES), number)
    sex[ward == 1] = 1
    return pa.table(
        {
            PERSON: rng.integers(0, number // 2, number),
            WARD: np.array(WARDS)[ward],
            SEX: np.array(SEXES)[sex],
            AGE: rng.integers(0, 100, number),
            CHARGE: np.where(rng.random(number) < 0.3, 0.0, rng.normal(0, 1e5, number)),
            DAY: (np.datetime64("2026-01-01") + rng.integers(0, 365, number)).astype("datetime64[D]"),
            SMOKES: rng.random(number) < 0.3,
        }
    )
