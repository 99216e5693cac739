"""Who enters a mixture: exact rates, exact subsets, and neighbours that share every coin."""

import itertools

import numpy as np
import pytest
from scipy import stats

from understudy.pipelines.privacy.noise.sampling import (
    _certified_gaps,
    _exact_gap,
    fixed_draw,
    poisson_draw,
)


def pairs(draw):
    mixtures = np.repeat(np.arange(len(draw.starts) - 1), np.diff(draw.starts))
    return set(zip(draw.members.tolist(), mixtures.tolist(), strict=True))


def test_every_coin_falls_at_the_rate(seeded):
    records, mixtures, rate = 40, 5000, 0.03
    draw = poisson_draw(records, mixtures, rate, seeded(1))
    by_record = np.bincount(draw.members, minlength=records)
    assert stats.chisquare(by_record, np.full(records, by_record.sum() / records)).pvalue > 1e-4
    sizes = np.diff(draw.starts)
    total = stats.binomtest(int(sizes.sum()), records * mixtures, rate)
    assert total.pvalue > 1e-4
    # a rate 7% off would be seen
    assert stats.binomtest(int(sizes.sum()), records * mixtures, rate * 1.07).pvalue < 1e-4
    expected = stats.binom.pmf(np.arange(5), records, rate) * mixtures
    observed = np.bincount(np.minimum(sizes, 5), minlength=6)
    assert stats.chisquare(observed, np.append(expected, mixtures - expected.sum())).pvalue > 1e-4


@pytest.mark.parametrize("rate", [1e-6, 0.0123, 0.5, 0.999])
def test_certified_gaps_agree_with_exact_arithmetic(rate, seeded):
    words = np.append(seeded(4).words(60), np.array([0, 1, 2**64 - 1], dtype=np.uint64))
    gaps, certain = _certified_gaps(words, rate)
    assert not certain[-3]
    for word, gap in zip(words[certain], gaps[certain], strict=True):
        assert _exact_gap(int(word), rate, 10**12, seeded(9)) == gap
    assert _exact_gap(0, rate, 5, seeded(9)) == 5  # past the last coin nothing matters


def test_degenerate_sizes_need_no_special_case(seeded):
    assert pairs(poisson_draw(3, 2, 1.0, seeded(1))) == set(itertools.product(range(3), range(2)))
    assert pairs(poisson_draw(0, 5, 0.5, seeded(1))) == set()
    with pytest.raises(ValueError, match="rate"):
        poisson_draw(3, 2, 0.0, seeded(1))


@pytest.mark.parametrize("seed", range(10))
def test_poisson_neighbours_share_all_other_coins(seed, replayed):
    one, other = replayed(seed), replayed(seed)
    small = poisson_draw(30, 50, 0.1, one)
    large = poisson_draw(31, 50, 0.1, other)
    assert len(one.calls) == len(other.calls)
    assert {pair for pair in pairs(large) if pair[0] != 30} == pairs(small)


def test_subsets_are_uniform(seeded):
    draw = fixed_draw(5, 20_000, 2, 5, seeded(2))
    members = np.sort(draw.members.reshape(-1, 2), axis=1)
    assert (members[:, 0] < members[:, 1]).all()
    counts = np.bincount(members[:, 0] * 5 + members[:, 1], minlength=25)
    assert stats.chisquare(counts[counts > 0]).pvalue > 1e-4
    assert (counts > 0).sum() == 10


def test_a_small_class_is_filled_up_to_the_minimum(seeded):
    draw = fixed_draw(3, 4000, 4, 10, seeded(3))
    assert draw.members.max() == 9
    real = (draw.members < 3).mean()
    assert abs(real - 0.3) < 0.02
    with pytest.raises(ValueError, match="order"):
        fixed_draw(100, 5, 11, 10, seeded(3))


def test_uniform_integers_are_the_unbiased_ones():
    class Chosen:
        def __init__(self, *batches):
            self.batches = list(batches)

        def words(self, count):
            batch = np.array(self.batches.pop(0), dtype=np.uint64)
            assert len(batch) == count
            return batch

    # 2^64 = 1 mod 3, so of the products word * 3 the one with remainder 0 is rejected: word 0, which is redrawn.
    draw = fixed_draw(3, 2, 1, 3, Chosen([0, 2**63], [2**64 - 1]))
    assert draw.members.tolist() == [2, 1]


@pytest.mark.parametrize("seed", range(5))
def test_fixed_neighbours_share_their_draws_while_the_class_is_filled_up(seed, replayed):
    one, other = replayed(seed), replayed(seed)
    small, large = fixed_draw(6, 40, 3, 9, one), fixed_draw(7, 40, 3, 9, other)
    assert one.calls == other.calls
    np.testing.assert_array_equal(small.members, large.members)


def test_fixed_neighbours_couple_at_one_record():
    """Exhaustive: subsets of 5 without the new record are the subsets of 4, the rest map onto them evenly."""
    small = list(itertools.combinations(range(4), 2))
    large = list(itertools.combinations(range(5), 2))
    without = [subset for subset in large if 4 not in subset]
    assert without == small
    images = [
        tuple(sorted({*subset, spare} - {4}))
        for subset in large
        if 4 in subset
        for spare in set(range(4)) - set(subset)
    ]
    assert sorted(images.count(subset) for subset in small) == [2] * 6
    assert len(large) - len(without) == len(large) * 2 / 5  # the new record enters with probability l / N
