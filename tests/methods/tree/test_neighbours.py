"""Trees: neighbour replay from tables to what is drawn, golden numbers, planted bugs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.randomness import SeededWords
from tests.tree_oracle import KEY, Rows, arrow, clinics, spelled, without_root
from tests.trees import CLINIC, clinic, domains_of, flat
from understudy.pipelines.counting.lifted import centred_counts
from understudy.pipelines.counting.mechanism import noise_multiplier
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.counting.tree import tally
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.tree import measure, plan
from understudy.pipelines.methods.tree.measure import exact_tables, measure_tree
from understudy.pipelines.methods.tree.plan import TreeDesign, design_tree, plan_tree
from understudy.pipelines.methods.tree.released import numbers_name, released_tree
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.tree import bounding
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.spec.model import ReleaseSpec


def spec_of(relation: Relation = Relation.ADD_REMOVE, **changes: Any) -> ReleaseSpec:
    return clinic(privacy={**CLINIC["privacy"], "relation": relation.value}, **changes)


def local(rows: Rows, spec: ReleaseSpec) -> LocalTree:
    assert spec.tree is not None
    sources = {name: ArrowSource(arrow(table, name)) for name, table in rows.items()}
    return LocalTree(TreeSource(sources), spec.tree, domains_of(spec), KEY, threads=1)


def measured(spec: ReleaseSpec, rows: Rows, seed: int = 0) -> tuple[Measurement, ResidualNoise]:
    """A release of these tables, and the noise that it drew."""
    planned = plan_tree(spec, domains_of(spec))
    sold: list[Any] = []

    def purchase(_: Any, mechanism: Mechanism[Any]) -> Measurement:
        sold.append(mechanism.noise)
        return mechanism.draw(SeededWords(seed))

    return measure_tree(local(rows, spec), planned.design, planned.charges[0], purchase), sold[0]


def moved(spec: ReleaseSpec, one: Rows, other: Rows) -> tuple[list[float], float]:
    """Squared distance of two releases with the same randomness, over the variances, table by table; and what the event
    admits of them together."""
    (first, noise), (second, _) = measured(spec, one), measured(spec, other)
    assert isinstance(noise.event, Gaussian)
    squares, names = [], list(first.arrays)
    for name, shape, std in zip(names, noise.shapes, noise.stds, strict=False):
        shift = math.prod(shape) * centred_counts(first.arrays[name] - second.arrays[name], shape)
        assert np.abs(shift - np.rint(shift)).max() < 1e-6  # a whole number of the noise's grid
        squares.append(float(np.square(shift).sum()) / std**2)
    beside = noise.beside.stds if noise.beside is not None else ()
    for name, std in zip(names[len(noise.shapes) :], beside, strict=True):
        squares.append(float(np.square((first.arrays[name] - second.arrays[name]).astype(float)).sum()) / std**2)
    return squares, noise.event.noise_multiplier**-2


def keys_of(rows: Rows) -> list[str]:
    return sorted({key for row in rows["patients"] if (key := spelled(row["patient_id"])) is not None})


MANY = spec_of(visits={"max_rows": 12})


@settings(max_examples=80, deadline=None)
@given(clinics, st.integers(0, 5), st.sampled_from([spec_of(), MANY]))
def test_neighbour_replay(rows: Rows, which: int, spec: ReleaseSpec) -> None:
    """A root with everything attributed to it, taken out: shared ids, orphans, repeated and null keys, over bounds."""
    if not (keys := keys_of(rows)):
        return
    fewer = without_root(rows, spec, keys[which % len(keys)])
    design = design_tree(spec, domains_of(spec))
    one, other = (exact_tables(local(each, spec), design) for each in (rows, fewer))
    for name, table in one.items():
        assert np.all(table >= other[name])  # nobody else's row came or went or moved
        assert (table - other[name]).sum() <= design.ticks
    squares, allowed = moved(spec, rows, fewer)
    assert math.fsum(squares) <= allowed * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(clinics, clinics, st.integers(0, 5))
def test_neighbour_replay_where_a_root_is_replaced(rows: Rows, others: Rows, which: int) -> None:
    """Two clinics that differ in one root: each is the common rest and one root more."""
    spec = spec_of(Relation.REPLACE_ONE)
    renamed = _of_another(others)
    if not keys_of(rows) or not keys_of(renamed):
        return
    mine = keys_of(rows)[which % len(keys_of(rows))]
    rest = without_root(rows, spec, mine)
    theirs = keys_of(renamed)[0]
    alone = {name: [row for row in table if row not in without_root(renamed, spec, theirs)[name]]
             for name, table in renamed.items()}  # fmt: skip
    squares, allowed = moved(spec, rows, {name: [*rest[name], *alone[name]] for name in rest})
    assert math.fsum(squares) <= allowed * (1 + 1e-9)


def _of_another(rows: Rows) -> Rows:
    """The same with ids that no other clinic has."""
    return {
        name: [
            {key: f"new {value}" if key.endswith("_id") and value is not None else value for key, value in row.items()}
            for row in table
        ]
        for name, table in rows.items()
    }


# What one root moves at most is what it does move


def one_root(visits: int, drugs: int) -> Rows:
    return {
        "patients": [{"patient_id": "1", "sex": "m", "age": 60}],
        "visits": [
            {"patient_id": "1", "visit_id": f"v{i}", "ward": "b", "visited_on": "2020-01-05"} for i in range(visits)
        ],
        "drugs": [{"visit_id": f"v{i}", "drug": "y"} for i in range(visits) for _ in range(drugs)],
    }


NOBODY: Rows = {"patients": [], "visits": [], "drugs": []}


@pytest.mark.parametrize(("visits", "drugs"), [(1, 1), (2, 2), (3, 2), (4, 3), (9, 9)])
def test_a_root_of_equal_rows_moves_exactly_what_is_declared(visits: int, drugs: int) -> None:
    """However many rows it has: so noise that is too large is caught as surely as noise that is too small."""
    squares, allowed = moved(spec_of(visits={"order_by": None}), one_root(visits, drugs), NOBODY)
    assert math.fsum(squares) == pytest.approx(allowed, rel=1e-9)


def test_rows_that_follow_each_other_move_exactly_what_is_declared() -> None:
    spec = spec_of()
    design = design_tree(spec, domains_of(spec))
    (number,) = (i for i, view in enumerate(design.views) if view.kind == "order")
    first = sum(len(each.measured) for each in design.workloads[:number])
    its = slice(first, first + len(design.workloads[number].measured))
    squares, _ = moved(spec, one_root(3, 0), NOBODY)
    alone = ResidualNoise(design.noise.shapes[its], design.noise.stds[its], design.noise.relation, design.noise.unit)
    assert isinstance(alone.event, Gaussian)
    assert math.fsum(squares[its]) == pytest.approx(alone.event.noise_multiplier**-2, rel=1e-9)


# Golden numbers


def test_golden_noise() -> None:
    spec = spec_of()
    design = design_tree(spec, domains_of(spec))
    z = noise_multiplier(Budget("1", "1e-6"), Relation.ADD_REMOVE, "rounded")
    assert isinstance(design.noise.event, Gaussian)
    assert design.noise.event.noise_multiplier == pytest.approx(z, rel=1e-6) == pytest.approx(4.2247, rel=1e-4)
    assert design.ticks == 60  # six drugs of a patient at the most, and every number up to six divides it
    assert design.numbers == ()
    assert dict(design.parts) == pytest.approx(GOLDEN_PARTS, abs=5e-4)
    assert math.fsum(dict(design.parts).values()) == pytest.approx(1)
    many = design_tree(MANY, domains_of(MANY))
    assert (many.ticks, many.numbers) == (840, ("visits",))
    assert many.number_stds["visits"] / many.ticks == pytest.approx(z / math.sqrt(plan.NUMBERS_SHARE), rel=1e-6)
    loss = composed_loss([design.noise.event], 1e-6, Relation.ADD_REMOVE)
    assert 0.999 < loss.epsilon <= 1


GOLDEN_PARTS = {"patients": 0.2035, "visits": 0.5210, "drugs": 0.2755}
"""By hand: roots of 3 + 3, 15 + 7, 4 + 6 (in order, half as much) and 5 + 6 pairs and columns, over their sum."""


def test_rows_of_one_day_follow_each_other_in_an_order_that_reading_does_not_decide() -> None:
    spec, draw = clinic(), random.Random(2)
    visits = [{"patient_id": who, "visit_id": None, "ward": ward, "visited_on": "2020-01-05"}
              for who in "123456" for ward in ("a", "b", None)]  # fmt: skip
    rows: Rows = {
        "patients": [{"patient_id": who, "sex": "f", "age": 30} for who in "123456"],
        "visits": visits,
        "drugs": [],
    }
    counted = exact_tables(local(rows, spec), design_tree(spec, domains_of(spec)))
    for _ in range(8):
        read = {name: draw.sample(table, len(table)) for name, table in rows.items()}
        again = exact_tables(local(read, spec), design_tree(spec, domains_of(spec)))
        assert all(np.array_equal(again[name], counted[name]) for name in counted)


def test_the_plan_says_which_noise_is_of_rows_that_follow_each_other() -> None:
    spec = clinic()
    told = plan_tree(spec, domains_of(spec))
    ordered = [number for number, view in enumerate(told.design.views) if view.kind == "order"]
    assert {line.note for line in told.noise} == {"", "in order"}
    asked = sum(len(plan.noise_of(told.design, number).asked) for number in ordered)
    assert [line.note for line in told.noise].count("in order") == asked


def test_shares_of_the_spec_are_the_budgets() -> None:
    """A share is of squared noise: sum of |w|^2 / std^2 over a table's residuals, over that of all."""
    spec = spec_of(visits={"share": 0.7})
    design = design_tree(spec, domains_of(spec))
    from understudy.pipelines.counting.residuals import moved_square

    parts: dict[str, float] = {}
    for i, view in enumerate(design.views):
        shapes = design.workloads[i].shapes(view.sizes)
        told = (moved_square(s, design.noise.relation, design.noise.unit) / std**2
                for s, std in zip(shapes, design.stds(i), strict=True))  # fmt: skip
        parts[view.table] = parts.get(view.table, 0.0) + math.fsum(told)
    assert parts["visits"] / math.fsum(parts.values()) == pytest.approx(0.7, rel=1e-6)


