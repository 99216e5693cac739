"""The Frechet distance against closed forms, and its extractors."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from benchmarks.papers.frechet import extractor_from_file, frechet_distance, trained_extractor


def brute_force(real, made):
    first, second = np.cov(real.T), np.cov(made.T)
    cross = np.real(sqrtm(first @ second))
    return np.square(real.mean(0) - made.mean(0)).sum() + np.trace(first + second - 2 * cross)


def test_it_is_the_distance_of_two_gaussians():
    rng = np.random.default_rng(0)
    real = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5))
    made = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5)) + 0.5
    assert frechet_distance(real, made) == pytest.approx(brute_force(real, made), rel=1e-6)
    assert frechet_distance(real, made) == pytest.approx(frechet_distance(made, real), rel=1e-9)


def test_a_set_is_nowhere_from_itself_and_a_shift_is_its_square():
    real = np.random.default_rng(1).normal(size=(100, 3))
    assert frechet_distance(real, real) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(real, real + 2.0) == pytest.approx(12.0)


def test_features_that_never_vary_do_not_matter():
    real = np.random.default_rng(2).normal(size=(50, 2))
    flat = np.concatenate([real, np.zeros((50, 1))], axis=1)
    assert frechet_distance(flat, flat + np.array([0, 0, 3])) == pytest.approx(9.0)


def test_one_record_is_not_enough():
    with pytest.raises(ValueError, match="at least two"):
        frechet_distance(np.zeros((1, 2)), np.zeros((5, 2)))


def test_the_networks_that_make_features(tmp_path):
    rng = np.random.default_rng(3)
    pictures, labels = rng.random((64, 8, 8), dtype=np.float32), rng.integers(0, 2, 64)
    own = trained_extractor(pictures, labels, 2)
    assert own(pictures[..., None]).shape == (64, 100)
    any_number = {"input": {0: torch.export.Dim("n", min=2)}}
    program = torch.export.export(torch.nn.AvgPool2d(4), (torch.zeros(5, 1, 8, 8),), dynamic_shapes=any_number)
    torch.export.save(program, tmp_path / "network.pt2")
    given = extractor_from_file(tmp_path / "network.pt2")
    np.testing.assert_allclose(
        given(pictures[..., None]), pictures.reshape(64, 2, 4, 2, 4).mean(axis=(2, 4)).reshape(64, 4), rtol=1e-5
    )
