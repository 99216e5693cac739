"""Restoration: the noise bulk is dropped, what stands above it comes back unbiased."""

import numpy as np
import pytest

from understudy.pipelines.methods.mixing.denoise import (
    ClassMoments,
    image_basis,
    merged,
    moments,
    restorations,
    restored,
    spiked_signal,
)


def test_pure_noise_leaves_no_direction():
    rng = np.random.default_rng(1)
    samples = rng.normal(0, 2.0, (4000, 60))
    values = np.linalg.eigvalsh(np.cov(samples.T))
    assert (spiked_signal(values * 0.97, 2.0, 60 / 4000) == 0).all()


@pytest.mark.parametrize("aspect", [0.01, 0.2])
def test_a_spike_is_recovered_without_its_upward_bias(aspect):
    strong = 1 + np.array([0.8, 2.0, 9.0])  # population eigenvalues in units of the noise
    shown = strong * (1 + aspect / (strong - 1)) * 4.0
    np.testing.assert_allclose(spiked_signal(shown, 2.0, aspect), (strong - 1) * 4.0, rtol=1e-9)


def test_covariance_of_single_records_comes_back_from_mixtures():
    rng = np.random.default_rng(2)
    order, sigma, width = 9.0, 1.0, 12
    true = np.zeros((width, width))
    true[0, 0], true[1, 1], true[0, 1] = 2.0, 1.0, 0.7
    true[1, 0] = true[0, 1]
    root = np.linalg.cholesky(true + 1e-12 * np.eye(width))
    mean = np.linspace(-1, 1, width)
    sums = order * mean + np.sqrt(order) * rng.normal(size=(20_000, width)) @ root.T
    sums = sums + rng.normal(0, sigma, sums.shape)
    found = moments(sums, 1.0, None)
    (only,) = restorations([found], sigma, np.array([order]), None, poisson=False)
    records = restored(only, sums)
    np.testing.assert_allclose(records.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(records.T), true, atol=0.08)


def test_poisson_sums_do_not_count_the_mean_as_spread():
    rng = np.random.default_rng(5)
    order, sigma, width, records = 20.0, 1.0, 6, 4000
    mean = np.array([1.0, -0.5, 0, 0, 0, 0])
    spread = np.diag([0.3, 0.8, 0.6, 0, 0, 0])
    data = mean + rng.normal(size=(records, width)) @ spread
    drawn = (rng.random((6000, records)) < order / records).astype(np.float32)
    sums = drawn @ data.astype(np.float32) + rng.normal(0, sigma, (6000, width))
    (only,) = restorations([moments(sums, 1.0, None)], sigma, np.array([order]), None, poisson=True)
    np.testing.assert_allclose(np.cov(restored(only, sums).T), spread**2, atol=0.06)


def test_spread_without_a_direction_is_kept_in_sum():
    """Records white in 200 directions: none stands above the noise, yet their total variance is right."""
    rng = np.random.default_rng(6)
    order, sigma, width = 10.0, 3.0, 200
    sums = np.sqrt(order) * rng.normal(0, 0.2, (3000, width)) + rng.normal(0, sigma, (3000, width))
    (only,) = restorations([moments(sums, 1.0, None)], sigma, np.array([order]), None, poisson=False)
    assert only.directions.shape[1] < 10
    assert restored(only, sums).var(axis=0).mean() == pytest.approx(0.04, rel=0.25)


def test_an_empty_class_and_one_of_pure_noise_are_restored_to_their_mean():
    rng = np.random.default_rng(3)
    noise = moments(rng.normal(0, 1, (500, 4)), 1.0, None)
    maps = restorations([ClassMoments.empty(4, None), noise], 1.0, np.array([3.0, 3.0]), None, poisson=True)
    assert restored(maps[0], np.zeros((0, 4))).shape == (0, 4)
    assert np.isfinite(restored(maps[1], np.ones((2, 4)))).all()


def test_moments_add_up_over_blocks_and_slices():
    sums = np.random.default_rng(4).integers(-50, 50, (1000, 5)).astype(np.int32)
    whole = moments(sums, 0.5, None)
    parts = merged(moments(sums[:300], 0.5, None, block=7), moments(sums[300:], 0.5, None))
    np.testing.assert_allclose(parts.covariance(None), whole.covariance(None))
    np.testing.assert_allclose(whole.covariance(None), np.cov(sums.T * 0.5, bias=True))


def test_the_image_basis_is_orthonormal_and_keeps_smooth_images():
    basis = image_basis(28, 28)
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
    grid = np.linspace(-1, 1, 28)
    blob = np.exp(-3 * (grid[:, None] ** 2 + grid[None, :] ** 2)).ravel()
    assert np.linalg.norm(blob - basis.T @ (basis @ blob)) < 0.02 * np.linalg.norm(blob)
