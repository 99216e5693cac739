"""Precision and recall against what is known of two made sets."""

import numpy as np
import pytest

from benchmarks.papers.precision_recall import precision_recall


def blob(centre, count, seed):
    return np.random.default_rng(seed).normal(centre, 0.1, (count, 4))


def test_two_samples_of_one_distribution_cover_each_other():
    found = precision_recall(blob(0, 1500, 0), blob(0, 1500, 1))
    assert found.precision > 0.9
    assert found.recall > 0.9


def test_what_looks_like_nothing_real_costs_precision():
    made = np.concatenate([blob(0, 300, 1), blob(9, 100, 2)])
    found = precision_recall(blob(0, 400, 0), made)
    assert found.precision == pytest.approx(0.75, abs=0.06)
    assert found.recall > 0.85


def test_a_mode_that_is_never_made_costs_recall():
    real = np.concatenate([blob(0, 300, 0), blob(9, 100, 3)])
    found = precision_recall(real, blob(0, 400, 1))
    assert found.recall == pytest.approx(0.75, abs=0.06)
    assert found.precision > 0.85


def test_the_support_is_that_of_the_definition():
    """By hand, on a line: reaches of 0, 1, 3 with two neighbours are 3, 2, 3."""
    real, made = np.array([[0.0], [1.0], [3.0]]), np.array([[-2.5], [-3.5], [5.9], [6.1]])
    assert precision_recall(real, made, 2).precision == 0.5


def test_too_few_points_have_no_support():
    with pytest.raises(ValueError, match="more than 3 points"):
        precision_recall(np.zeros((3, 2)), np.zeros((9, 2)))
