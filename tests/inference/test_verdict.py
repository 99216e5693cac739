"""Verdicts: from signal and noise, before paying and after, and a copy that would be noise is not published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.cli.test_verifying import said
from tests.inference.tables import COLUMNS, PAIRS, SIZES, counts_of, some_codes, told_of
from understudy import Synthesizer, open_release
from understudy.pipelines.errors import OnlyNoise, SpecError, ValidationFailed
from understudy.pipelines.inference.verdict import (
    TableVerdict,
    Verdict,
    expected_verdict,
    grade_of,
    rows_needed,
    verdict_of,
)

NAMES = [column.name for column in COLUMNS]


def test_the_error_of_a_table_is_its_noise_over_its_signal() -> None:
    codes = some_codes(5000, 1)
    found = verdict_of(told_of(codes, PAIRS, 3.0, 1).residuals, NAMES)
    counts = counts_of(codes, (0, 2))
    table = found.pair("age", "sex")
    exact = np.sqrt(counts.size * table.std**2 / (counts**2).sum())
    assert table.off == pytest.approx(exact, rel=0.02)
    assert table.std == pytest.approx(np.sqrt(told_of(codes, PAIRS, 3.0).residuals.variance((0, 2))))
    assert [one.off for one in found.tables] == sorted((one.off for one in found.tables), reverse=True)


def test_a_dependence_that_is_there_shows_and_one_that_is_not_does_not_in_most_releases() -> None:
    """Age depends on sex; ward on nothing. At the 97.5% point noise alone shows in 1 of 40: of 200, 5 are expected and
    15 are more than chance allows."""
    codes = some_codes(3000, 2)
    codes[:, 1] = np.random.default_rng(0).permutation(np.arange(3000) % 4)
    codes[:, 0] = np.random.default_rng(1).permutation(codes[:, 0])  # so that ward and sex are all but independent
    shown = 0
    for seed in range(200):
        shown += bool(verdict_of(told_of(codes, [(0, 1)], 60.0, seed).residuals, NAMES).pair("sex", "ward").stands_out)
    assert shown < 15
    codes = some_codes(3000, 2)
    for seed in range(20):
        assert verdict_of(told_of(codes, PAIRS, 20.0, seed).residuals, NAMES).pair("sex", "age").stands_out


@pytest.mark.parametrize(("off", "grade"), [(0.0, "good"), (0.1, "good"), (0.2, "usable with care"), (1.0, "noise")])
def test_grades_have_their_bounds(off: float, grade: str) -> None:
    assert grade_of(off) == grade


def copy_of(columns: list[float], pairs: list[float]) -> Verdict:
    tables = [TableVerdict((f"c{i}",), 10, 1.0, off) for i, off in enumerate(columns)]
    tables += [TableVerdict((f"c{i}", f"d{i}"), 100, 1.0, off) for i, off in enumerate(pairs)]
    return Verdict(100.0, tuple(tables))


@pytest.mark.parametrize(
    ("columns", "pairs", "grade"),
    [
        ([0.01, 0.02], [0.05], "good"),
        ([0.01, 0.02], [5.0], "usable with care"),
        ([0.01, 0.3], [5.0], "noise"),
        ([2.0, 0.01], [0.3], "noise"),
        ([2.0, 0.01, 0.01], [0.3], "usable with care"),
        ([0.01, 0.3], [0.05], "usable with care"),
    ],
)
def test_the_whole_copy_is_as_good_as_its_columns_and_pairs(
    columns: list[float], pairs: list[float], grade: str
) -> None:
    assert copy_of(columns, pairs).grade == grade


def test_before_measuring_all_cells_are_taken_to_be_alike_and_the_rows_that_are_needed_are_told() -> None:
    tables = [(("a",), 400, 50.0), (("b",), 2, 10.0), (("a", "b"), 800, 60.0), (("a", "b", "c"), 9, 1.0)]
    found = expected_verdict(tables, 5000)
    assert [table.off for table in found.tables] == pytest.approx([9.6, 4.0, 0.004])
    assert found.grade == "noise"
    needed = rows_needed(found)
    assert expected_verdict(tables, needed).grade != "noise"
    assert expected_verdict(tables, needed - 1).grade == "noise"
    assert found.smallest_group == 600
    assert "below 240 rows are off by more than a quarter" in found.sentence


def test_a_pair_that_was_not_measured_has_no_verdict() -> None:
    with pytest.raises(SpecError, match="not measured together"):
        verdict_of(told_of(some_codes(50, 1), [(0, 1)]).residuals, NAMES).pair("sex", "age")
    assert len(SIZES) == len(NAMES)


CHARGES: dict[str, Any] = {
    "name": "charges",
    "privacy": {
        "account": "payer",
        "epsilon": 2,
        "delta": 1e-6,
        "unit": {"entity": "provider", "max_rows": 20},
    },
    "columns": {
        "provider": {"type": "identifier", "action": "drop"},
        "procedure": {"type": "category", "values": [f"p{i:03d}" for i in range(401)]},
        "place": {"type": "category", "values": [f"z{i:03d}" for i in range(194)]},
    },
    "generate": {"epochs": 1, "particles": 400, "device": "cpu"},
}


def charges() -> pa.Table:
    """290 providers of up to 20 rows."""
    rng = np.random.default_rng(3)
    provider = np.repeat(np.arange(290), rng.integers(1, 21, 290))
    return pa.table(
        {
            "provider": [f"n{number}" for number in provider],
            "procedure": [f"p{number:03d}" for number in rng.integers(0, 401, len(provider))],
            "place": [f"z{number:03d}" for number in rng.integers(0, 194, len(provider))],
        }
    )


def test_a_copy_that_is_noise_is_told_by_the_plan_and_the_card_and_stopped_by_refuse_if(
    home: Path, tmp_path: Path
) -> None:
    table, spec = charges(), tmp_path / "charges.yaml"
    pq.write_table(table, tmp_path / "charges.parquet")
    source = {"uri": "charges.parquet", "snapshot": "2026-10"}
    spec.write_text(yaml.safe_dump({**CHARGES, "source": source, "publish": {"to": "out"}}, sort_keys=False))
    opened = said(
        "ledger", "open", "payer", "--epsilon", "9", "--delta", "1e-6", "--entity", "provider", "--max-rows", "20"
    )
    assert opened[0] == 0, opened[1]
    for assumed in (["--assume-rows", "3000"], []):
        code, text = said("plan", spec, *assumed)
        assert code == 0, text
        assert "all values alike: noise: of 2 columns" in text or not assumed, text
        assert "! procedure x place: noise" in text
        assert "rows it would be noise" in text
    told = json.loads(said("plan", spec, "--json", "--assume-rows", "3000")[1])["verdict"]
    assert (told["grade"], told["worst_pairs"][0]["table"]) == ("noise", "procedure x place")

    made = {**CHARGES, "snapshot": "2026-10"}
    release = Synthesizer(made, home=home).fit(table).release()
    assert release.manifest.verdict.grade == "noise"
    assert release.verdict is not None
    assert release.verdict.grade == "noise"
    assert "entities are off" in release.verdict.sentence  # providers are counted, not their rows
    assert "Verdict: noise" in release.card
    assert "mostly noise" in release.card
    place = release.save(tmp_path / "out")
    assert open_release(place).verdict == release.verdict

    strict = Synthesizer({**made, "publish": {"to": "out", "refuse_if": {"verdict": "noise"}}}, home=home).fit(table)
    assert strict.reused  # a verdict is no part of what is measured
    with pytest.raises(OnlyNoise, match="noise: of 2 columns") as stopped:
        strict.release()
    assert stopped.value.exit_code == 6
    assert isinstance(stopped.value, ValidationFailed)  # no task tries again
    assert strict.sample(5).num_rows == 5


def test_a_good_copy_is_published_whatever_verdict_is_refused(home: Path) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"a": rng.integers(0, 3, 50_000), "b": rng.integers(0, 2, 50_000)})
    columns = {"a": {"type": "integer", "min": 0, "max": 2}, "b": {"type": "integer", "min": 0, "max": 1}}
    spec = {
        "name": "fine",
        "snapshot": "1",
        "privacy": {"account": "a", "epsilon": 2, "delta": 1e-6},
        "columns": columns,
        "generate": {"epochs": 1, "particles": 400, "device": "cpu"},
        "publish": {"to": "out", "rows": 200, "refuse_if": {"verdict": "usable with care"}},
    }
    assert Synthesizer(spec, cap=(9, 1e-6), home=home).fit(table).release().manifest.verdict.grade == "good"
    with pytest.raises(SpecError, match="privpgd only"):
        Synthesizer({**spec, "method": {"name": "gaussian", "mode": "copula"}})
