"""Names that try to run, to leave their place, or to be too long for it. A script among them sets `window.ran`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

SCRIPTS = (
    "<script>window.ran=1</script>",
    '"><img src=x onerror=window.ran=1>',
    "'onmouseover='window.ran=1",
    "</style><svg onload=window.ran=1>",
    "</title><script>ran=1</script>",
    "javascript:window.ran=1",
    "{{ sample }}",
    "{{ sections }}",
    "{% for x in y %}${window.ran=1}",
    "]]><!-- --><script>ran=1</script>",
    "&lt;b&gt; &amp; \\u003cscript\\u003e",
    "a,b;d|`e`*f*_g_[h](i)",
)
LONG = "the_longest_name_that_a_warehouse_of_this_hospital_ever_had_"
FOREIGN = ("العمر عند الدخول إلى المستشفى", "גיל המטופל", "年齢（入院時）", "🩺 seen by", "🏥🏥🏥", "Straße in الرباط")
COLUMNS = 40
CATEGORIES = 500


def names() -> list[str]:
    """Forty, of which as many as fill up are of sixty characters."""
    given = [*SCRIPTS, *FOREIGN]
    return [*given, *(f"{LONG[:57]}_{number:02d}" for number in range(COLUMNS - len(given)))]


def values(name: str) -> list[str]:
    """What a category of that column is called: of the first there are five hundred."""
    if name == SCRIPTS[0]:
        return [f"{SCRIPTS[number % len(SCRIPTS)]} {number:03d}".replace("{{", "{") for number in range(CATEGORIES)]
    shown = name.replace("{{", "{")  # in a value it would be a period
    return ["no", f"{shown} is a value", LONG]


def spec(name: str) -> dict[str, Any]:
    columns = {column: {"type": "category", "values": values(column)} for column in names()}
    columns[names()[-1]] = {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": "week"}  # type: ignore[dict-item]
    columns[names()[-2]] = {"type": "number", "min": -1e9, "max": 1e9, "bins": 60}  # type: ignore[dict-item]
    return {
        "name": name,
        "privacy": {"account": "hostile", "epsilon": 1.0, "delta": 1e-6, "quality": 0.02},
        "columns": columns,
        "method": {"name": "privpgd", "marginals": "all-1way"},
        "generate": {"epochs": 1, "particles": 200, "device": "cpu"},
    }


def rows(number: int = 400) -> pa.Table:
    rng = np.random.default_rng(4)
    table = {name: pa.array(np.array(values(name))[rng.integers(0, len(values(name)), number)]) for name in names()}
    table[names()[-1]] = pa.array((np.datetime64("2026-01-01") + rng.integers(0, 365, number)).astype("datetime64[D]"))
    table[names()[-2]] = pa.array(rng.normal(0, 1e6, number))
    return pa.table(table)
