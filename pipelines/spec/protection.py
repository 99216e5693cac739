"""Who is protected, how well, and which account pays."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field, field_validator, model_validator

from understudy.pipelines.privacy.ledger.names import account_name_problem
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.spec.public import Public


class UnitSpec(Public):
    entity: str | None = Field(None, description="column that says whose row it is; omit it to protect single rows")
    max_rows: int = Field(1, ge=1, le=1_000_000, description="rows kept for one entity; the rest are dropped")
    ids: Literal["text"] | None = Field(
        None,
        description="text: ids are compared letter by letter. Otherwise blanks around them do not count and texts that "
        "are plain numbers are numbers, so that 7, 7.0 and 07 are one entity",
        exclude_if=lambda ids: ids is None,  # specs older than this key keep their hash
    )

    @model_validator(mode="after")
    def _row_unit(self) -> UnitSpec:
        if self.entity is None and self.ids is not None:
            raise ValueError("unit.ids says how an entity column is read; name it as unit.entity or drop ids")
        if self.entity is None and self.max_rows != 1:
            raise ValueError("max_rows needs an entity column; name it as unit.entity or drop max_rows")
        return self


class PrivacySpec(Public):
    account: str = Field(description="ledger account that pays")
    relation: Relation = Field(
        Relation.ADD_REMOVE, description="neighbours differ in one unit more or less, or in one unit changed"
    )
    unit: UnitSpec = Field(UnitSpec(), description="whose presence is hidden: a row, or an entity with its rows")
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
        return Budget(self.epsilon, self.delta)

    @property
    def protected_unit(self) -> Unit:
        return Unit(self.unit.entity, self.unit.max_rows, self.unit.ids == "text")
