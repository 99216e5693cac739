"""Noisy residuals: neighbour replay, the event of what was drawn, golden numbers, and planted bugs that are caught."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.randomness import SeededWords
from understudy.pipelines.counting import residuals
from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.counting.lifted import centred_counts
from understudy.pipelines.counting.mechanism import noise_multiplier
from understudy.pipelines.counting.released import residuals_by_name
from understudy.pipelines.counting.residuals import ResidualNoise, moved_square, residual_noise
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian, ZeroConcentrated
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.table.coding.encode import EncodedBatch

SIZES = (3, 4, 2)
CLIQUES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2))
SHAPES = tuple(tuple(SIZES[column] for column in clique) for clique in CLIQUES)
SHARES = (0.05, 0.15, 0.1, 0.1, 0.2, 0.3, 0.1)
BUDGET = Budget("1", "1e-6")
Row = tuple[int, int, int]

rows = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), max_size=30)
unit_rows = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), min_size=1, max_size=4)


def noise_for(relation: Relation, unit: Unit, sampler: str = "rounded", first: int = 0) -> ResidualNoise:
    """`first` 1 leaves out the total, which does not move under REPLACE_ONE of rows."""
    z = noise_multiplier(BUDGET, relation, sampler)
    return residual_noise(SHAPES[first:], SHARES[first:], (), z, relation, unit, sampler)


def exact_of(table: list[Row], first: int = 0) -> dict[str, np.ndarray]:
    codes = np.array(table, dtype=np.uint8).reshape(-1, 3)
    batch = EncodedBatch(tuple(np.ascontiguousarray(codes[:, i]) for i in range(3)), len(table))
    return residuals_by_name(count_marginals([batch], SIZES, list(CLIQUES[first:])))


def moved(noise: ResidualNoise, one: dict[str, np.ndarray], other: dict[str, np.ndarray], seed: int = 0) -> float:
    """Squared distance of two releases with the same randomness, over the variances of what is drawn.

    Of the releases alone: each difference is undone, centred, and counted in the units of the noise.
    """
    randomness = Recorded(seed), Recorded(seed)
    released = [list(noise.draw(each, words).values()) for each, words in zip((one, other), randomness, strict=True)]
    assert randomness[0].asked == randomness[1].asked  # control flow does not depend on the data
    square = 0.0
    for a, b, shape, std in zip(*released, noise.shapes, noise.stds, strict=True):
        shift = math.prod(shape) * centred_counts(a - b, shape)
        assert np.abs(shift - np.rint(shift)).max() < 1e-9  # a whole number of the noise's grid
        square += float(np.square(shift).sum()) / std**2
    return square


class Recorded(SeededWords):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: list[int] = []

    def words(self, count: int) -> np.ndarray:
        self.asked.append(count)
        return super().words(count)


def allowed(noise: ResidualNoise) -> float:
    event = noise.event
    assert isinstance(event, Gaussian)
    return event.noise_multiplier**-2


@settings(max_examples=80, deadline=None)
@given(rows, unit_rows, unit_rows, st.sampled_from(Relation), st.integers(0, 2**32))
def test_neighbour_replay(rest: list, mine: list, other: list, relation: Relation, seed: int) -> None:
    """With equal randomness the outputs of neighbours differ by a whole shift within the declared sensitivity."""
    noise = noise_for(relation, Unit("patient", 4))
    neighbour = rest + other if relation is Relation.REPLACE_ONE else rest
    assert moved(noise, exact_of(rest + mine), exact_of(neighbour), seed) <= allowed(noise) * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(rows, unit_rows, unit_rows)
def test_neighbour_replay_of_replaced_rows(rest: list, mine: list, other: list) -> None:
    noise = noise_for(Relation.REPLACE_ONE, Unit(), first=1)
    one, two = exact_of([*rest, mine[0]], 1), exact_of([*rest, other[0]], 1)
    assert moved(noise, one, two) <= allowed(noise) * (1 + 1e-9)


@pytest.mark.parametrize("size", [1, 3])
def test_added_rows_move_exactly_what_is_declared(size: int) -> None:
    """Whatever the cell: so a sensitivity too large is caught as surely as one too small."""
    noise = noise_for(Relation.ADD_REMOVE, Unit("patient", size))
    for row in product(*map(range, SIZES)):
        assert moved(noise, exact_of([row] * size), exact_of([])) == pytest.approx(allowed(noise), rel=1e-9)


@pytest.mark.parametrize("shape", [(2,), (5,), (2, 2), (3, 4), (2, 7), (2, 2, 2), (2, 3, 4)])
@pytest.mark.parametrize("unit", [Unit(), Unit("patient", 3)], ids=["row", "entity"])
def test_the_declared_sensitivity_is_the_largest_over_all_pairs_of_cells(shape: tuple[int, ...], unit: Unit) -> None:
    """By brute force, for each relation."""
    shifts = []
    for cell in np.ndindex(*shape):
        shift = np.zeros(shape)
        shift[cell] = unit.max_rows * math.prod(shape)
        for axis in range(len(shape)):
            shift = shift - shift.mean(axis=axis, keepdims=True)
        shifts.append(shift)
    added = max(float(np.square(one).sum()) for one in shifts)
    replaced = max(float(np.square(one - other).sum()) for one in shifts for other in shifts)
    assert moved_square(shape, Relation.ADD_REMOVE, unit) == pytest.approx(added)
    worst = replaced if unit.entity is None else max(added, replaced)
    assert moved_square(shape, Relation.REPLACE_ONE, unit) == pytest.approx(worst)


# Golden numbers


def test_golden_sensitivities() -> None:
    assert moved_square((), Relation.ADD_REMOVE, Unit()) == 1
    assert moved_square((), Relation.REPLACE_ONE, Unit()) == 1  # where a replaced row may vanish; else it is public
    assert moved_square((), Relation.REPLACE_ONE, Unit("p", 3)) == 9
    assert moved_square((4,), Relation.ADD_REMOVE, Unit()) == 16 * Fraction(3, 4)
    assert moved_square((4,), Relation.REPLACE_ONE, Unit()) == 16 * 2
    assert moved_square((2, 2), Relation.ADD_REMOVE, Unit()) == 16 * Fraction(1, 4)
    assert moved_square((3, 4), Relation.ADD_REMOVE, Unit()) == 144 * Fraction(2, 3) * Fraction(3, 4)
    assert moved_square((3, 4), Relation.REPLACE_ONE, Unit()) == 144 * 2 * Fraction(3, 4)  # agree on the larger
    assert moved_square((3, 4), Relation.ADD_REMOVE, Unit("p", 5)) == 25 * 72


def test_golden_noise() -> None:
    """One pair of two values each at eps 2.5, delta 1e-5: 1.634 prod(1 - 1/2)^(1/2) = 0.817 rows a cell."""
    z = noise_multiplier(Budget("2.5", "1e-5"), Relation.ADD_REMOVE, "rounded")
    noise = residual_noise([(2, 2)], [1.0], (), z, Relation.ADD_REMOVE, Unit(), "rounded")
    assert noise.stds[0] / 4 == pytest.approx(0.8171, rel=5e-4)
    assert noise.event == Gaussian(z)


@pytest.mark.parametrize("relation", Relation)
def test_the_budget_is_used_up_and_not_exceeded(relation: Relation) -> None:
    noise = noise_for(relation, Unit("patient", 2))
    assert 0.999 < composed_loss([noise.event], 1e-6, relation).epsilon <= 1.0


# The event


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SHAPES), st.floats(0.1, 1e6)), min_size=1, max_size=12),
    st.lists(st.floats(0.1, 1e6), max_size=3),
    st.sampled_from(Relation),
    st.integers(1, 50),
)
def test_the_event_never_says_more_noise_than_is_drawn(
    tables: list, plain: list, relation: Relation, max_rows: int
) -> None:
    """In exact arithmetic: what a unit can move, over the stds, is at most what the event admits."""
    unit = Unit("patient", max_rows)
    shapes, stds = tuple(shape for shape, _ in tables), tuple(std for _, std in tables)
    beside = residuals.MarginalNoise(tuple(plain), relation, unit) if plain else None
    event = ResidualNoise(shapes, stds, relation, unit, beside=beside).event
    assert isinstance(event, Gaussian)
    factor = 2 if relation is Relation.REPLACE_ONE else 1
    square = sum(Fraction(moved_square(shape, relation, unit)) / Fraction(std) ** 2 for shape, std in tables)
    square += sum(Fraction(factor * max_rows**2) / Fraction(std) ** 2 for std in plain)
    claimed = Fraction(event.noise_multiplier) ** 2 * square
    assert 1 - Fraction(1, 2**45) < claimed <= 1
    discrete = ResidualNoise(shapes, stds, relation, unit, "opendp", beside).event
    assert isinstance(discrete, ZeroConcentrated)
    assert Fraction(discrete.rho) >= square / 2


@pytest.mark.parametrize("sampler", ["rounded", "opendp"])
def test_a_std_one_double_too_small_changes_the_event(sampler: str) -> None:
    noise = noise_for(Relation.ADD_REMOVE, Unit(), sampler)
    weak = replace(noise, stds=tuple(math.nextafter(std, 0) for std in noise.stds))
    assert weak.event != noise.event


# The noise itself


def z_scores(scale: float) -> np.ndarray:
    """Released minus true, centred, over its declared std, when the noise drawn is `scale` times what was declared."""
    shapes = [(200,), (60, 50), (12, 15, 18)]
    noise = residual_noise(shapes, [0.2, 0.4, 0.4], (), 4.0, Relation.ADD_REMOVE, Unit(), "rounded")
    drawn = replace(noise, stds=tuple(std * scale for std in noise.stds))
    counts = residuals_by_name([np.full(shape, 7) for shape in shapes])
    released = drawn.draw(counts, operating_system_randomness()).values()
    scores = []
    for noisy, shape, std in zip(released, shapes, noise.stds, strict=True):
        left = math.prod(1 - 1 / size for size in shape)
        scores.append((math.prod(shape) * centred_counts(noisy, shape) / std / math.sqrt(left)).ravel())
    return np.concatenate(scores)


def scale_is_right(scores: np.ndarray) -> bool:
    """Two-sided variance test at six standard errors; 6,000 draws tell a 12% error of the variance apart."""
    return bool(abs(np.square(scores).mean() - 1) < 6 * math.sqrt(2 / len(scores)))


def test_the_noise_has_the_declared_scale_and_a_wrong_one_is_caught() -> None:
    assert scale_is_right(z_scores(1.0))
    assert not scale_is_right(z_scores(0.9))
    assert not scale_is_right(z_scores(1.1))


def test_only_differences_leave_the_mechanism() -> None:
    """What is constant along an axis, such as the counts of a wider table's columns, cannot be told from them."""
    noise = noise_for(Relation.ADD_REMOVE, Unit(), first=1)
    tables = [np.arange(math.prod(shape)).reshape(shape) for shape in noise.shapes]
    shifted = [t + 1000 * np.arange(t.shape[-1]) if t.ndim > 1 else t + 1000 for t in tables]
    one, other = (noise.draw(residuals_by_name(each), SeededWords(3)) for each in (tables, shifted))
    for name, shape in zip(one, noise.shapes, strict=True):
        assert one[name].size == math.prod(size - 1 for size in shape)
        assert (one[name] == other[name]).all()


