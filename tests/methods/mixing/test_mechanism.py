"""The mechanism under neighbour replay, its noise scale, and the exactness of its norm bound."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from understudy.pipelines.methods.mixing import mechanism
from understudy.pipelines.methods.mixing.fixed_size import fixed_size_curve
from understudy.pipelines.methods.mixing.grid import clip_rows, on_grid, placed
from understudy.pipelines.methods.mixing.mechanism import (
    ClassRecords,
    MixtureDesign,
    SliceNoise,
    exact_sums,
    release_mixtures,
)
from understudy.pipelines.methods.mixing.statistics import NORM_BOUND, StatisticsDesign, exact_statistics
from understudy.pipelines.privacy.events import Gaussian, PoissonSampled, SelfComposed
from understudy.pipelines.privacy.noise.sampling import Draw

POISSON = MixtureDesign("poisson", rate=0.2, order=4, minimum=12, noise_multiplier=1.5)
FIXED = MixtureDesign("fixed", rate=0.2, order=4, minimum=12, noise_multiplier=1.5)


@given(arrays(np.int32, (3, 5), elements=st.integers(-(2**26), 2**26)), st.integers(1, 2**20))
@settings(max_examples=200, deadline=None)
def test_the_norm_bound_is_exact(rows, bound):
    clipped = rows.copy()
    clip_rows(clipped, bound)
    norms = [sum(int(v) ** 2 for v in row) for row in clipped]
    assert all(norm <= bound**2 for norm in norms)
    short = [sum(int(v) ** 2 for v in row) <= bound**2 for row in rows]
    np.testing.assert_array_equal(clipped[short], rows[short])
    assert (np.abs(clipped) <= np.abs(rows)).all()


@given(arrays(np.float64, (2, 3), elements=st.floats(allow_nan=True, allow_infinity=True)))
@settings(max_examples=100, deadline=None)
def test_the_grid_takes_any_number(values):
    with np.errstate(over="ignore"):
        placed = on_grid(values, 0.001)
    assert (placed[~np.isfinite(values)] == 0).all()
    assert (np.abs(placed) <= 2**26).all()


@pytest.mark.parametrize(("bound", "smallest"), [(200, np.int16), (2**15 - 1, np.int16), (2**15, np.int32)])
def test_placing_is_centring_the_grid_and_clipping(bound, smallest):
    rng = np.random.default_rng(0)
    values = rng.normal(0, 3, (50, 7)).astype(np.float32)
    values[3, 2], values[4, 1], values[5] = np.nan, np.inf, 1e38
    labels = rng.integers(0, 3, 50)
    centres, scales = rng.normal(size=(3, 7)).astype(np.float32), np.linspace(0.5, 2, 7).astype(np.float32)
    found = placed(values, labels, centres, scales, 0.01, bound)
    expected = on_grid((values - centres[labels]) / scales, 0.01)
    clip_rows(expected, bound)
    assert found.dtype == smallest
    np.testing.assert_array_equal(found, expected)


def records_of(seed, count, design, width=6):
    rows = np.random.default_rng(seed).integers(-2000, 2000, (count, width)).astype(np.int32)
    clip_rows(rows, design.norm_bound)
    return rows


@pytest.mark.parametrize("design", [POISSON, FIXED], ids=["poisson", "fixed"])
@pytest.mark.parametrize("seed", range(8))
def test_neighbour_replay(design, seed, replayed):
    """One record more in the middle class: only its mixtures move, by at most C each, and the calls are the same."""
    rows = records_of(seed, 33, design)
    # below the minimum, the fixed-size draw keeps its population; above it, see test_sampling's coupling
    classes = [np.arange(0, 12), np.arange(12, 20), np.arange(21, 33)]
    more = [classes[0], np.arange(12, 21), classes[2]]
    one, other = replayed(seed), replayed(seed)
    wanted = [20, 30, 10]
    without = release_mixtures(rows, classes, wanted, design, one).astype(np.int64)
    with_it = release_mixtures(rows, more, wanted, design, other).astype(np.int64)
    assert len(one.calls) == len(other.calls)
    change = with_it - without
    assert not change[:20].any()
    assert not change[50:].any()
    assert (np.square(change).sum(axis=1) <= design.norm_bound**2).all()
    moved = change[20:50].any(axis=1)
    assert moved.any()
    np.testing.assert_array_equal(change[20:50][moved], np.tile(rows[20], (int(moved.sum()), 1)))


@pytest.mark.parametrize("design", [POISSON, FIXED], ids=["poisson", "fixed"])
@pytest.mark.parametrize("size", [0, 1, 3, 11], ids=["empty", "one", "below the order", "below the minimum"])
def test_neighbour_replay_in_small_classes(design, size, replayed):
    """One record more in a class that small: each mixture moves by exactly that record, or not at all."""
    rows = records_of(7, size + 1, design)
    one, other = replayed(3), replayed(3)
    without = release_mixtures(rows, [np.arange(size)], [400], design, one).astype(np.int64)
    with_it = release_mixtures(rows, [np.arange(size + 1)], [400], design, other).astype(np.int64)
    assert len(one.calls) == len(other.calls)
    change = with_it - without
    moved = change.any(axis=1)
    np.testing.assert_array_equal(change[moved], np.tile(rows[size], (int(moved.sum()), 1)))
    spread = np.sqrt(400 * design.inclusion * (1 - design.inclusion))
    assert abs(moved.sum() - 400 * design.inclusion) < 5 * spread  # as often as the event says, no oftener


def test_replacing_a_drawn_record_moves_a_fixed_mixture_by_at_most_twice_the_bound(replayed):
    rows = records_of(1, 40, FIXED)
    opposite = rows.copy()
    opposite[7] = -rows[7]
    sums = [
        release_mixtures(data, [np.arange(40)], [200], FIXED, replayed(3)).astype(np.int64) for data in (rows, opposite)
    ]
    squares = np.square(sums[1] - sums[0]).sum(axis=1)
    assert squares.max() <= (2 * FIXED.norm_bound) ** 2
    assert squares.max() > FIXED.norm_bound**2  # so a claim of C would be wrong


@pytest.mark.parametrize("design", [POISSON, FIXED], ids=["poisson", "fixed"])
@pytest.mark.parametrize(("scale", "accepted"), [(1.0, True), (0.97, False), (1.03, False)])
def test_the_noise_drawn_is_the_noise_charged(design, scale, accepted, seeded):
    """An empty class releases pure noise, whose variance must be the event's multiplier times the norm bound."""
    event = design.event(7)
    assert isinstance(event, SelfComposed)
    assert event.count == 7
    multiplier = design.noise_multiplier
    if design.sampler == "poisson":
        assert event.event == PoissonSampled(design.rate, Gaussian(multiplier))
    else:
        assert event.event == fixed_size_curve(design.inclusion, multiplier)
    sigma = scale * multiplier * design.norm_bound
    nothing = np.zeros((0, 50), dtype=np.int32)
    noise = release_mixtures(nothing, [np.zeros(0, dtype=np.int64)], [4000], design, seeded(11)).astype(float)
    score = (np.square(noise).mean() / (sigma**2 + 1 / 12) - 1) / np.sqrt(2 / noise.size)
    assert bool(abs(score) < 4) is accepted


