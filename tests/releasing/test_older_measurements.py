"""What was bought before there were residuals is found, is not paid for again, and is told as it was drawn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import understudy
from understudy.pipelines.counting.mechanism import MarginalNoise, noise_multiplier
from understudy.pipelines.counting.released import KIND, marginal_facts, marginals_by_name
from understudy.pipelines.counting.workload import noise_stds
from understudy.pipelines.methods.base import MethodPlan, PrivateTable
from understudy.pipelines.methods.privpgd.method import PrivPGDMethod
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, Purchase
from understudy.pipelines.spec.model import ReleaseSpec

SPEC: dict[str, Any] = {
    "name": "people",
    "snapshot": "2026-10",
    "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6},
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 11},
        "charge": {"type": "number", "min": 0, "max": 1000, "bins": 8},
        "sex": {"type": "category", "values": ["F", "M", "X"]},
    },
    "method": {"name": "privpgd"},
    "generate": {"epochs": 1, "particles": 200, "device": "cpu"},
}


def people() -> pa.Table:
    rng = np.random.default_rng(11)
    age = rng.integers(0, 110, 2000)
    return pa.table({"age": age, "charge": np.clip(age * 5.0, 0, 1000), "sex": rng.choice(["F", "M", "X"], 2000)})


def measured_cell_by_cell(
    method: PrivPGDMethod, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan[Any], purchase: Purchase
) -> Measurement:
    """As commit 7b5a274 measured: a tenth of the budget for columns, the rest for pairs, every cell noised."""
    domain = table.domain
    cliques = [*combinations(range(3), 1), *combinations(range(3), 2)]
    privacy = spec.privacy
    z = noise_multiplier(privacy.budget, privacy.relation, privacy.noise)
    stds = noise_stds([0.1 / 3] * 3 + [0.9 / 3] * 3, z, 1.0)
    facts = marginal_facts(cliques, stds, privacy.noise, domain, None)
    noise = MarginalNoise(stds, privacy.relation, privacy.protected_unit)
    exact = marginals_by_name(table.counts(cliques))
    return purchase(plan.charges[0], Mechanism(noise, exact, KIND, facts))


@pytest.fixture
def release(tmp_path: Path) -> Callable[[], understudy.Release]:
    def make() -> understudy.Release:
        return understudy.synthesize(people(), SPEC, cap=(1, 1e-6), home=tmp_path / "home")  # the cap holds one

    return make


def test_an_older_measurement_is_found_and_never_paid_for_again(
    release: Callable[[], understudy.Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(PrivPGDMethod, "measure", measured_cell_by_cell)
        before = release().manifest
    after = release().manifest  # a second charge would be over the cap
    assert after.account.spent_epsilon == before.account.spent_epsilon
    assert after.guarantee.events == before.guarantee.events
    assert after.noise == before.noise
    assert {line.std for line in after.noise} == {line.std for line in before.noise}
    [column] = {line.std for line in after.noise if line.query in SPEC["columns"]}  # all alike, as they were drawn
    assert column == pytest.approx(4.2247 * np.sqrt(30), rel=1e-4)


def test_residuals_are_found_again_too(release: Callable[[], understudy.Release]) -> None:
    assert release().manifest.guarantee == release().manifest.guarantee
