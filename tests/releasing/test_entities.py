"""Releases of people with several rows each: rows come out, levels do not, nothing is paid twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import understudy
from understudy.pipelines.counting.released import LEVEL
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.privpgd import listed
from understudy.pipelines.releasing.advising import advise
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.spec.model import ReleaseSpec

SPEC: dict[str, Any] = {
    "name": "visits",
    "snapshot": "2026-11",
    "privacy": {
        "account": "a",
        "epsilon": 2,
        "delta": 1e-6,
        "unit": {"entity": "patient", "max_rows": 12},
        "quality": 0.05,
    },
    "columns": {
        "patient": {"type": "identifier"},
        "age": {"type": "integer", "min": 0, "max": 99, "bins": 5},
        "ward": {"type": "category", "values": ["A", "B", "C"]},
        "urgent": {"type": "boolean"},
    },
    "method": {"name": "privpgd"},
    "generate": {"epochs": 2, "device": "cpu"},
}


def visits() -> pa.Table:
    """8,000 patients; who comes often is old, and urgent."""
    rng = np.random.default_rng(5)
    rows = np.minimum(rng.zipf(1.7, 8000), 20)
    who = np.repeat(np.arange(8000), rows)
    busy = np.log2(np.minimum(rows, 12))[who]
    age = np.clip(rng.normal(30 + 12 * busy, 12), 0, 99).astype(int)
    ward = np.array(["A", "B", "C"])[np.clip(rng.normal(age / 40, 0.5), 0, 2).astype(int)]
    return pa.table({"patient": who, "age": age, "ward": ward, "urgent": rng.random(len(who)) < 0.1 + 0.2 * busy})


def kept() -> int:
    counts = np.bincount(visits()["patient"].to_numpy())
    return int(np.minimum(counts, 12).sum())


@pytest.fixture
def release(tmp_path: Path) -> Callable[..., understudy.Release]:
    def make(**changes: Any) -> understudy.Release:
        return understudy.synthesize(visits(), {**SPEC, **changes}, cap=(2, 1e-6), home=tmp_path / "home")

    return make


def test_as_many_rows_come_out_as_there_are_and_they_are_like_rows(release: Callable[..., understudy.Release]) -> None:
    made = release()
    manifest, table = made.manifest, made.table
    assert manifest.counted == "entities"
    assert any("every entity counts once" in step for step in manifest.steps)
    assert table.num_rows == pytest.approx(kept(), rel=0.1)
    assert LEVEL not in table.column_names
    assert set(table.column_names) == {"age", "ward", "urgent"}
    rows = visits()
    urgent = np.mean(table["urgent"].to_numpy(zero_copy_only=False))
    by_patient = np.mean([0.1 + 0.2 * b for b in np.log2(np.minimum(np.bincount(rows["patient"].to_numpy()), 12))])
    assert urgent > by_patient + 0.1  # rows of those who come often, as in the table
    assert [fact.shares["fine"] for fact in manifest.quality] == pytest.approx([1, 1, 1], abs=0.05)


def test_a_measurement_of_rows_is_found_and_told_as_it_was_drawn(
    release: Callable[..., understudy.Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bought before entities were counted, under the very same spec."""
    with monkeypatch.context() as older:
        older.setattr(listed, "entity_weights", lambda spec, options: None)
        before = release().manifest
    after = release().manifest  # a second charge would be over the cap
    assert (before.counted, after.counted) == ("rows", "rows")
    assert after.guarantee == before.guarantee
    assert after.noise == before.noise
    assert after.steps == before.steps
    assert after.quality == before.quality


def test_what_was_bought_of_entities_is_found_again(release: Callable[..., understudy.Release]) -> None:
    assert release().manifest.guarantee == release().manifest.guarantee


def test_rows_may_still_be_counted(release: Callable[..., understudy.Release]) -> None:
    manifest = release(method={"name": "privpgd", "count": "rows"}).manifest
    assert manifest.counted == "rows"
    assert not any(LEVEL in fact.query for fact in manifest.noise)


@pytest.mark.parametrize(
    ("method", "unit", "message"),
    [
        ({"marginals": "adaptive", "count": "entities"}, SPEC["privacy"]["unit"], "adaptive selection counts rows"),
        ({"count": "entities"}, {"entity": "patient", "max_rows": 1}, "every unit has one row"),
    ],
)
def test_what_cannot_be_counted_by_entities_is_refused(method: dict, unit: dict, message: str) -> None:
    spec = {**SPEC, "method": {"name": "privpgd", **method}, "privacy": {**SPEC["privacy"], "unit": unit}}
    with pytest.raises(SpecError, match=message):
        plan_release(spec_of(spec))


def test_advice_takes_some_rows_an_entity_and_a_larger_cap_costs_little() -> None:
    spec = spec_of(SPEC)
    advice = {}
    for cap in (4, 32):
        unit = spec.privacy.unit.model_copy(update={"max_rows": cap})
        changed = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"unit": unit})})
        found = advise(changed, plan_release(changed).plan, 50_000, suggest=False)
        assert found is not None
        advice[cap] = found.std
    assert advice[32] < 4 * advice[4]  # eight times, where rows are counted


def spec_of(spec: dict[str, Any]) -> ReleaseSpec:
    placed = {key: value for key, value in spec.items() if key != "snapshot"}
    source = {"uri": "visits.parquet", "snapshot": spec["snapshot"]}
    return ReleaseSpec.model_validate({**placed, "source": source, "publish": {"to": "releases/"}})
