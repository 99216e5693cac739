from __future__ import annotations

from itertools import combinations

from tests.table.coding.strategies import DOMAIN
from understudy.pipelines.counting.estimate import estimate_counting
from understudy.pipelines.privacy.relation import Unit

PAIRS = list(combinations(range(len(DOMAIN.columns)), 2))


def test_more_work_is_estimated_to_take_longer():
    base = estimate_counting(DOMAIN, PAIRS, Unit(), 10**7, 2)
    assert estimate_counting(DOMAIN, PAIRS, Unit(), 10**8, 2).seconds > 9 * base.seconds
    assert estimate_counting(DOMAIN, PAIRS[:5], Unit(), 10**7, 2).seconds < base.seconds
    assert estimate_counting(DOMAIN, PAIRS, Unit("who", 3), 10**7, 2).seconds > base.seconds
    alone = estimate_counting(DOMAIN, PAIRS, Unit(), 10**7, 1)
    assert alone.seconds == alone.core_seconds < base.core_seconds  # each core has memory of its own


def test_memory_does_not_grow_with_rows_unless_entities_are_bounded():
    few, many = (estimate_counting(DOMAIN, PAIRS, Unit(), rows, 2).peak_mb for rows in (10**6, 10**9))
    assert few == many
    bounded = estimate_counting(DOMAIN, PAIRS, Unit("who", 3), 10**8, 2)
    assert bounded.passes > 2
    assert bounded.peak_mb > few


def test_an_empty_table_is_estimated_too():
    found = estimate_counting(DOMAIN, PAIRS, Unit("who", 1), 0, 2)
    assert 0 < found.seconds < 1
    assert found.peak_mb > 0
