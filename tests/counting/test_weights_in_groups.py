"""Wide ordered columns where entities are counted: groups of neighbours are tables of ticks like any other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.counting.test_weights import CAP, measured, moved, spec_of
from understudy.pipelines.counting.released import released_entities
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.residuals import residuals_of
from understudy.pipelines.methods.privpgd.listed import ListedDesign
from understudy.pipelines.methods.privpgd.method import PrivPGDMethod
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.publishing.measured import measured_files, read_measured
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

BINS = 100
LEVEL = 2

visits = st.tuples(st.sampled_from("AB"), st.integers(0, BINS - 1))
persons = st.lists(st.lists(visits, min_size=1, max_size=9), max_size=4)
person = st.lists(visits, min_size=1, max_size=12)


def wide_spec(relation: Relation = Relation.ADD_REMOVE, bins: int = BINS, epsilon: float = 1) -> ReleaseSpec:
    plain = spec_of(relation).model_dump(mode="json")
    stage = {"type": "integer", "min": 0, "max": bins - 1, "bins": bins}
    return ReleaseSpec.model_validate(
        {
            **plain,
            "privacy": {**plain["privacy"], "epsilon": epsilon},
            "columns": {**plain["columns"], "stage": stage},
        }
    )


def design_of(spec: ReleaseSpec) -> ListedDesign:
    design = PrivPGDMethod().plan(spec, TableDomain.of(spec)).design
    assert isinstance(design, ListedDesign)
    return design


def test_a_wide_column_is_grouped_alone_beside_others_and_beside_the_level() -> None:
    grouped = {each.columns for each in design_of(wide_spec()).workload.grouped}
    assert grouped == {(1,), (0, 1), (1, LEVEL)}
    assert design_of(spec_of()).workload.grouped == ()


@settings(max_examples=15, deadline=None)
@given(persons, person, person, st.sampled_from(Relation))
def test_neighbour_replay_in_groups(rest: list, mine: list, other: list, relation: Relation) -> None:
    neighbour = [*rest, other] if relation is Relation.REPLACE_ONE else rest
    square, allowed = moved(wide_spec(relation), [*rest, mine], neighbour)
    assert square <= allowed * (1 + 1e-9)


@pytest.mark.parametrize("rows", [1, 3, CAP, 4 * CAP])
def test_an_entity_of_equal_rows_moves_exactly_what_is_declared(rows: int) -> None:
    square, allowed = moved(wide_spec(), [[("A", 70)] * rows], [])
    assert square == pytest.approx(allowed, rel=1e-9)


def test_golden_noise_of_groups() -> None:
    """In entities, before centring: of the column's codes; of 8 and 32 groups of it, alone, by ward and by level."""
    design = design_of(wide_spec())
    told, ticks = design.noise, EntityWeights.of(CAP).ticks
    stds = [std / math.prod(shape) / ticks for shape, std in zip(told.shapes, told.stds, strict=True)]
    assert stds[design.workload.measured.index((1,))] == pytest.approx(12.2726, rel=1e-4)
    in_groups = stds[len(design.workload.measured) :]
    assert in_groups == pytest.approx([8.77608, 15.6088, 9.46456, 18.1820, 9.46456, 18.1820], rel=1e-4)


def test_groups_are_read_back_in_entities_for_rows_and_for_answers() -> None:
    people = [[("A", place % BINS), ("B", (7 * place) % BINS)][: 1 + place % 2] for place in range(400)]
    found, _ = measured(wide_spec(epsilon=100), people)
    residuals = released_entities(found).residuals
    for each, residual in residuals.grouped.items():
        if each.columns != (1,):
            continue
        alone = np.zeros(BINS)
        for rows in people:
            np.add.at(alone, [stage for _, stage in rows], 1 / len(rows))
        groups = each.summed(alone)
        assert residual.counts == pytest.approx(groups - groups.mean(), abs=6 * residual.std)
        assert residual.std < 3
    answers = residuals_of(found).grouped
    assert {each.columns for each in answers} == {(1,), (0, 1)}
    assert all(answers[each].std >= residuals.grouped[each].std for each in answers)
    files = {file.path: file.content for file in measured_files(found, TableDomain.of(wide_spec()), CAP)}
    again = read_measured(files.get)
    assert again is not None
    travelled = residuals_of(again.measurement).grouped
    assert all(np.array_equal(travelled[each].counts, answers[each].counts) for each in answers)


def test_noise_beyond_what_can_be_drawn_is_refused_by_the_plan() -> None:
    """Or it would be paid for and never drawn."""
    spec = wide_spec(bins=4_400, epsilon=0.001)
    plain = spec.model_dump(mode="json")
    again = {"type": "integer", "min": 0, "max": 4_399, "bins": 4_400}
    spec = ReleaseSpec.model_validate({**plain, "columns": {**plain["columns"], "again": again}})
    with pytest.raises(SpecError, match="stage x again"):
        design_of(spec)
