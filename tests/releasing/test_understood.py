"""A release says how much it understood, and stops before publication where the spec says so; what was paid is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from understudy import Synthesizer
from understudy.pipelines.errors import NotUnderstood, SpecError, ValidationFailed
from understudy.pipelines.spec.reading import spec_of

ROWS = 4000


def spec(refuse_if: dict[str, float] | None = None, **day: Any) -> dict[str, Any]:
    return {
        "name": "trips",
        "source": {"uri": "memory", "snapshot": "1"},
        "privacy": {"account": "taxi", "epsilon": 2, "delta": 1e-6, "quality": 0.05},
        "columns": {
            "day": {"type": "date", "min": "2014-01-01", "max": "2014-12-31", "nullable": True, **day},
            "tip": {"type": "number", "min": 0, "max": 10, "bins": 4},
        },
        "generate": {"epochs": 2, "particles": 500},
        "publish": {"to": "out", "rows": 200, **({"refuse_if": refuse_if} if refuse_if else {})},
    }


def table() -> pa.Table:
    day = [
        f"{month:02d}/01/2014" if row % 10 else f"2014-{month:02d}-01"
        for row in range(ROWS)
        for month in [row % 12 + 1]
    ]
    return pa.table({"day": day, "tip": [float(row % 13) for row in range(ROWS)]})


def test_what_was_not_understood_is_told_and_refused_where_asked(tmp_path: Path) -> None:
    open_ = Synthesizer(spec(), cap=(10, 1e-5), home=tmp_path).fit(table())
    release = open_.release()
    day, tip = release.manifest.quality
    assert day.shares["unreadable"] == pytest.approx(0.9, abs=0.05)
    assert day.alarming
    assert tip.shares["above"] == pytest.approx(2 / 13, abs=0.05)
    assert not tip.alarming
    assert 'class="alarm"' in release.card
    assert sum(day.shares.values()) == pytest.approx(1, abs=0.1)

    strict = Synthesizer(spec({"unreadable": 0.02}), cap=(10, 1e-5), home=tmp_path).fit(table())
    assert strict.reused  # a limit is no part of what is measured
    with pytest.raises(NotUnderstood, match=r"day: [89][0-9].*unreadable") as caught:
        strict.release()
    assert caught.value.exit_code == 6
    assert isinstance(caught.value, ValidationFailed)  # a verdict: no task tries again
    assert strict.sample(5).num_rows == 5
    lenient = Synthesizer(spec({"unreadable": 0.99}), cap=(10, 1e-5), home=tmp_path).fit(table())
    assert lenient.reused
    assert lenient.release().table.num_rows == 200


def test_a_declared_format_is_understood_and_published(tmp_path: Path) -> None:
    declared = spec({"unreadable": 0.02, "other": 0.5}, day_first=False)
    release = Synthesizer(declared, cap=(10, 1e-5), home=tmp_path).fit(table()).release()
    day, _ = release.manifest.quality
    assert day.shares["fine"] == pytest.approx(1, abs=0.05)
    assert 'class="alarm"' not in release.card


def test_a_limit_needs_something_to_judge_by() -> None:
    wrong = spec({"unreadable": 0.02})
    del wrong["privacy"]["quality"]
    with pytest.raises(SpecError, match=r"privacy\.quality"):
        spec_of(wrong)
