"""Over time: a change that is there shows, and a population that does not change shows none in 95 of 100 looks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.cli.test_verifying import said
from tests.inference.tables import PAIRS, some_codes, told_of, uneven
from understudy import synthesize
from understudy.pipelines.inference.asking import Asked
from understudy.pipelines.inference.question import parse_question
from understudy.pipelines.inference.trends import Trend

SPEC: dict[str, Any] = {
    "name": "visits",
    "privacy": {"account": "clinic", "epsilon": 3.0, "delta": 1e-6},
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 99, "bins": 10},
        "ward": {"type": "category", "values": ["A", "B"]},
    },
    "generate": {"epochs": 1, "particles": 200, "device": "cpu"},
}


def asked(codes: np.ndarray, question: str, seed: int) -> Any:
    return Asked(told_of(codes, PAIRS, uneven(), seed), lambda: pytest.fail("no row is needed")).answer(question)


@pytest.mark.parametrize(
    "question", ["mean(age) by sex", "share(smoker) by ward", "count by ward", "share(age = 3) where sex = F"]
)
def test_a_population_that_does_not_change_shows_no_change_in_95_of_100_looks(question: str) -> None:
    """300 pairs of periods, each sampled anew (a Poisson number of rows) and noised anew: four standard errors, taking
    the groups of one look for one."""
    rng, shown = np.random.default_rng(0), []
    for look in range(300):
        periods = []
        for period in range(2):
            codes = some_codes(int(rng.poisson(900)), 10_000 + 2 * look + period)
            periods.append((f"2026-0{period}", asked(codes, question, 2 * look + period)))
        trend = Trend(parse_question(question), tuple(periods))
        shown += [change.shows for change in trend.changes]
    assert np.mean(shown) < 0.05 + 4 * 0.0126
    assert np.mean(shown) > 0.005


def test_a_change_is_told_with_its_interval_and_groups_are_matched_by_name(home: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for snapshot, shift in (("2026-08", 0), ("2026-09", 0), ("2026-10", 25)):
        ward = rng.integers(0, 2, 5000)
        age = np.clip(rng.normal(30, 8, 5000) + shift * ward, 0, 99).astype(int)
        table = pa.table({"age": age, "ward": np.array(["A", "B"])[ward]})
        synthesize(table, {**SPEC, "snapshot": snapshot}, cap=(12, 1e-6), home=home).save(tmp_path / "out")
        time.sleep(1.1)  # created_at has whole seconds
    code, text = said("ask", tmp_path / "out" / "visits", "mean(age) by ward over time", "--json")
    assert code == 0, text
    told = json.loads(text)
    assert [answer["period"] for answer in told["answers"]] == ["2026-08"] * 2 + ["2026-09"] * 2 + ["2026-10"] * 2
    changes = {(change["period"], change["ward"]): change for change in told["changes"]}
    assert changes["2026-10", "B"]["shows"]
    assert changes["2026-10", "B"]["population_low"] > 15
    assert changes["2026-10", "B"]["against"] == "2026-09"
    assert abs(changes["2026-09", "A"]["estimate"]) < 3
    code, text = said("ask", tmp_path / "out" / "visits", "mean(age) by ward over time")
    assert (code, "from 2026-09 to 2026-10, ward B: a change" in text) == (0, True), text
    latest = tmp_path / "out" / "visits" / "latest"
    assert said("ask", latest.resolve(), "count over time")[0] == 0


def test_one_release_by_itself_has_no_time(home: Path, tmp_path: Path) -> None:
    table = pa.table({"age": [1] * 50, "ward": ["A"] * 50})
    to = f"duckdb:///{tmp_path}/out.duckdb"
    spec = {**SPEC, "snapshot": "1", "publish": {"to": to, "table": "copies"}}
    synthesize(table, spec, cap=(12, 1e-6), home=home).save(to)
    code, text = said("ask", f"{to}#copies", "count over time")
    assert (code, "side by side" in text) == (2, True), text
