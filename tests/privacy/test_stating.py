"""A loss that is told is never below the one that was proven, and what is left never above."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.relation import Relation, Unit
from understudy.pipelines.privacy.stating import at_least, at_most, left_text, spent_text
from understudy.pipelines.publishing.manifest import _sentence
from understudy.pipelines.publishing.pages.charts import budget_gauge

losses = st.floats(1e-12, 1e4)


@settings(deadline=None)
@given(losses, st.integers(1, 9))
def test_what_is_told_bounds_what_holds(loss: float, digits: int) -> None:
    assert Decimal(at_least(loss, digits)) <= Decimal(repr(loss)) <= Decimal(at_most(loss, digits))
    assert Decimal(left_text(loss)) <= Decimal(repr(loss)) <= Decimal(spent_text(loss))
    assert float(at_most(loss, digits)) <= loss * (1 + 10.0 ** (1 - digits))


@pytest.mark.parametrize(
    ("value", "told"), [(0.3, "0.3"), (0.12341, "0.1235"), (0.99999, "1"), (1e-6, "1e-06"), (1.00001e-6, "1.001e-06")]
)
def test_golden(value: float, told: str) -> None:
    assert at_most(value) == told


def test_infinite_losses_are_told() -> None:
    assert (at_most(float("inf")), spent_text(float("inf"))) == ("inf", "inf")


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        (Unit(), "one row"),
        (Unit("patient_id", 4), "one patient_id with at most 4 rows"),
        (Unit("patients"), "one of patients with at most 1 row"),  # a table of its own, or a column: no account knows
    ],
)
def test_units_in_words(unit: Unit, told: str) -> None:
    assert str(unit) == told


def test_the_manifests_sentence_and_the_cards_gauge_round_up() -> None:
    sentence = _sentence(Loss(0.12341, 1.001e-6, "analytic"), Relation.ADD_REMOVE, Unit())
    assert "(0.1235, 1.01e-06)" in sentence
    assert "e^0.1235" in sentence
    assert "spent 1.235 of 3 (before this release: 0.1235)" in budget_gauge(0.12341, 1.23401, "3")
