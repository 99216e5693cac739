"""A benchmark that keeps what each release found goes on where it stopped, and knows how sure its figures are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.support.kept import Kept


def test_what_was_kept_is_found_again_and_pooled_with_what_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    first = Kept("8 questions", path)
    first.add("adult", "1", {"mean": (10, 9, 10, 20.0, 5.0)})
    Kept("other questions", path).add("adult", "1", {"mean": (10, 0, 10, 1.0, 1.0)})
    again = Kept("8 questions", path)
    assert (again.releases("adult", "1"), again.releases("adult", "2.5")) == (1, 0)
    again.add("adult", "1", {"mean": (10, 10, 5, 20.0, 5.0), "count": (1, 1, 0, 0.0, 0.0)})
    pooled = Kept("8 questions", path).pooled(("adult",), ("1", "2.5"))
    assert pooled["mean"].held == pytest.approx(0.95)
    assert pooled["mean"].width == pytest.approx(40 / 15)  # of intervals that end
    assert pooled["mean"].alone == pytest.approx(10 / 15)
    assert pooled["count"].held == 1


def test_the_standard_error_is_that_of_releases_whose_answers_go_together() -> None:
    rng, found = np.random.default_rng(1), []
    for _ in range(300):
        kept = Kept("")
        for held in rng.random(50) < 0.9:
            kept.add("adult", "1", {"mean": (10.0, 10.0 * held, 10.0, 1.0, 1.0)})
        found.append(kept.pooled(("adult",), ("1",))["mean"])
    spread = np.std([each.held for each in found])
    assert np.mean([each.error for each in found]) == pytest.approx(spread, rel=0.15)