def test_events_name_the_right_rate_and_multiplier():
    assert POISSON.event(3) == SelfComposed(PoissonSampled(0.2, Gaussian(1.5)), 3)
    assert FIXED.event(3) == SelfComposed(fixed_size_curve(math.nextafter(1 / 3, 1), 1.5), 3)  # rounded up
    assert POISSON.expected_order(50) == 10
    assert FIXED.expected_order(100) == 4
    assert FIXED.expected_order(6) == 2


def test_threads_and_their_number_change_nothing(monkeypatch, seeded):
    rows = records_of(2, 30, POISSON)
    classes, wanted = [np.arange(10), np.arange(10, 30)], [500, 700]
    monkeypatch.setattr(mechanism, "_BLOCK_NUMBERS", 600)
    results = []
    for workers in (1, 2, 5):
        monkeypatch.setattr(mechanism, "_WORKERS", workers)
        results.append(release_mixtures(rows, classes, wanted, POISSON, seeded(4)))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_noise_beyond_the_table_is_drawn_too(seeded):
    design = MixtureDesign("poisson", rate=0.2, order=4, minimum=12, noise_multiplier=500.0)
    rows = records_of(3, 10, design)
    noisy = release_mixtures(rows, [np.arange(10)], [3000], design, seeded(8)).astype(float)
    assert design.sigma == 500 * design.norm_bound
    assert abs(noisy.std() / design.sigma - 1) < 0.03