def test_opendp_draws_are_charged_as_zcdp() -> None:
    noise = noise_for(Relation.ADD_REMOVE, Unit(), "opendp")
    assert isinstance(noise.event, ZeroConcentrated)
    assert noise.draw(exact_of([]), operating_system_randomness())["residual_4"].shape == (6,)


# Planted bugs


@dataclass(frozen=True)
class OtherGrid(ResidualNoise):
    """Multiplies the counts by another number than the product of the sizes."""

    factor: Fraction = Fraction(1)

    def draw(self, exact, randomness):  # type: ignore[no-untyped-def]
        grown = {}
        for (name, counts), shape in zip(exact.items(), self.shapes, strict=True):
            grown[name] = counts * self.factor.numerator // (self.factor.denominator if shape else 1)
        return super().draw(grown, randomness)


def holds(noise: ResidualNoise, relation: Relation) -> bool:
    """The replay over single cells: nothing moves more than declared, and added rows no less either."""
    first = 0 if relation is Relation.ADD_REMOVE else 1
    cells = list(product(*map(range, SIZES)))
    try:
        if relation is Relation.ADD_REMOVE:
            found = [moved(noise, exact_of([cell]), exact_of([])) for cell in cells]
            return all(math.isclose(one, allowed(noise), rel_tol=1e-9) for one in found)
        found = [moved(noise, exact_of([a], first), exact_of([b], first)) for a in cells for b in cells]
        return max(found) <= allowed(noise) * (1 + 1e-9)
    except AssertionError:  # the shift was no whole number
        return False


