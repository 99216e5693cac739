"""Who is protected, how well, and which account pays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from understudy.pipelines.privacy.accounting import calibrate_gaussian
from understudy.pipelines.privacy.curves import gaussian_epsilon
from understudy.pipelines.privacy.ledger.names import account_name_problem
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.privacy.rounding import planned
from understudy.pipelines.spec.public import Public, later


class UnitSpec(Public):
    entity: str | None = Field(None, description="column that says whose row it is; omit it to protect single rows")
    max_rows: int = Field(1, ge=1, le=1_000_000, description="rows kept for one entity; the rest are dropped")
    ids: Literal["text"] | None = Field(
        None,
        description="text: ids are compared letter by letter. Otherwise blanks around them do not count and texts that "
        "are plain numbers are numbers, so that 7, 7.0 and 07 are one entity",
        exclude_if=lambda ids: ids is None,  # specs older than this key keep their hash
    )

    columns: tuple[str, ...] = later(
        (),
        max_length=2000,
        description="columns that are constant for an entity: the copy keeps entities, with fresh ids",
    )
    order_by: str | None = later(
        description="the date or number by which an entity's rows come one after the other: the copy keeps entities"
    )

    @property
    def keeps_entities(self) -> bool:
        """Whether rows of a flat table are copied as those of an entity."""
        return bool(self.columns) or self.order_by is not None

    @model_validator(mode="after")
    def _row_unit(self) -> UnitSpec:
        if self.entity is None and self.keeps_entities:
            raise ValueError("unit.columns and unit.order_by are of an entity; name its column as unit.entity")
        if self.entity is None and self.ids is not None:
            raise ValueError("unit.ids says how an entity column is read; name it as unit.entity or drop ids")
        if self.entity is None and self.max_rows != 1:
            raise ValueError("max_rows needs an entity column; name it as unit.entity or drop max_rows")
        return self


class DiscoverySpec(Public):
    """What is set aside of the budget for columns that are left open, and how long what was found stays."""

    share: float = Field(0.2, gt=0, le=0.9, description="part of the budget, in squared noise, for what is left open")
    delta: float = Field(0.1, gt=0, le=0.9, description="part of delta: that a value of one alone is listed")
    every: Literal["month", "quarter", "year"] | None = Field(
        None, description="buy anew for the first snapshot of each period; left out: what was found stays"
    )


class PrivacySpec(Public):
    account: str = Field(description="ledger account that pays")
    relation: Relation = Field(
        Relation.ADD_REMOVE, description="neighbours differ in one unit more or less, or in one unit changed"
    )
    unit: UnitSpec = Field(
        UnitSpec(),
        description="whose presence is hidden: a row, or an entity with its rows; of several tables: the root's name",
        json_schema_extra=lambda schema: schema.update(anyOf=[{"$ref": schema.pop("$ref")}, {"type": "string"}]),
    )
    epsilon: Decimal = Field(gt=0, le=100, description="what the release may cost; smaller is more private and noisier")
    delta: Decimal = Field(gt=0, lt=1, description="far below one over the number of entities, such as 1e-6")
    noise: Literal["rounded", "opendp"] = Field("rounded", description="sampler of the integer Gaussian noise")
    quality: float | None = Field(
        None,
        gt=0,
        le=0.5,
        description="privpgd: part of the budget, such as 0.02, that tells how much of each column was understood, "
        "null, unreadable, out of range or not listed",
        exclude_if=lambda share: share is None,  # specs older than this key keep their hash and their event
    )

    discovery: DiscoverySpec | None = later(
        description="where columns are left open: the part of the budget for it (0.2), or {share, delta, every}",
        json_schema_extra=lambda schema: schema["anyOf"].insert(0, {"type": "number"}),
    )

    @field_validator("unit", mode="before")
    @classmethod
    def _root_alone(cls, given: Any) -> Any:
        return {"entity": given} if isinstance(given, str) else given

    @field_validator("discovery", mode="before")
    @classmethod
    def _share_alone(cls, given: Any) -> Any:
        return {"share": given} if isinstance(given, int | float) and not isinstance(given, bool) else given

    @field_validator("epsilon", "delta")
    @classmethod
    def _one_spelling(cls, amount: Decimal) -> Decimal:
        return amount.normalize()  # 1, 1.0 and 1e0 are one budget and must have one hash

    @field_validator("account")
    @classmethod
    def _account_name(cls, account: str) -> str:
        if (problem := account_name_problem(account)) is not None:
            raise ValueError(problem)
        return account

    @property
    def budget(self) -> Budget:
        """Of the measurement: all of it, or what the release's own discovery leaves."""
        whole = Budget(self.epsilon, self.delta)
        return whole if self.discovery is None else split_budget(whole, self.discovery).rest

    @property
    def protected_unit(self) -> Unit:
        return Unit(self.unit.entity, self.unit.max_rows, self.unit.ids == "text")


@dataclass(frozen=True)
class SplitBudget:
    """A release's budget in two: noise and delta of its discovery, and what is left for the measurement.

    mu of the whole is that of its epsilon at delta without discovery's own part. Discovery gets `share` of mu^2, the
    measurement the rest, and an epsilon that is rounded down: together they are within the whole, as the ledger and the
    manifest find by composing their events.
    """

    noise_multiplier: float
    own_delta: float
    rest: Budget


@lru_cache(maxsize=64)
def split_budget(whole: Budget, discovery: DiscoverySpec) -> SplitBudget:
    own = (whole.delta * Decimal(repr(discovery.delta))).normalize()
    left = whole.delta - own
    multiplier = calibrate_gaussian(Budget(whole.epsilon, left))
    epsilon = Decimal(repr(gaussian_epsilon(math.sqrt(1 - discovery.share) / multiplier, float(left))))
    rest = epsilon.quantize(Decimal("1e-6"), ROUND_DOWN) if epsilon > Decimal("1e-3") else epsilon
    return SplitBudget(planned(multiplier / math.sqrt(discovery.share)), float(own), Budget(rest, left))