def test_a_measured_tree_is_read_back_in_roots() -> None:
    """Ten thousand patients at a large epsilon: what is released is what was counted, but for noise of a few."""
    spec = clinic(privacy={**CLINIC["privacy"], "epsilon": 50}, visits={"max_rows": 12})
    rows: Rows = {name: [] for name in NOBODY}
    for i in range(2000):
        rows["patients"].append({"patient_id": str(i), "sex": "fm"[i % 2], "age": 30})
        for j in range(i % 3):
            rows["visits"].append(
                {"patient_id": str(i), "visit_id": f"{i}-{j}", "ward": "b", "visited_on": "2020-01-05"}
            )
    found, noise = measured(spec, rows)
    told = released_tree(found)
    root, visits = told.rows_view("patients").residuals, told.rows_view("visits").residuals
    assert root.total == pytest.approx(2000, abs=30)
    assert visits.total == pytest.approx(1333, abs=30)  # patients with visits, however many they have
    np.testing.assert_allclose(root.marginal((0,)), [1000, 1000], atol=30)
    np.testing.assert_allclose(told.numbers["visits"][:3], [667, 667, 666], atol=40)
    assert noise.beside is not None
    assert found.arrays[numbers_name("visits")].shape == (13,)


def test_a_flat_table_with_entities_is_measured_as_a_tree() -> None:
    spec = flat()
    planned = plan_tree(spec, domains_of(spec))
    assert planned.design.noise.unit == Unit("entities", 12)
    assert [view.table for view in planned.design.views] == ["entities", "rows", "rows"]
    assert any("siblings in rows" in line.query for line in planned.noise)


