"""What every method owes before it may see a row, as tests. Subclass `MethodContract` and name the method."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

from understudy.pipelines.methods.base import Method, MethodPlan
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import from_json, to_json
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.testing.tables import COLUMNS, ENTITY, spec_of_columns


class MethodContract(ABC):
    name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    columns: ClassVar[dict[str, dict[str, Any]]] = COLUMNS
    entity: ClassVar[str | None] = ENTITY

    @property
    def spec(self) -> ReleaseSpec:
        plain = spec_of_columns(self.columns, self.entity)
        return type(plain).model_validate(
            {**plain.model_dump(mode="json"), "method": {"name": self.name, **self.options}}
        )

    def plan(self) -> tuple[Method[Any], MethodPlan[Any]]:
        method = method_named(self.name)
        return method, method.plan(self.spec, TableDomain.of(self.spec))

    def test_it_is_found_by_its_name(self) -> None:
        assert method_named(self.name).name == self.name

    def test_a_plan_is_a_value(self) -> None:
        """Two plans of one spec are the same charges: what was paid for is found again."""
        (_, one), (_, other) = self.plan(), self.plan()
        assert one.method == self.name
        assert one.charges
        assert [(charge.stage, to_json(charge.event)) for charge in one.charges] == [
            (charge.stage, to_json(charge.event)) for charge in other.charges
        ]
        assert len({charge.stage for charge in one.charges}) == len(one.charges)

    def test_what_is_charged_stays_within_the_budget_of_the_spec(self) -> None:
        _, plan = self.plan()
        privacy = self.spec.privacy
        events = [from_json(to_json(charge.event)) for charge in plan.charges]
        loss = composed_loss(events, float(privacy.delta), privacy.relation)
        assert loss.epsilon <= float(privacy.epsilon) + 1e-9

    def test_noise_is_told_before_it_is_drawn(self) -> None:
        _, plan = self.plan()
        assert plan.noise
        assert all(line.std > 0 and line.numbers > 0 for line in plan.noise)
        assert plan.steps