def planted(monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., float], relation: Relation) -> ResidualNoise:
    """The noise that a wrong sensitivity calibrates and declares."""
    monkeypatch.setattr(residuals, "moved_square", wrong)
    return noise_for(relation, Unit(), first=0 if relation is Relation.ADD_REMOVE else 1)


@pytest.mark.parametrize("relation", Relation)
def test_the_true_mechanism_holds(relation: Relation) -> None:
    first = 0 if relation is Relation.ADD_REMOVE else 1
    assert holds(noise_for(relation, Unit(), first=first), relation)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda shape, relation, unit: Fraction(moved_square(shape, relation, unit), max(shape, default=1)),
        lambda shape, relation, unit: moved_square(shape, relation, unit) * max(shape, default=1),
        lambda shape, relation, unit: math.prod(shape) ** 2,  # as if it were a marginal
        lambda shape, relation, unit: math.prod(size - 1 for size in shape),  # G forgotten
    ],
    ids=["a factor lost", "a factor too many", "not centred", "no G"],
)
def test_a_wrong_factor_is_caught(monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., float]) -> None:
    assert not holds(planted(monkeypatch, wrong, Relation.ADD_REMOVE), Relation.ADD_REMOVE)


@pytest.mark.parametrize("factor", [Fraction(2), Fraction(1, 2)])
def test_a_wrong_g_is_caught(factor: Fraction) -> None:
    noise = noise_for(Relation.ADD_REMOVE, Unit())
    bug = OtherGrid(noise.shapes, noise.stds, noise.relation, noise.unit, factor=factor)
    assert not holds(bug, Relation.ADD_REMOVE)


def test_replacing_taken_for_adding_is_caught_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    added = planted(monkeypatch, lambda s, _, unit: moved_square(s, Relation.ADD_REMOVE, unit), Relation.REPLACE_ONE)
    assert not holds(added, Relation.REPLACE_ONE)
    monkeypatch.undo()
    entity = Unit("patient", 1)  # its total moves under either relation
    wrong = replace(noise_for(Relation.REPLACE_ONE, entity), relation=Relation.REPLACE_ONE)
    assert not holds(wrong, Relation.ADD_REMOVE)
