"""Attacks that people fear: they work where noise is left out, stay under their ceilings where it is not, and an alarm
goes off where noise is far too small."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.special import ndtr

from understudy.pipelines.auditing.alarms import Alarm, best_right, sounded
from understudy.pipelines.auditing.cases import planned_case
from understudy.pipelines.counting.residuals import ResidualNoise

CASE = "privpgd, three columns"


def test_with_noise_nobody_is_found_more_often_than_may_be() -> None:
    alarms, near = sounded(CASE, "1", 8)
    assert [each.attack for each in alarms] == ["membership, numbers", "membership, rows", "attribute", "linkage"]
    assert all(each.holds for each in alarms)
    assert alarms[0].ceiling == pytest.approx(float(ndtr(1 / 4.2247 / 2)), abs=0.01)
    assert 0 <= near.nearer <= 1


def test_without_noise_the_person_is_found_and_similarity_says_nothing_of_it() -> None:
    alarms, near = sounded(CASE, "none", 8)
    found = {each.attack: each for each in alarms}
    assert found["membership, numbers"].rate == 1
    assert found["linkage"].rate > 0.6
    assert found["membership, numbers"].ceiling == 1
    assert 0.3 < near.nearer < 0.75


def test_an_alarm_goes_off_where_the_noise_is_a_twentieth(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = ResidualNoise.draw

    def quiet(noise: ResidualNoise, exact: Any, randomness: Any) -> Any:
        return draw(replace(noise, stds=tuple(std / 20 for std in noise.stds)), exact, randomness)

    monkeypatch.setattr(ResidualNoise, "draw", quiet)
    alarms, _ = sounded(CASE, "1", 12)
    assert not alarms[0].holds
    assert not alarms[3].holds


def test_a_ceiling_is_that_of_the_trade_off() -> None:
    planned = planned_case("gaussian, fixed centre", "10")
    assert best_right(planned) == pytest.approx(float(ndtr(1.8481 / 2)), abs=0.01)


def test_chance_alone_is_no_alarm() -> None:
    assert Alarm("x", "1", "membership", 20, 14, 0.55).holds
    assert not Alarm("x", "1", "membership", 200, 170, 0.55).holds
