"""Columns of which something is left open: how they are said, refused and filled in by assumption."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Approximate, Gaussian
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.open import OpenColumn
from understudy.pipelines.spec.protection import DiscoverySpec, split_budget
from understudy.pipelines.spec.reading import parse_spec, spec_of
from understudy.pipelines.table.domain import TableDomain

OPEN: list[tuple[dict[str, Any], set[str]]] = [
    ({"type": "discover"}, {"kind"}),
    ({"type": "discover", "nullable": True, "most": 20}, {"kind"}),
    ({"type": "category", "values": "discover", "nullable": True}, {"values"}),
    ({"type": "category", "values": ["a", "b"], "more": "discover"}, {"values"}),
    ({"type": "integer", "min": "discover", "max": 120}, {"bounds"}),
    ({"type": "number", "min": "discover", "max": "discover", "bins": "quantiles", "decimal": ","},
     {"bounds", "quantiles"}),
    ({"type": "number", "min": 0, "max": 10, "bins": "auto"}, {"auto"}),
    ({"type": "number", "min": 0, "max": 10, "spikes": "discover"}, {"spikes"}),
    ({"type": "date", "min": "discover", "max": "2030-01-01", "bins": "week"}, {"bounds"}),
    ({"type": "datetime", "min": "discover", "max": "discover", "zone": "Europe/Berlin"}, {"bounds"}),
]  # fmt: skip


def spec(column: dict[str, Any], **privacy: Any) -> ReleaseSpec:
    return spec_of({
        "name": "t", "source": {"uri": "t.csv", "snapshot": "s"}, "publish": {"to": "o"},
        "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6, **privacy}, "columns": {"x": column},
    })  # fmt: skip


@pytest.mark.parametrize(("column", "asks"), OPEN)
def test_what_is_left_open_is_recognised_and_kept_as_it_was_said(column: dict[str, Any], asks: set[str]) -> None:
    read = spec(column)
    found = read.columns["x"]
    assert isinstance(found, OpenColumn)
    assert found.asks == asks
    again = ReleaseSpec.model_validate(read.model_dump(mode="json"))
    assert again.hash == read.hash
    ReleaseSpec.model_validate({**read.model_dump(), "columns": {"x": found.assumed()}})
    with pytest.raises(ValueError, match="still to be discovered"):
        TableDomain.of(read)


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ({"type": "discover", "min": 3}, "nothing can be said: min"),
        ({"type": "integer", "min": "discover", "max": "x"}, "max"),
        ({"type": "integer", "min": "discover", "max": 5, "wide": 1}, "wide"),
        ({"type": "category", "values": "discover", "most": 0}, "most"),
        ({"type": "number", "min": "discover", "max": 5, "decimal": ";"}, "decimal"),
        ({"type": "integer", "min": "discovered", "max": 5}, "min"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(column: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        spec(column)


def test_it_is_said_in_yaml_with_its_share_as_a_number_or_in_full() -> None:
    text = """
name: t
source: {uri: t.csv, snapshot: s}
publish: {to: o}
privacy: {account: a, epsilon: 1, delta: 1e-6, discovery: 0.3}
columns:
  x: {type: discover}
  y: {type: date, min: 2015-01-01, max: discover}
"""
    read = parse_spec(text)
    assert read.privacy.discovery == DiscoverySpec(share=0.3)
    assert spec({"type": "discover"}, discovery={"share": 0.2, "every": "quarter"}).privacy.discovery == DiscoverySpec(
        share=0.2, every="quarter"
    )
    assert spec({"type": "discover"}).privacy.discovery is None


@pytest.mark.parametrize("epsilon", ["0.05", "1", "5"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_discovery_and_the_rest_are_within_the_whole_budget_and_use_it(epsilon: str, share: float) -> None:
    whole = Budget(epsilon, "1e-6")
    split = split_budget(whole, DiscoverySpec(share=share))
    discovered = Approximate(Gaussian(split.noise_multiplier), split.own_delta)
    rest = _gaussian(split.rest)
    loss = composed_loss([discovered, rest], 1e-6, Relation.ADD_REMOVE)
    assert 0.999 * float(epsilon) <= loss.epsilon <= float(epsilon)


def _gaussian(budget: Budget) -> Gaussian:
    from understudy.pipelines.privacy.accounting import calibrate_gaussian

    return Gaussian(calibrate_gaussian(budget))


def test_the_budget_of_a_measurement_is_what_its_own_discovery_leaves() -> None:
    closed = {"type": "category", "values": ["a"]}
    assert spec(closed).privacy.budget == Budget("1", "0.000001")
    less = spec(closed, discovery=0.2).privacy.budget
    assert 0.85 < float(less.epsilon) < 0.95
    assert float(less.delta) == pytest.approx(9e-7)
