"""Over time: a change that is there shows, and a population that does not change shows none in 95 of 100 looks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tests.cli.test_verifying import said
from tests.inference.tables import PAIRS, some_codes, told_of, uneven
from tests.warehouse import Warehouse
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


@pytest.mark.parametrize("kind", ["duckdb", "postgresql", "sqlite", "delta"])
def test_a_table_remembers_what_the_releases_measured_that_it_held(
    kind: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    to, table = f"duckdb:///{tmp_path}/out.duckdb", "copies"
    if kind == "postgresql":
        warehouse: Warehouse = request.getfixturevalue("warehouse")
        monkeypatch.setenv("WAREHOUSE_URL", warehouse.uri)
        to, table = "postgresql+env://WAREHOUSE_URL", f"{warehouse.schema}.copies"
    elif kind == "delta":
        to = f"delta:///{tmp_path}/lake"
    elif kind == "sqlite":
        to = f"sqlite:///{tmp_path}/out.db"
    named = {} if kind == "delta" else {"table": table}
    rng, at = np.random.default_rng(1), to if kind == "delta" else f"{to}#{table}"
    for number, snapshot in enumerate(("2026-08", "2026-09", "2026-10")):
        ward = np.array(["A", "B"])[rng.integers(0, 2, 400)]
        frame = pa.table({"age": rng.integers(20, 40, 400) + 30 * (number == 2), "ward": ward})
        spec = {**SPEC, "snapshot": snapshot, "publish": {"to": to, **named}}
        synthesize(frame, spec, cap=(12, 1e-6), home=home).save(to)
        code, text = said("ask", at, "mean(age) over time", "--json")
        assert code == 0, text
        told = json.loads(text)
        assert len(told["answers"]) == number + 1
    assert [answer["period"] for answer in told["answers"]] == ["2026-08", "2026-09", "2026-10"]
    assert [change["period"] for change in told["changes"]] == ["2026-09", "2026-10"]
    assert told["changes"][1]["shows"]
    assert told["changes"][1]["population_low"] > 20
    assert abs(told["answers"][0]["estimate"] - 30) < 4


def test_a_release_that_measured_nothing_and_has_no_rows_is_left_out_and_named(home: Path, tmp_path: Path) -> None:
    """As those of versions that published no measurements, in a table that another release replaced since."""
    to = f"duckdb:///{tmp_path}/out.duckdb"
    for snapshot in ("2026-08", "2026-09"):
        table = pa.table({"age": [30] * 50, "ward": ["A"] * 50})
        spec = {**SPEC, "snapshot": snapshot, "publish": {"to": to, "table": "copies"}}
        synthesize(table, spec, cap=(12, 1e-6), home=home).save(to)
    with duckdb.connect(f"{tmp_path}/out.duckdb") as connection:
        connection.execute("DELETE FROM understudy_files WHERE release_id LIKE '2026-08%'")
        [(text,)] = connection.execute(
            "SELECT manifest FROM understudy_releases WHERE release_id LIKE '2026-08%'"
        ).fetchall()
        older = json.loads(text)
        older["files"] = [file for file in older["files"] if not file["path"].startswith("measured/")]
        connection.execute(
            "UPDATE understudy_releases SET manifest = ? WHERE release_id LIKE '2026-08%'", [json.dumps(older)]
        )
    code, text = said("ask", f"{to}#copies", "count over time")
    assert code == 0, text
    assert "2026-09: count" in text
    assert "! 2026-08 is left out: 2026-08" in text
