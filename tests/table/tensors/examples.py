"""A spec of labelled pictures and rows to go with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from understudy.pipelines.spec.model import ReleaseSpec


def picture_spec(shape: tuple[int, ...] = (4, 3), low: float = 0, high: float = 255, **changes: Any) -> ReleaseSpec:
    tree: dict[str, Any] = {
        "name": "digits",
        "source": {"uri": "digits.parquet", "snapshot": "1"},
        "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6},
        "method": {"name": "kernel"},
        "columns": {
            "image": {"type": "tensor", "shape": list(shape), "min": low, "max": high},
            "label": {"type": "category", "values": ["0", "1", "2"]},
        },
        "publish": {"to": "releases/"},
    }
    return ReleaseSpec.model_validate({**tree, **changes})


def pictures(rows: int = 20, size: int = 12, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = pa.array(rng.integers(0, 256, rows * size, dtype=np.uint8))
    return pa.table(
        {
            "image": pa.FixedSizeListArray.from_arrays(numbers, size),
            "label": pa.array(rng.integers(0, 3, rows)),
            "who": pa.array([f"p{i % max(1, rows // 4)}" for i in range(rows)]),
        }
    )