def test_options_that_trees_do_not_know_are_refused() -> None:
    spec = clinic(method={"name": "privpgd", "marginals": "adaptive"})
    with pytest.raises(SpecError, match=r"method.marginals"):
        plan_tree(spec, domains_of(spec))


# Planted bugs


def holds() -> bool:
    spec = spec_of(visits={"order_by": None})
    try:
        found = [moved(spec, one_root(visits, drugs), NOBODY) for visits, drugs in ((1, 1), (2, 2), (3, 2), (9, 9))]
    except ValueError:  # more rows than a bound, or than ticks
        return False
    return all(math.isclose(math.fsum(squares), allowed, rel_tol=1e-9) for squares, allowed in found)


def test_the_true_mechanism_holds() -> None:
    assert holds()


@pytest.mark.parametrize(
    ("place", "name", "wrong"),
    [
        (tally.SeenTree, "_each_root", property(lambda self: np.maximum(1, right_each(self) - 1))),
        (tally.SeenTree, "_each_root", property(lambda self: np.ones_like(right_each(self)))),
        (tally.SeenTree, "_each_root", property(lambda self: right_each(self) + 1)),
        (plan, "Unit", lambda entity, ticks: Unit(entity, 1)),
        (plan, "Unit", lambda entity, ticks: Unit(entity, 2 * ticks)),
        (bounding, "_within_bound", lambda rows, *rest: np.ones(len(rows), np.bool_)),
    ],
    ids=["a row too few", "every row weighs as one root", "a row too many", "W forgotten", "twice W", "no bound"],
)
def test_wrong_weights_are_caught(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, wrong: Callable[..., Any]
) -> None:
    monkeypatch.setattr(place, name, wrong)
    assert not holds()


right_each: Callable[[Any], np.ndarray] = tally.SeenTree.__dict__["_each_root"].func


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_noise_of_another_scale_is_caught(factor: float) -> None:
    """What is drawn has the variance that is stored, and the event is that of the stored one."""
    spec = clinic()
    design = design_tree(spec, domains_of(spec))
    assert _drawn_as_stored(design, 1.0)
    assert not _drawn_as_stored(design, factor)


def _drawn_as_stored(design: TreeDesign, factor: float) -> bool:
    exact = exact_tables(local(NOBODY, clinic()), design)
    wrong = ResidualNoise(
        design.noise.shapes, tuple(std * factor for std in design.noise.stds), design.noise.relation, design.noise.unit
    )
    mechanism = Mechanism(wrong, exact, "tree", measure.facts_of(design))
    totals: list[float] = []
    for seed in range(40):
        told = released_tree(mechanism.draw(SeededWords(seed)))
        for each in told.views:
            for clique, residual in each.residuals.by_clique.items():
                freedom = math.prod(each.residuals.sizes[c] - 1 for c in clique)
                totals.append(float(np.square(residual.counts / residual.std).sum()) / max(1, freedom))
    weights = [
        max(1, math.prod(each.sizes[c] - 1 for c in clique))
        for each in (view.residuals for view in told.views)
        for clique in each.by_clique
    ] * 40
    mean = float(np.average(totals, weights=weights))
    return abs(mean - 1) < 6 * math.sqrt(2 / sum(weights))
