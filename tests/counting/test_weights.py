"""Entities counted instead of rows: neighbour replay from rows to what is drawn, golden numbers, planted bugs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.randomness import SeededWords
from understudy.pipelines.counting import weighted_tally, weights
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.lifted import centred_counts
from understudy.pipelines.counting.mechanism import noise_multiplier
from understudy.pipelines.counting.released import NUMBERS, WEIGHTS, released_entities
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.counting.weights import EntityWeights, counted_unit
from understudy.pipelines.methods.privpgd import listed
from understudy.pipelines.methods.privpgd.method import PrivPGDMethod
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.sources import bounding
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.ranking import first_of_each
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

CAP = 5
Row = tuple[int, str, int]
"""A visit: whose, the ward, the stage."""

visits = st.tuples(st.sampled_from("AB"), st.integers(0, 2))
persons = st.lists(st.lists(visits, min_size=1, max_size=9), max_size=6)
person = st.lists(visits, min_size=1, max_size=12)


def spec_of(relation: Relation = Relation.ADD_REMOVE, cap: int = CAP, **method: Any) -> ReleaseSpec:
    return ReleaseSpec.model_validate(
        {
            "name": "visits",
            "source": {"uri": "visits.parquet", "snapshot": "1"},
            "privacy": {
                "account": "a",
                "epsilon": 1,
                "delta": "1e-6",
                "relation": relation.value,
                "unit": {"entity": "who", "max_rows": cap},
                "quality": 0.05,
            },
            "columns": {
                "who": {"type": "identifier"},
                "ward": {"type": "category", "values": ["A", "B"]},
                "stage": {"type": "integer", "min": 0, "max": 2, "bins": 3},
            },
            "method": {"name": "privpgd", "statistics": {"s": {"where": {"ward": ["A"]}}}, **method},
            "publish": {"to": "releases/"},
        }
    )


def arrow(people: list[list[tuple[str, int]]]) -> pa.Table:
    rows = [(who, *visit) for who, theirs in enumerate(people) for visit in theirs]
    who, ward, stage = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"who": pa.array(who, pa.int64()), "ward": pa.array(ward, pa.string()), "stage": pa.array(stage, pa.int64())}
    )


def measured(spec: ReleaseSpec, people: list[list[tuple[str, int]]], seed: int = 0) -> tuple[Measurement, Any]:
    """A release of these people through the method itself, and the noise that it drew."""
    domain, method, sold = TableDomain.of(spec), PrivPGDMethod(), []
    table = LocalTable(ArrowSource(arrow(people)), domain, spec.privacy.protected_unit, b"key", threads=1)

    def purchase(_: Any, mechanism: Mechanism[Any]) -> Measurement:
        sold.append(mechanism.noise)
        return mechanism.draw(SeededWords(seed))

    return method.measure(table, spec, method.plan(spec, domain), purchase), sold[0]


def moved(spec: ReleaseSpec, one: list, other: list) -> tuple[float, float]:
    """Squared distance of two releases with the same randomness, over the variances; and what the event admits.

    Of the releases alone: each difference of a residual is undone, centred, and counted in the units of the noise.
    """
    (first, noise), (second, _) = measured(spec, one), measured(spec, other)
    assert isinstance(noise, ResidualNoise)
    assert noise.beside is not None
    assert isinstance(noise.event, Gaussian)
    square, names = 0.0, list(first.arrays)
    for name, shape, std in zip(names, noise.shapes, noise.stds, strict=False):
        shift = math.prod(shape) * centred_counts(first.arrays[name] - second.arrays[name], shape)
        assert np.abs(shift - np.rint(shift)).max() < 1e-6  # a whole number of the noise's grid
        square += float(np.square(shift).sum()) / std**2
    for name, std in zip(names[len(noise.shapes) :], noise.beside.stds, strict=True):
        square += float(np.square((first.arrays[name] - second.arrays[name]).astype(float)).sum()) / std**2
    return square, noise.event.noise_multiplier**-2


@settings(max_examples=60, deadline=None)
@given(persons, person, person, st.sampled_from(Relation))
def test_neighbour_replay(rest: list, mine: list, other: list, relation: Relation) -> None:
    """An entity under, at or over the cap, added, removed or replaced, moves a release within what is charged."""
    neighbour = [*rest, other] if relation is Relation.REPLACE_ONE else rest
    square, allowed = moved(spec_of(relation), [*rest, mine], neighbour)
    assert square <= allowed * (1 + 1e-9)


@pytest.mark.parametrize("rows", [1, 2, 3, CAP, CAP + 1, 4 * CAP])
def test_an_entity_of_equal_rows_moves_exactly_what_is_declared(rows: int) -> None:
    """However many rows it has: so noise that is too large is caught as surely as noise that is too small."""
    square, allowed = moved(spec_of(), [[("A", 0)], [("A", 1)] * rows], [[("A", 0)]])
    assert square == pytest.approx(allowed, rel=1e-9)


@pytest.mark.parametrize("cap", [2, 3, 12, 32, 1000])
def test_noise_in_entities_does_not_grow_with_the_cap(cap: int) -> None:
    domain = TableDomain.of(spec_of())
    stds = []
    for most in (2, cap):
        plan = PrivPGDMethod().plan(spec_of(cap=most), domain)
        stds.append(next(line.std for line in plan.noise if line.query == "ward x stage"))
    assert stds[1] < 1.7 * stds[0]  # of two columns; their tables by level take some of the budget
    rows = PrivPGDMethod().plan(spec_of(cap=cap, count="rows"), domain)
    assert next(line.std for line in rows.noise if line.query == "ward x stage") > 0.4 * cap * stds[1]


@given(st.integers(1, 2000))
def test_an_entity_has_at_most_its_ticks_and_hardly_fewer(cap: int) -> None:
    weights, rows = EntityWeights.of(cap), np.arange(1, cap + 1)
    ticks = rows * weights.ticks_of(rows)
    assert ticks.max() <= weights.ticks
    assert ticks.min() > weights.ticks * 15 / 16
    assert cap > 8 or (ticks == weights.ticks).all()
    assert [m for numbers in weights.numbers_in for m in numbers] == rows.tolist()
    assert all(set(weights.level_of(np.array(ms))) == {level} for level, ms in enumerate(weights.numbers_in))


def test_weights_of_another_unit_are_refused() -> None:
    with pytest.raises(ValueError, match="another unit"):
        counted_unit(Unit("who", 3), EntityWeights.of(4))
    with pytest.raises(ValueError, match="another unit"):
        counted_unit(Unit(), EntityWeights.of(1))


# Golden numbers


def test_golden_ticks_and_levels() -> None:
    assert {cap: EntityWeights.of(cap).ticks for cap in (2, 3, 4, 5, 8, 12, 32, 100, 10**6)} == {
        2: 2, 3: 6, 4: 12, 5: 60, 8: 840, 12: 840, 32: 840, 100: 1680, 10**6: 17297280,
    }  # fmt: skip
    assert all(ticks % 840 == 0 for ticks in weights._DIVISIBLE)  # by every m up to 8, whatever the cap
    assert EntityWeights.of(4).levels == (1, 2, 4)
    assert EntityWeights.of(12).levels == (1, 2, 4, 8, 12)
    assert EntityWeights.of(32).levels == (1, 2, 4, 8, 16, 32)
    assert EntityWeights.of(12).ticks_of(np.array([1, 8, 9, 11])).tolist() == [840, 105, 93, 76]


def test_golden_ticks_of_a_table() -> None:
    """Three people with 1, 2 and 9 rows, of which five are kept: a person each, in 60 ticks."""
    people = [[("A", 0)], [("A", 1), ("B", 1)], [("B", 2)] * 9]
    spec = spec_of()
    domain = TableDomain.of(spec)
    table = LocalTable(ArrowSource(arrow(people)), domain, spec.privacy.protected_unit, b"key")
    ward, level, rows = 0, weighted_tally.level_column(domain), weighted_tally.rows_column(domain)
    total, wards, levels, both, numbers = table.counts(
        [(), (ward,), (level,), (ward, level), (rows,)], EntityWeights.of(CAP)
    )
    assert total == 180
    assert wards.tolist() == [90, 90]
    assert levels.tolist() == [60, 60, 0, 60]  # 1, 2, 3-4, 5
    assert both.tolist() == [[60, 30, 0, 0], [0, 30, 0, 60]]
    assert numbers.tolist() == [60, 60, 0, 0, 60]


def test_golden_noise() -> None:
    """The number of entities has the noise of one row an entity: z over the root of its share, whatever the cap."""
    z = noise_multiplier(Budget("1", "1e-6"), Relation.ADD_REMOVE, "rounded")
    assert z == pytest.approx(4.2247, rel=1e-4)
    for cap in (5, 32):
        spec = spec_of(cap=cap)
        design = listed.plan_listed(spec, listed_options(spec), TableDomain.of(spec))
        share = design.workload.shares[0] * (1 - listed.NUMBERS_SHARE - 0.02 - 0.05)
        assert design.workload.measured[0] == ()
        assert design.noise.stds[0] / EntityWeights.of(cap).ticks == pytest.approx(z / math.sqrt(share), rel=1e-9)


def listed_options(spec: ReleaseSpec) -> Any:
    from understudy.pipelines.methods.privpgd.options import privpgd_options

    return privpgd_options(spec, TableDomain.of(spec))


def test_a_stored_measurement_says_what_its_numbers_are() -> None:
    found, noise = measured(spec_of(), [[("A", 0)]])
    assert found.facts[WEIGHTS] == {
        "ticks": 60, "max_rows": 5, "levels": [1, 2, 4, 5], "numbers_std": noise.beside.stds[0],
    }  # fmt: skip
    assert found.facts["sizes"] == [2, 3, 4]
    assert found.facts["columns"] == ["ward", "stage", "rows of the entity"]
    assert found.arrays[NUMBERS].shape == (5,)
    assert released_entities(found).residuals.sizes == (2, 3, 4)


# Planted bugs


def holds() -> bool:
    """The replay over entities of equal rows: what is moved is what is declared, no more and no less."""
    try:
        found = [moved(spec_of(), [[("A", 2)] * rows], []) for rows in (1, 3, CAP, 4 * CAP)]
    except ValueError:  # more rows than the cap
        return False
    return all(math.isclose(square, allowed, rel_tol=1e-9) for square, allowed in found)


def test_the_true_mechanism_holds() -> None:
    assert holds()


@pytest.mark.parametrize(
    ("place", "name", "wrong"),
    [
        (EntityWeights, "ticks_of", lambda self, rows: 2 * self.ticks // rows),
        (EntityWeights, "ticks_of", lambda self, rows: np.full_like(rows, self.ticks)),
        (EntityWeights, "ticks_of", lambda self, rows: -(-self.ticks // (rows + 1))),
        (listed, "counted_unit", lambda unit, weights: unit),
        (listed, "counted_unit", lambda unit, weights: Unit(unit.entity, unit.max_rows * weights.ticks)),
        (bounding, "first_of_each", lambda entity, row, tie, count: first_of_each(entity, row, tie, 10**6)),
    ],
    ids=["sum to 2", "every row weighs as one entity", "one row too many", "W forgotten", "k times W", "no cap"],
)
def test_wrong_weights_are_caught(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, wrong: Callable[..., Any]
) -> None:
    monkeypatch.setattr(place, name, wrong)
    assert not holds()


def test_rows_counted_before_bounding_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """m of all rows that an entity has, and not of those that are kept."""
    seen: list[int] = []
    found = bounding.candidates

    def remembering(batch: pa.RecordBatch, *rest: Any) -> Any:
        seen.append(batch.num_rows)
        return found(batch, *rest)

    monkeypatch.setattr(bounding, "candidates", remembering)
    monkeypatch.setattr(weighted_tally, "rows_of_entity", lambda entity: np.full(len(entity), seen[-1]))
    assert not holds()


# Chosen triples


@settings(max_examples=10, deadline=None)
@given(persons, person)
def test_with_chosen_triples_what_is_counted_is_an_entity_too(rest: list, mine: list) -> None:
    """Every table that enters the noise, the triples among them, is moved by at most W ticks in each cell's sum."""
    spec = spec_of(marginals="auto")
    columns = {**spec.model_dump(mode="json")["columns"], "more": {"type": "boolean"}}
    spec = ReleaseSpec.model_validate({**spec.model_dump(mode="json"), "columns": columns})
    domain, method, exact = TableDomain.of(spec), PrivPGDMethod(), []
    plan = method.plan(spec, domain)
    for people in ([*rest, mine], rest):
        rows = arrow(people)
        rows = rows.append_column("more", pa.array(np.arange(len(rows)) % 2 == 0))
        table = LocalTable(ArrowSource(rows), domain, spec.privacy.protected_unit, b"key", threads=1)

        def sold(_: Any, mechanism: Mechanism[Any]) -> Measurement:
            exact.append(mechanism.exact)
            return mechanism.draw(SeededWords(0))

        found = method.measure(table, spec, plan, sold)
        assert found.facts[WEIGHTS]["ticks"] == 60
    one, other = ({**each.first, **{str(key): table for key, table in each.triples.items()}} for each in exact)
    assert any("(0, 1, 2)" in name for name in one)
    for name, table in one.items():
        assert np.abs(table - other[name]).sum() <= 60
