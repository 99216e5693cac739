"""Clipped products and copula marginals: sensitivity on generated neighbours, declared noise, adaptive choices."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from understudy.pipelines.methods.gaussian import copula, learned_moments, pairs
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.method import GaussianMethod
from understudy.pipelines.methods.gaussian.moments import Writer
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.relation import Relation, Unit, counts_sensitivity
from understudy.pipelines.table.domain import TableDomain

COLUMNS = """
  a: {type: number, min: -1, max: 1}
  b: {type: integer, min: 0, max: 10, nullable: true}
  c: {type: number, min: 0, max: 1, bins: 5}
  k: {type: category, values: [x, y, z], nullable: true}
  t: {type: boolean}
"""


def random_rows(rng: np.random.Generator, count: int) -> pa.Table:
    b = pa.array(rng.choice([0, 10, 5], count), mask=rng.random(count) < 0.2)
    return pa.table(
        {
            "a": rng.choice([-1.0, 1.0, 0.1, 7.0], count),
            "b": b,
            "c": rng.choice([0.0, 1.0, 0.5], count),
            "k": rng.choice(["x", "y", "z", "?"], count),
            "t": rng.random(count) < 0.5,
        }
    )


def writers(layout: Layout) -> dict[str, tuple[float, Callable[[pa.RecordBatch], Writer]]]:
    rng = np.random.default_rng(1)
    centres = rng.integers(-layout.grid, layout.grid + 1, (layout.classes, len(layout.numeric)))
    tables = [
        rng.integers(-layout.grid, layout.grid + 1, (layout.classes, layout.column(i).size)) for i in layout.numeric
    ]
    return {
        "centred": (2.0, lambda batch: learned_moments.centred_writer(batch, layout, centres)),
        "scored": (1.0, lambda batch: copula.score_writer(batch, layout, tables)),
    }


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("label", [None, "t"])
@pytest.mark.parametrize("kind", ["centred", "scored"])
def test_products_of_neighbours_differ_by_at_most_the_radius_allows(
    doubles: SimpleNamespace, relation: Relation, label: str | None, kind: str
) -> None:
    domain = TableDomain.of(doubles.make_spec(COLUMNS))
    layout = Layout.of(domain, label, 64)
    reach, writer_of = writers(layout)[kind]
    rng, largest = np.random.default_rng(3), 0.0
    for max_rows in (1, 3):
        clipping = pairs.Clipping(reach, relation, Unit("patient", max_rows))
        edges = clipping.edges(layout)
        for radius in (edges[1], edges[20], edges[-1]):
            blocks = pairs.product_blocks(layout, 1.0)
            for _ in range(6):
                common, unit, other = (random_rows(rng, n).to_batches() for n in (4, max_rows, max_rows))
                second = common + (other if relation is Relation.REPLACE_ONE else [])
                one = pairs.clipped_products(common + unit, layout, writer_of, radius)
                two = pairs.clipped_products(second, layout, writer_of, radius)
                moved = sum(float(np.sum(((b.query(one) - b.query(two)) / b.unit) ** 2)) for b in blocks)
                assert math.sqrt(moved) <= clipping.sensitivity(radius)
                largest = max(largest, math.sqrt(moved) / clipping.sensitivity(radius))
                counts = [pairs.radius_histogram(rows, layout, writer_of, edges) for rows in (common + unit, second)]
                assert np.linalg.norm(counts[0] - counts[1]) <= counts_sensitivity(relation, max_rows) + 1e-12
                assert counts[0].sum() == 4 + max_rows
    assert largest > 0.5


def test_no_row_can_exceed_the_largest_edge(doubles: SimpleNamespace) -> None:
    layout = Layout.of(TableDomain.of(doubles.make_spec(COLUMNS)), None, 64)
    features = np.zeros((layout.width, 1))
    features[layout.number_rows] = 128
    for block in layout.block_rows.values():
        features[block[0]] = 1
    edge = float(pairs.Clipping(2.0, Relation.ADD_REMOVE, Unit()).edges(layout)[-1])
    before = features.copy()
    pairs.clip_rows(features, layout, edge * 1.0001)
    np.testing.assert_array_equal(features[layout.number_rows], before[layout.number_rows])
    pairs.clip_rows(before, layout, edge * 0.9)
    assert np.all(before[layout.number_rows] < 128)


def test_radius_balances_what_is_lost_and_what_is_added() -> None:
    edges = np.array([0.0, 1.0, 2.0, 4.0])
    few_far = np.array([10_000, 0, 20])
    many_far = np.array([5_000, 0, 5_000])
    assert pairs.choose_radius(few_far, edges, 1.0, 10, 100.0) == 1.0
    assert pairs.choose_radius(many_far, edges, 1.0, 10, 100.0) == 4.0
    assert pairs.choose_radius(few_far, edges, 1.0, 10, 0.001) == 4.0
    assert pairs.choose_radius(few_far, edges, 10.0, 10, 0.001) == 1.0  # 20 rows are lost in noise of 10
    assert pairs.choose_radius(np.array([-5, -3, -9]), edges, 5.0, 10, 1.0) == 1.0


@pytest.mark.parametrize("mode", ["", ", mode: copula", ", mode: copula, label: t", ", label: t"])
def test_noise_added_is_the_noise_charged(doubles: SimpleNamespace, mode: str) -> None:
    """White box, stage by stage: std over sensitivity is the event's multiplier, and the draws have that std."""
    spec = doubles.make_spec(COLUMNS, mode, ", relation: replace_one")
    domain = TableDomain.of(spec)
    plan = GaussianMethod().plan(spec, domain)
    empty = doubles.MemoryTable(random_rows(np.random.default_rng(0), 0), domain)
    clipping = pairs.Clipping(1.0 if "copula" in mode else 2.0, Relation.REPLACE_ONE, Unit())
    scores: dict[str, list[np.ndarray]] = {}

    def record(charge: Any, measurement: Measurement) -> None:
        assert isinstance(charge.event, Gaussian)
        z = charge.event.noise_multiplier
        slots = 4 if "label" in mode else 5
        for name, array in measurement.arrays.items():
            if charge.stage == "marginals":
                std = z * math.sqrt(2 * slots)
            elif charge.stage == "radius":
                std = z * math.sqrt(2)
            elif charge.stage == "products":
                std = z * clipping.sensitivity(measurement.facts["radius"]) * measurement.facts["pair_units"][name]
            else:
                std = measurement.facts["noise_std"][name]
            if std > 0:
                scores.setdefault(charge.stage, []).append(array.ravel() / std)

    for seed in range(40):
        purchase = doubles.DrawingPurchase(seed)
        GaussianMethod().measure(empty, spec, plan, purchase)
        for charge, measurement in purchase.bought:
            record(charge, measurement)
    assert set(scores) == {charge.stage for charge in plan.charges}
    for parts in scores.values():
        squared = np.concatenate(parts) ** 2
        for factor, accepted in ((1.0, True), (0.8, False), (1.25, False)):
            p = stats.chi2(len(squared)).cdf(squared.sum() / factor**2)
            assert (1e-4 < p < 1 - 1e-4) == accepted


