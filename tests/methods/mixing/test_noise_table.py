"""The table sampler against exact probabilities, against mpmath and against the sampler it speeds up."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from understudy.pipelines.privacy.noise.bulk import _WINDOW, gaussian_table, table_gaussian
from understudy.pipelines.privacy.noise.rounded import _certified_magnitudes


@pytest.mark.parametrize("sigma", [0.4, 3.0, 1024.0, 16384.0])
def test_thresholds_are_within_the_window_of_the_exact_ones(sigma):
    cut = gaussian_table(sigma).cut
    picks = np.unique(np.linspace(0, len(cut) - 1, 200).astype(int))
    with mpmath.workdps(40):
        for k in picks:
            exact = mpmath.mpf(2) ** 32 * mpmath.erfc((k + mpmath.mpf("0.5")) / sigma / mpmath.sqrt(2)) / 2
            assert abs(exact - (int(cut[k]) + mpmath.mpf("0.5"))) < 0.5 + 0.01
    assert _WINDOW >= 1


def test_the_table_covers_every_word(seeded):
    for sigma in (0.3, 1.0, 500.0):
        table = gaussian_table(sigma)
        halves = np.array([0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1], dtype=np.uint32)
        flat = np.zeros(6, dtype=np.int32)
        unsure = table.add(flat, halves.view(np.uint64))
        assert {0, 3} <= set(unsure.tolist())  # the far tail is never decided by the table
        assert table.resolve(table.halves(halves.view(np.uint64), unsure), seeded(1)).shape == unsure.shape


@pytest.mark.parametrize("sigma", [0.8, 37.0, 1024.0])
def test_decisions_agree_with_the_certified_inversion_for_every_continuation(sigma, seeded):
    words = seeded(7).words(20_000)
    flat = np.zeros(40_000, dtype=np.int32)
    unsure = gaussian_table(sigma).add(flat, words)
    decided = np.setdiff1d(np.arange(40_000), unsure)
    halves = words.view(np.uint32)[decided].astype(np.uint64)
    tails = (halves & np.uint64(2**31 - 1)) << np.uint64(32)
    for ending in (np.uint64(0), np.uint64(2**32 - 1)):
        magnitude, certain = _certified_magnitudes(tails | ending, sigma)
        signed = np.where(halves >> np.uint64(31), -magnitude, magnitude)
        np.testing.assert_array_equal(signed[certain], flat[decided][certain])


def test_frequencies_match_the_exact_probabilities(seeded):
    sigma = 2.5
    draws = table_gaussian(400_000, sigma, seeded(3))
    values = np.arange(-9, 10)
    edges = stats.norm.cdf((np.append(values, 10) - 0.5) / sigma)
    expected = np.append(np.diff(edges), 1 - (edges[-1] - edges[0])) * len(draws)
    counted = np.array([(draws == v).sum() for v in values])
    observed = np.append(counted, len(draws) - counted.sum())
    assert stats.chisquare(observed, expected).pvalue > 1e-4


@pytest.mark.parametrize(("claimed", "accepted"), [(1.0, True), (0.98, False), (1.02, False)])
def test_variance_tells_a_scale_two_percent_off(claimed, accepted, seeded):
    sigma = 1024.0
    draws = table_gaussian(300_000, sigma, seeded(5)).astype(float)
    variance = (claimed * sigma) ** 2 + 1 / 12
    score = (np.square(draws).mean() / variance - 1) / np.sqrt(2 / len(draws))
    assert bool(abs(score) < 4) is accepted


def test_large_sigmas_fall_back_to_the_general_sampler(seeded):
    draws = table_gaussian((50, 40), 1e6, seeded(2))
    assert draws.shape == (50, 40)
    assert 0.9e6 < draws.std() < 1.1e6
    with pytest.raises(ValueError, match="table serves"):
        gaussian_table(1e6)


@pytest.mark.parametrize("sigma", [0.3, 2.0, 60.0, 1024.0, 16384.0])
def test_one_comparison_decides_as_the_search_does(sigma, seeded):
    """Words at, and just beside, every kind of boundary: of cells, of thresholds, of the range."""
    table = gaussian_table(sigma)
    cut = table.cut[:: max(1, len(table.cut) // 500)].astype(np.int64)
    edges = np.arange(0, 2**31, 2**16, dtype=np.int64)[::37]
    near = (np.concatenate([cut, edges, [2**31 - 1]])[:, None] + np.arange(-3, 4)).ravel()
    w = np.unique(near[(near >= 0) & (near < 2**31)])
    w = np.concatenate([w, seeded(9).words(5001) >> np.uint64(33)]).astype(np.int64)
    w = np.append(w, 0) if len(w) % 2 else w
    flat = np.zeros(len(w), dtype=np.int32)
    unsure = table.add(flat, w.astype(np.uint32).view(np.uint64))
    decided = np.setdiff1d(np.arange(len(w)), unsure)
    least = np.searchsorted(-(table.cut.astype(np.int64) - _WINDOW), -w, side="left")
    np.testing.assert_array_equal(flat[decided], least[decided])
    np.testing.assert_array_equal(unsure, np.flatnonzero(w <= table.cut[least] + _WINDOW))