def test_sums_saturate_instead_of_wrapping():
    rows = np.full((1, 2), 2**20, dtype=np.int32)
    draw = Draw(np.array([0, 5000]), np.zeros(5000, dtype=np.int64))
    np.testing.assert_array_equal(exact_sums(rows, np.array([0]), draw), [[2**30, 2**30]])


def test_small_numbers_and_many_members_give_the_same_sums():
    """The short way of adding, the one that watches for saturation, and both types of records."""
    rows = np.random.default_rng(5).integers(-3000, 3000, (40, 9)).astype(np.int32)
    members = np.random.default_rng(6).integers(0, 45, 1500)  # 40 and above are the zero records
    expected = rows[members[members < 40]].sum(axis=0)
    short = [np.array([0, 700, 1500]), np.array([0, 1500])]
    for records in (rows, rows.astype(np.int16)):
        for starts in short:
            sums = exact_sums(records, np.arange(40), Draw(starts, members)).sum(axis=0)
            np.testing.assert_array_equal(sums, expected)


@given(arrays(np.int32, (6, 4), elements=st.integers(-(2**16), 2**16)), st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_statistics_move_by_at_most_their_sensitivity(rows, removed):
    clip_rows(rows, NORM_BOUND)
    labels = np.array([0, 0, 1, 1, 2, 2])
    keep = np.arange(6) != removed
    for sums, squares in ((True, True), (True, False), (False, False)):
        design = StatisticsDesign(1.0, sums, squares, 1.0)
        change = exact_statistics(rows, labels, 3, design) - exact_statistics(rows[keep], labels[keep], 3, design)
        assert sum(int(v) ** 2 for v in change.ravel()) <= design.sensitivity**2 * (1 + 1e-12)
        assert np.flatnonzero(change.any(axis=1)).tolist() == [labels[removed]]


@pytest.mark.parametrize(("scale", "accepted"), [(1.0, True), (0.97, False), (1.03, False)])
def test_statistics_have_the_noise_that_is_charged(scale, accepted, seeded):
    """Statistics of nobody are pure noise, of the multiplier that the event claims times the sensitivity."""
    design = StatisticsDesign(1.0, True, True, 1.5)
    assert design.event == Gaussian(1.5)
    noise = design.draw(np.zeros((10, 20_001), dtype=np.int64), seeded(5))["statistics"].astype(float)
    sigma = scale * 1.5 * design.sensitivity
    score = (np.square(noise).mean() / sigma**2 - 1) / np.sqrt(2 / noise.size)
    assert bool(abs(score) < 4) is accepted


def test_a_slice_never_holds_more_than_it_charges(seeded):
    rows = records_of(1, 20, POISSON)
    noise = SliceNoise(POISSON, 3)
    exact = ClassRecords(rows, [np.arange(10), np.arange(10, 20)], [7, 2])
    assert len(noise.draw(exact, seeded(1))["sums"]) == 3 + 2
    assert noise.event == POISSON.event(3)
