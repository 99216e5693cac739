"""How a spec states a rule that every published row obeys; `rules` is what is done with it."""

from __future__ import annotations

import datetime as dt

from pydantic import ConfigDict, Field, model_validator

from understudy.pipelines.spec.public import Public


class Range(Public):
    """Values from `min` to `max`, both included; either may be left out."""

    min: float | dt.date | dt.datetime | None = Field(None, description="the lowest value of the range")
    max: float | dt.date | dt.datetime | None = Field(None, description="the highest value of the range")


Selection = Range | tuple[str | int | bool | None, ...]


class Rule(Public):
    """Exactly one of `forbid`, `if` with `then`, or `order`."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)  # what is stored says `if_`

    forbid: dict[str, Selection] | None = Field(None, description="values that never occur together")
    if_: dict[str, Selection] | None = Field(None, alias="if", description="when all of these hold ...")
    then: dict[str, Selection] | None = Field(None, description="... all of these hold too")
    order: tuple[str, ...] | None = Field(None, min_length=2, max_length=2, description="first <= second; null is free")

    @model_validator(mode="after")
    def _one_kind(self) -> Rule:
        given = (self.forbid is not None, self.if_ is not None, self.order is not None)
        if sum(given) != 1 or (self.if_ is None) != (self.then is None):
            raise ValueError("a rule is one of `forbid`, `if` with `then`, or `order`")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(self.forbid or {}), *(self.if_ or {}), *(self.then or {}), *(self.order or ())]))

    def __str__(self) -> str:
        if self.order:
            return f"{self.order[0]} <= {self.order[1]}"
        if self.forbid:
            return f"forbidden {' and '.join(self.forbid)}"
        return f"{' and '.join(self.if_ or {})} implies {' and '.join(self.then or {})}"
