"""The rounded Gaussian against its exact probabilities, an independent sampler, and planted mistakes."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import chi2, norm

from understudy.pipelines.privacy.noise import rounded as noise
from understudy.pipelines.privacy.noise.rounded import (
    discrete_gaussian,
    operating_system_randomness,
    rounded_gaussian,
)


class Replayed:
    """A source that returns given words and then pseudo-random ones; for tests only."""

    def __init__(self, seed: int, first: list[int] | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.first = list(first or [])
        self.asked = 0

    def words(self, count: int) -> np.ndarray:
        self.asked += count
        given = [self.first.pop(0) for _ in range(min(count, len(self.first)))]
        fresh = self.rng.integers(0, 2**64, count - len(given), dtype=np.uint64)
        return np.concatenate([np.array(given, dtype=np.uint64), fresh])


def chi_square_p(draws: np.ndarray, sigma: float) -> float:
    """p-value of the draws against Phi((k+1/2)/sigma) - Phi((k-1/2)/sigma), rare cells pooled into the tails."""
    reach = max(1, int(3.2 * sigma))
    edges = np.arange(-reach, reach + 2) - 0.5
    probabilities = np.diff(np.concatenate([[0.0], norm.cdf(edges / sigma), [1.0]]))
    counts = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    expected = probabilities * len(draws)
    kept = expected > 5
    statistic = ((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    return float(chi2.sf(statistic, kept.sum() - 1))


@pytest.mark.parametrize("sigma", [0.25, 0.7, 3.73, 40.0])
def test_draws_follow_the_exact_probabilities(sigma: float) -> None:
    draws = rounded_gaussian(200_000, sigma, Replayed(1))
    assert draws.dtype == np.int64
    assert chi_square_p(draws, sigma) > 1e-4


@pytest.mark.parametrize("wrong", [0.98, 1.02])
def test_the_test_itself_rejects_a_scale_two_percent_off(wrong: float) -> None:
    assert chi_square_p(rounded_gaussian(200_000, 3.73 * wrong, Replayed(2)), 3.73) < 1e-4


def test_variance_is_that_of_a_rounded_gaussian() -> None:
    draws = rounded_gaussian(400_000, 5.0, operating_system_randomness())
    assert draws.var() == pytest.approx(25 + 1 / 12, rel=0.02)
    assert abs(draws.mean()) < 0.05


def test_agrees_with_opendp_at_large_sigma() -> None:
    """Rounded and discrete Gaussians coincide in the limit; OpenDP is the independent oracle."""
    ours = rounded_gaussian(4_000, 25.0, operating_system_randomness())
    theirs = discrete_gaussian(4_000, 25.0, operating_system_randomness())
    assert theirs.std() == pytest.approx(25, rel=0.06)
    assert ours.std() == pytest.approx(theirs.std(), rel=0.08)


def test_opendp_refuses_injected_randomness() -> None:
    with pytest.raises(TypeError, match="operating system"):
        discrete_gaussian(3, 1.0, Replayed(0))


def test_every_certified_draw_equals_the_exact_one() -> None:
    """The fast path may only skip arithmetic it can do without: compare with mpmath, tails and boundaries included."""
    rng = np.random.default_rng(5)
    tails = np.array([1, 2, 3, 1000, 2**20, 2**40, 2**62, 2**63 - 1], dtype=np.uint64)
    words = np.concatenate([tails, rng.integers(1, 2**63, 300, dtype=np.uint64)])
    for sigma in (0.3, 8.95, 1000.0):
        fast, certain = noise._certified_magnitudes(words, sigma)
        for word, value in zip(words[certain], fast[certain], strict=True):
            with mpmath.workprec(200):
                low, high = mpmath.mpf(int(word)) / 2**64, mpmath.mpf(int(word) + 1) / 2**64
                assert noise._magnitude_at(low, sigma) == noise._magnitude_at(high, sigma) == value


def test_ambiguous_words_are_resolved_exactly_with_more_bits() -> None:
    """Put the word's interval across the boundary 0.5 of sigma 1: only further bits can decide."""
    with mpmath.workdps(60):
        word = int(mpmath.floor(mpmath.mpf(2) ** 64 * mpmath.erfc(mpmath.mpf("0.5") / mpmath.sqrt(2)) / 2))
    _, certain = noise._certified_magnitudes(np.array([word], dtype=np.uint64), 1.0)
    assert not certain[0]
    smallest_tail, largest_tail = Replayed(0, first=[0]), Replayed(0, first=[2**64 - 1])
    assert noise._exact_magnitude(word, 1.0, smallest_tail) == 1  # p just below the threshold: farther out
    assert noise._exact_magnitude(word, 1.0, largest_tail) == 0


def test_the_tail_has_no_end() -> None:
    """A word of zero is the far tail: it is resolved, not truncated."""
    far = noise._exact_magnitude(0, 10.0, Replayed(0, first=[0, 12345]))
    assert far > 10 * 12


def test_floating_point_inversion_is_far_better_than_the_margin_assumes() -> None:
    for exponent in np.linspace(-1.01, -300, 60):
        p = 10.0**exponent
        with mpmath.workdps(40):
            exact = noise._tail_inverse(mpmath.mpf(p))
            assert abs(-ndtri(p) - exact) < 1e-13 * (1 + exact)


def test_production_randomness_takes_no_seed_and_repeats_nothing() -> None:
    first, second = (operating_system_randomness().words(4) for _ in range(2))
    assert not np.array_equal(first, second)
    with pytest.raises(TypeError):
        operating_system_randomness(7)  # type: ignore[call-arg]


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf"), 2.0**50])
def test_impossible_scales_are_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma"):
        rounded_gaussian(3, sigma, operating_system_randomness())


def test_long_requests_are_the_key_stream_of_aes_256() -> None:
    """The known answer for the zero key; a request longer than one piece goes on counting."""
    known = np.frombuffer(bytes.fromhex("dc95c078a2408989ad48a21492842087"), dtype=np.uint64)
    np.testing.assert_array_equal(noise._stretched(bytes(32), 600)[:2], known)
    long = noise._stretched(bytes(32), (2 << 20) // 8 + 3)
    np.testing.assert_array_equal(noise._stretched(bytes(32), (1 << 20) // 8 + 77), long[: (1 << 20) // 8 + 77])
    assert len(np.unique(long)) == len(long)


def test_every_long_request_has_a_key_of_its_own_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []

    def drawn(count: int) -> bytes:
        keys.append(bytes([len(keys)]) * count)
        return keys[-1]

    source = operating_system_randomness()
    monkeypatch.setattr(noise.os, "urandom", drawn)
    first, second = source.words(1000), source.words(1000)
    assert [len(key) for key in keys] == [32, 32]
    assert not np.intersect1d(first, second).size
    assert not vars(source)  # no state for a fork or a retry to use twice
    source.words(3)
    assert len(keys[-1]) == 24  # short ones are the operating system's own words
