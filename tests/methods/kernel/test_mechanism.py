"""Features and releases: an exact bound on one record, neighbours that differ by no more, noise that is right."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from understudy.pipelines.methods.kernel.features import AMPLITUDE, LEVELS, FeatureBlocks, on_levels, tables
from understudy.pipelines.methods.kernel.mechanism import (
    EMBEDDING,
    EmbeddingDesign,
    GridRecords,
    OnceNoise,
    StepsNoise,
    exact_embedding,
)
from understudy.pipelines.privacy.events import Gaussian, PoissonSampled, SelfComposed
from understudy.pipelines.privacy.relation import Relation

FEATURES = FeatureBlocks("test", 6, 40, (0.5, 1.0))
ONCE = EmbeddingDesign("once", FEATURES, 3, 2, 1.0, 2.0, Relation.ADD_REMOVE)
STEPS = EmbeddingDesign("steps", FEATURES, 50, 2, 0.2, 2.0, Relation.ADD_REMOVE)


def release_once(exact, design, randomness):
    return OnceNoise(design).draw(exact, randomness)[EMBEDDING], OnceNoise(design).event


def release_steps(rows, labels, first, steps, design, randomness):
    noise = StepsNoise(design, first, steps)
    return noise.draw(GridRecords(rows, labels), randomness)[EMBEDDING], noise.event


def records(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, LEVELS + 1, (count, 6)).astype(np.uint16), rng.integers(0, 2, count)


def features_of(record, block=0):
    total = np.zeros((1, 2 * FEATURES.frequencies), dtype=np.int64)
    FEATURES.add(block, record[None, :], np.zeros(1, dtype=np.int64), total)
    return total[0]


def test_features_are_rounded_cosines_and_sines_of_the_phase():
    rows, _ = records(20)
    for row in rows:
        phases = row.astype(np.float64) / LEVELS @ FEATURES.float_frequencies(1).astype(np.float64)
        slow = np.concatenate([np.cos(phases), np.sin(phases)]) * AMPLITUDE
        assert np.abs(features_of(row, 1) - slow).max() <= 1.0


def test_inner_products_estimate_the_kernel():
    wide = FeatureBlocks("kernel", 6, 20_000, (0.5, 1.0))
    x, y = records(2)[0] / LEVELS
    first, second = (np.zeros((1, 40_000), dtype=np.int64) for _ in range(2))
    for point, total in ((x, first), (y, second)):
        wide.add(0, np.rint(point[None] * LEVELS).astype(np.uint16), np.zeros(1, dtype=np.int64), total)
    distance = np.square(x - y).sum()
    expected = np.mean([math.exp(-distance / (2 * b * b)) for b in wide.bandwidths])
    assert (first[0] @ second[0]) / (AMPLITUDE**2 * 20_000) == pytest.approx(expected, abs=0.02)


@settings(max_examples=60, deadline=None)
@given(arrays(np.uint16, 6, elements=st.integers(0, LEVELS)), st.integers(0, 5))
def test_no_record_exceeds_the_bound(record, block):
    assert int(np.square(features_of(record, block)).sum()) <= FEATURES.largest_square


def test_the_bound_is_tight():
    cosines, sines = tables()
    assert FEATURES.largest_square == FEATURES.frequencies * int((cosines**2 + sines**2).max())
    assert FEATURES.largest_square <= FEATURES.frequencies * (AMPLITUDE + 1) ** 2


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 200), st.integers(1, 60), st.integers(0, 1000))
def test_a_records_features_do_not_depend_on_its_neighbours(before, after, seed):
    """Exact phases: whatever shares its block, a record adds the same integers."""
    rows, labels = records(before + after, seed)
    alone = sum(features_of(row) for row in rows)
    total = np.zeros((2, 2 * FEATURES.frequencies), dtype=np.int64)
    FEATURES.add(0, rows, labels, total)
    np.testing.assert_array_equal(total.sum(axis=0), alone)


def test_strange_values_land_on_the_grid():
    strange = np.array([np.nan, np.inf, -np.inf, -3.0, 0.5, 7.0], dtype=np.float32)
    assert on_levels(strange).tolist() == [LEVELS // 2, LEVELS, 0, 0, LEVELS // 2, LEVELS]


def test_blurring_a_picture_or_its_frequencies_is_the_same():
    from scipy.ndimage import gaussian_filter

    plain = FeatureBlocks("blur", 36, 10, (1.0,))
    smooth = replace(plain, picture=(6, 6, 1), smoothing=0.8)
    picture = np.random.default_rng(0).random((6, 6))
    blurred = gaussian_filter(picture, 0.8, mode="constant")
    np.testing.assert_allclose(
        picture.ravel() @ smooth.float_frequencies(0), blurred.ravel() @ plain.float_frequencies(0), atol=1e-3
    )


@pytest.mark.parametrize("split", [1, 7, 100])
def test_batches_do_not_change_the_exact_embedding(split):
    rows, labels = records(100)
    whole = exact_embedding([(rows, labels)], ONCE)
    parts = [(rows[i : i + split], labels[i : i + split]) for i in range(0, 100, split)]
    np.testing.assert_array_equal(exact_embedding(parts, ONCE), whole)
    assert (whole[:, -1] == ONCE.count_weight * np.bincount(labels, minlength=2)).all()


def test_neighbours_differ_by_at_most_the_sensitivity(replayed):
    """Neighbour replay, one release: with shared noise, one more record moves the output by at most Delta."""
    rows, labels = records(80, 3)
    with_it, event = release_once(exact_embedding([(rows, labels)], ONCE), ONCE, replayed(1))
    without, _ = release_once(exact_embedding([(rows[:-1], labels[:-1])], ONCE), ONCE, replayed(1))
    moved = math.sqrt(float(np.square(with_it - without).sum()))
    assert 0.99 * ONCE.sensitivity < moved <= ONCE.sensitivity
    assert event == Gaussian(2.0)


def test_neighbours_of_steps_differ_by_at_most_the_sensitivity_a_step(replayed):
    rows, labels = records(80, 4)
    more, fewer = replayed(2), replayed(2)
    with_it, event = release_steps(rows, labels, 0, 50, STEPS, more)
    without, _ = release_steps(rows[:-1], labels[:-1], 0, 50, STEPS, fewer)
    moved = np.sqrt(np.square((with_it - without).astype(float)).sum(axis=(1, 2)))
    assert moved.max() <= STEPS.sensitivity
    assert 0.05 < (moved > 0).mean() < 0.45  # the record is in about a fifth of the steps
    assert event == SelfComposed(PoissonSampled(0.2, Gaussian(2.0)), 50)


def test_replacing_doubles_and_units_multiply_the_sensitivity():
    replaced = replace(ONCE, relation=Relation.REPLACE_ONE)
    assert replaced.sensitivity == 2 * ONCE.sensitivity
    assert replace(ONCE, rows_a_unit=3).sensitivity == 3 * ONCE.sensitivity
    assert replace(STEPS, relation=Relation.REPLACE_ONE).sensitivity == STEPS.record_norm  # the accountant's part


def test_replaced_records_stay_within_the_doubled_bound():
    rows, labels = records(2, 5)
    first, second = (exact_embedding([(rows[i : i + 1], labels[:1])], ONCE) for i in range(2))
    assert np.linalg.norm(first - second) <= 2 * ONCE.record_norm


@pytest.mark.parametrize("scale", [1.0, 0.97])
def test_noise_of_another_scale_is_rejected(seeded, scale):
    wide = replace(ONCE, features=replace(FEATURES, frequencies=4000))
    exact = np.zeros((2, wide.numbers), dtype=np.int64)
    noise, _ = release_once(exact, replace(wide, noise_multiplier=2.0 * scale), seeded(3))
    p = stats.kstest(noise.ravel() / wide.sigma, "norm").pvalue
    variance = float(np.square(noise / wide.sigma).mean())
    plausible = abs(variance - 1) < 5 * math.sqrt(2 / noise.size)
    assert (plausible and p > 1e-4) == (scale == 1.0)


def test_a_step_with_nobody_in_it_is_pure_noise(seeded):
    rows, labels = records(0)
    released, _ = release_steps(rows, labels, 0, 3, STEPS, seeded(1))
    assert released.shape == (3, 2, STEPS.numbers)
    assert abs(np.std(released) / STEPS.sigma - 1) < 0.2


@pytest.mark.parametrize("design", [ONCE, STEPS, replace(ONCE, relation=Relation.REPLACE_ONE, rows_a_unit=3)])
def test_the_event_is_that_of_the_noise_drawn(design, seeded):
    """The noise multiplier of the event, times what one unit moves, is the spread of a release of nobody."""
    if design.release == "once":
        released, event = release_once(np.zeros((2, design.numbers), dtype=np.int64), design, seeded(4))
        multiplier = event.noise_multiplier
    else:
        released, event = release_steps(*records(0), 0, 40, design, seeded(4))
        assert (event.event.rate, event.count) == (design.rate, 40)
        multiplier = event.event.event.noise_multiplier
    scale = np.std(released) / (multiplier * design.sensitivity)
    assert abs(scale - 1) < 5 / math.sqrt(2 * released.size)


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_a_record_is_in_a_step_as_often_as_is_charged(rate, seeded):
    """With next to no noise the count of its class tells in which steps it was."""
    design = replace(STEPS, rate=rate, noise_multiplier=0.001)
    released, event = release_steps(*records(1), 0, 2000, design, seeded(6))
    present = np.rint(released[:, :, -1] / design.count_weight).sum()
    assert event.event.rate == rate
    assert abs(present - 2000 * rate) < 5 * math.sqrt(2000 * rate * (1 - rate))


@pytest.mark.parametrize(
    ("key", "frequencies"),
    [("a", [[5447, -8957], [9145, 34413], [905, -24024]]), ("c", [[6253, 10822], [14391, -151], [20840, 29600]])],
)
def test_frequencies_are_what_they_were_when_a_measurement_was_bought(key: str, frequencies: list[list[int]]) -> None:
    """Golden: what was bought under a key is read by the frequencies of that key, in every version."""
    assert FeatureBlocks(key, 3, 2, (0.5,)).integer_frequencies(0).tolist() == frequencies


@pytest.mark.parametrize("release", ["once", "steps"])
def test_a_release_holds_its_blocks_and_no_more_noise_than_one_record_of_them_needs(release: str) -> None:
    design = replace(STEPS, release=release)
    together = design.blocks if release == "once" else 1
    assert design.numbers == together * 2 * FEATURES.frequencies + 1
    features = together * FEATURES.largest_square
    assert design.count_weight == math.ceil(math.sqrt(features) / 4)
    assert design.sensitivity == pytest.approx(math.sqrt(features + design.count_weight**2), rel=1e-12)
    assert design.sigma == pytest.approx(2 * design.sensitivity, rel=1e-9)
