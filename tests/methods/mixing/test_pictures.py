"""Pictures are restored with the spread they have after the cut to their range; texture tells no class."""

import numpy as np
import pytest

from understudy.pipelines.methods.mixing.denoise import image_basis, moments, restorations
from understudy.pipelines.methods.mixing.pictures import (
    cut_variance,
    image_texture,
    normal_quantiles,
    restored_pictures,
    whole_energy,
)

SIDE, ORDER, SIGMA, RECORDS = 12, 9.0, 1.0, 4000


def class_of_pictures(rng: np.random.Generator, texture: float) -> np.ndarray:
    """Dark pictures of a few smooth shapes, and white texture."""
    shapes = image_basis(SIDE, SIDE)[1:5] * np.array([1.6, 1.2, 1.0, 0.8])[:, None]
    pictures = 0.1 + rng.normal(size=(RECORDS, 4)) @ shapes + rng.normal(0, texture, (RECORDS, SIDE * SIDE))
    return np.clip(pictures, 0.0, 1.0)


def mixed(rng: np.random.Generator, pictures: np.ndarray) -> np.ndarray:
    chosen = rng.integers(0, len(pictures), (RECORDS, int(ORDER)))
    return pictures[chosen].sum(axis=1) + rng.normal(0, SIGMA, (RECORDS, SIDE * SIDE))


def restored_classes(sums: list[np.ndarray], norm_bound: float = 50.0):
    basis, orders = image_basis(SIDE, SIDE), np.full(len(sums), ORDER)
    found = [moments(part, 1.0, basis) for part in sums]
    bases = restorations(found, SIGMA, orders, basis, poisson=False)
    ranges = [(np.zeros(SIDE * SIDE), np.ones(SIDE * SIDE))] * len(sums)
    return bases, restored_pictures(bases, found, SIGMA, orders, (SIDE, SIDE), norm_bound, ranges)


def test_spread_is_kept_after_pictures_are_cut_to_their_range():
    """Gaussian records with the right covariance lose much of it at the edge of the range."""
    rng = np.random.default_rng(0)
    pictures = class_of_pictures(rng, 0.1)
    sums = mixed(rng, pictures)
    (base,), (restored,) = restored_classes([sums])
    gaussian = base.offset + rng.normal(size=(RECORDS, len(base.spread))) * np.sqrt(base.spread) @ base.directions.T
    real = pictures.var(axis=0).sum()
    assert np.clip(gaussian, 0, 1).var(axis=0).sum() < 0.8 * real
    made = np.clip(restored.records(sums.astype(np.float32), 0), 0, 1)
    assert made.var(axis=0).sum() == pytest.approx(real, rel=0.12)


def test_texture_is_as_large_in_every_class_and_differs_between_records():
    """White noise of a class's own size let a network tell classes by how noisy they are."""
    rng = np.random.default_rng(1)
    sums = [mixed(rng, class_of_pictures(rng, texture)) for texture in (0.05, 0.3)]
    bases, classes = restored_classes(sums)
    sizes = []
    for part, restored in zip(sums, classes, strict=True):
        records = restored.records(part.astype(np.float32), 0)
        rest = (records - restored.base.offset) / restored.reach
        rest = rest - rest @ restored.base.directions @ restored.base.directions.T
        sizes.append(np.square(rest).sum(axis=1))
    assert bases[1].rest > 3 * bases[0].rest
    assert np.mean(sizes[0]) == pytest.approx(np.mean(sizes[1]), rel=0.15)
    assert all(np.quantile(size, 0.9) > 20 * np.quantile(size, 0.1) for size in sizes)


def test_a_record_is_the_same_wherever_reading_starts():
    rng = np.random.default_rng(2)
    sums = mixed(rng, class_of_pictures(rng, 0.1)).astype(np.float32)
    _, (restored,) = restored_classes([sums])
    np.testing.assert_allclose(restored.records(sums[300:400], 300), restored.records(sums, 0)[300:400], atol=1e-5)


def test_the_numbers_of_records_are_spread_as_a_normal_sample():
    quantiles = normal_quantiles(17, 5000)
    assert quantiles.mean() == pytest.approx(0, abs=0.01)
    assert np.square(quantiles).mean() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(("size", "directions"), [(50.0, 17), (38.0, 6), (30.0, 25)])
def test_the_norm_of_whole_records_is_told_from_that_of_cut_ones(size, directions):
    squared = size * np.random.default_rng(3).chisquare(directions, 200_000) / directions
    cut = float(np.minimum(squared, 36.0).mean())
    assert whole_energy(cut, 36.0, directions) == pytest.approx(size, rel=0.02)


def test_norms_that_are_all_cut_tell_nothing_and_grow_by_the_most_allowed():
    assert whole_energy(36.0, 36.0, 20) == pytest.approx(72.0)


def test_variance_of_cut_normal_numbers():
    mean, std = np.array([-0.5, 0.1, 0.5, 0.9, 1.6, 0.3]), np.array([0.4, 0.5, 0.1, 2.0, 0.3, 0.0])
    drawn = np.clip(mean + std * np.random.default_rng(4).normal(size=(400_000, 6)), 0.0, 1.0)
    np.testing.assert_allclose(cut_variance(mean, std, np.zeros(6), np.ones(6)), drawn.var(axis=0), atol=2e-3)


def test_texture_falls_off_with_frequency():
    texture = image_texture(8, 8)
    np.testing.assert_allclose(texture, texture.T, atol=1e-12)
    powers = np.square(image_basis(8, 8) @ texture).sum(axis=1)
    assert powers[0] == pytest.approx(1.0)
    assert (powers[1:] < powers[0]).all()


def test_an_empty_class_has_no_records_and_spoils_no_other():
    rng = np.random.default_rng(5)
    sums = mixed(rng, class_of_pictures(rng, 0.1))
    _, (full, empty) = restored_classes([sums, sums[:0]])
    assert empty.records(sums[:0].astype(np.float32), 0).shape == (0, SIDE * SIDE)
    assert np.isfinite(full.records(sums.astype(np.float32), 0)).all()
