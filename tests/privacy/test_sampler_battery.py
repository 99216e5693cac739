"""The samplers and the words below them, at a size where small faults show: a hundred million draws a scale. Slow."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from understudy.pipelines.privacy.noise.bulk import table_gaussian
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness, rounded_gaussian

DRAWS = int(os.environ.get("UNDERSTUDY_BATTERY_DRAWS", 10**8))
CHUNK = 2 * 10**6
RARE = 1e-6  # a p-value below it fails: ten tests at ten nights a year are wrong once in ten thousand years

pytestmark = pytest.mark.slow


def counted(sampler, sigma: float, claimed: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """How often each bin of about sigma/8 was drawn, both tails whole, and what is expected, of `claimed` if given."""
    randomness, width = operating_system_randomness(), max(1, round(sigma / 8))
    most = 5 * round(sigma) + 5
    found = np.zeros(2 * most // width + 3, np.int64)
    for start in range(0, DRAWS, CHUNK):
        drawn = np.asarray(sampler(min(CHUNK, DRAWS - start), sigma, randomness), dtype=np.int64)
        place = np.clip((drawn + most) // width, -1, len(found) - 2) + 1
        found += np.bincount(place, minlength=len(found))
    edges = (np.arange(len(found) - 1) * width - most - 0.5) / (claimed or sigma)
    # Differences of the nearer tail: in the upper half 1 - Phi is the accurate one.
    chances = np.diff(np.where(edges < 0, ndtr(edges), 0.5)) + np.diff(np.where(edges < 0, 0.5, 1 - ndtr(-edges)))
    return found, DRAWS * np.array([ndtr(edges[0]), *chances, ndtr(-edges[-1])])


def p_value(found: np.ndarray, expected: np.ndarray) -> float:
    keep = expected >= 30
    observed = np.append(found[keep], found[~keep].sum())
    wanted = np.append(expected[keep], expected[~keep].sum())
    whole = wanted > 5
    return float(stats.chisquare(observed[whole], wanted[whole] * observed[whole].sum() / wanted[whole].sum()).pvalue)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 37.5, 1024.0, 12_000.0])
@pytest.mark.parametrize("sampler", [rounded_gaussian, table_gaussian], ids=["inversion", "table"])
def test_draws_have_their_exact_probabilities(sampler, sigma: float) -> None:
    found, expected = counted(sampler, sigma)
    assert found.sum() == DRAWS
    assert p_value(found, expected) > RARE


def test_the_test_sees_a_scale_that_is_off_by_five_thousandths() -> None:
    assert p_value(*counted(rounded_gaussian, 1000.0, claimed=1005.0)) < RARE


def test_long_streams_of_words_show_no_pattern() -> None:
    """Bytes, pairs of neighbouring bytes, single bits and their neighbours, in 2^27 bytes of the stretched stream."""
    words = operating_system_randomness().words(2**24)
    octets = words.view(np.uint8)
    single = np.bincount(octets, minlength=256)
    assert stats.chisquare(single).pvalue > RARE
    pairs = np.bincount(octets[:-1].astype(np.int64) * 256 + octets[1:], minlength=65_536)
    assert stats.chisquare(pairs).pvalue > RARE
    bits = np.unpackbits(octets[: 2**24])
    for lag in (1, 2, 8, 31, 32, 64, 128):
        same = int((bits[lag:] == bits[:-lag]).sum())
        count = len(bits) - lag
        assert abs(same - count / 2) < 5 * np.sqrt(count / 4), lag


def test_runs_ranks_birthdays_and_distances_of_the_stream_are_those_of_coins() -> None:
    """Runs of bits (Wald & Wolfowitz), ranks of 32 x 32 matrices of bits and birthday spacings (Marsaglia), and words
    that come twice."""
    words = operating_system_randomness().words(2**22)
    bits = np.unpackbits(words[: 2**20].view(np.uint8))
    ones, count = int(bits.sum()), len(bits)
    expected = 2 * ones * (count - ones) / count + 1
    runs = 1 + int((bits[1:] != bits[:-1]).sum())
    assert abs(runs - expected) < 5 * np.sqrt((expected - 1) * (expected - 2) / (count - 1))
    assert len(np.unique(words)) == len(words)  # 2^43 pairs of 2^64: one in two million
    ranks = np.bincount([rank_of(rows) for rows in words.view(np.uint32)[: 32 * 20_000].reshape(-1, 32)], minlength=33)
    chances = np.array([0.2887880952, 0.5775761902, 0.1283502645])  # of 32, 31 and 30 (Marsaglia & Tsay 1985)
    found = np.array([ranks[32], ranks[31], ranks[30], ranks[:30].sum()])
    assert stats.chisquare(found, 20_000 * np.append(chances, 1 - chances.sum())).pvalue > RARE
    # 512 birthdays in a year of 2^24 days: spacings that come again are Poisson with mean 512^3 / 2^26 = 2.
    years = (words[: 512 * 4000] >> np.uint64(40)).astype(np.int64).reshape(4000, 512)
    spacings = np.sort(np.diff(np.sort(years, axis=1), axis=1), axis=1)
    again = (np.diff(spacings, axis=1) == 0).sum(axis=1)
    counted = np.bincount(np.minimum(again, 8), minlength=9)
    wanted = 4000 * np.append(stats.poisson.pmf(np.arange(8), 2.0), stats.poisson.sf(7, 2.0))
    assert stats.chisquare(counted, wanted).pvalue > RARE


def rank_of(rows: np.ndarray) -> int:
    """Of a square matrix over two elements, its rows as whole numbers."""
    left, rank = [int(row) for row in rows], 0
    while left:
        pivot = left.pop()
        if pivot:
            rank += 1
            low = pivot & -pivot
            left = [row ^ pivot if row & low else row for row in left]
    return rank


def test_processes_that_were_forked_never_share_words() -> None:
    """Neither short requests nor stretched ones: there is no state that a fork could copy."""
    seen: set[bytes] = set()
    randomness = operating_system_randomness()
    randomness.words(1000)
    for _ in range(6):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, randomness.words(4).tobytes() + randomness.words(600)[:4].tobytes())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        seen |= {told[:32], told[32:]}
    seen |= {randomness.words(4).tobytes(), randomness.words(600)[:4].tobytes()}
    assert len(seen) == 14