@pytest.mark.parametrize("mode", ["", ", mode: copula", ", centre: fixed", ", mode: copula, label: t"])
def test_replay_on_neighbours_asks_for_the_same_randomness(doubles: SimpleNamespace, mode: str) -> None:
    spec = doubles.make_spec(COLUMNS, mode)
    domain = TableDomain.of(spec)
    rows = random_rows(np.random.default_rng(4), 300)
    asked, stages = [], []
    for table in (rows, rows.slice(1)):
        purchase = doubles.DrawingPurchase(5)
        plan = GaussianMethod().plan(spec, domain)
        GaussianMethod().measure(doubles.MemoryTable(table, domain), spec, plan, purchase)
        asked.append(purchase.randomness.asked)
        stages.append([charge for charge, _ in purchase.bought])
    assert asked[0] == asked[1]
    assert stages[0] == stages[1]


def test_a_stored_stage_is_used_and_not_drawn_again(doubles: SimpleNamespace) -> None:
    """A resumed run gets earlier stages from the store; later ones must follow from them alone."""
    spec = doubles.make_spec(COLUMNS)
    domain = TableDomain.of(spec)
    table = doubles.MemoryTable(random_rows(np.random.default_rng(4), 300), domain)
    plan = GaussianMethod().plan(spec, domain)
    first = doubles.DrawingPurchase(1)
    GaussianMethod().measure(table, spec, plan, first)
    stored = {charge.stage: measurement for charge, measurement in first.bought[:2]}
    fresh = doubles.DrawingPurchase(2)

    def resumed(charge: Any, mechanism: Any) -> Measurement:
        return stored[charge.stage] if charge.stage in stored else fresh(charge, mechanism)

    measured = GaussianMethod().measure(table, spec, plan, resumed)
    np.testing.assert_array_equal(measured.arrays["sums"], stored["moments"].arrays["sums"])
    assert measured.facts["radius"] == first.bought[2][1].facts["radius"]
    assert [charge.stage for charge, _ in fresh.bought] == ["products"]


def test_a_block_of_one_row_has_the_norm_it_has_beside_others(doubles):
    spec = doubles.make_spec("\n".join(f"  c{i}: {{type: number, min: 0, max: 1}}" for i in range(20)))
    layout = Layout.of(TableDomain.of(spec), None, 2**12)
    rng = np.random.default_rng(1)
    features = np.zeros((layout.width, 500))
    features[layout.number_rows] = rng.integers(-(2**13), 2**13 + 1, (20, 500))
    together = pairs._norms(features, layout)
    alone = [pairs._norms(np.ascontiguousarray(features[:, row : row + 1]), layout)[0] for row in range(500)]
    assert together.tolist() == alone
