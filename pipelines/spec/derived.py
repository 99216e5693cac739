"""Columns that are made of others: moments after other moments, sums and ratios, and what a public table says.

`Column` is every kind of column that a spec may declare; `tagged` gives a column its type where its keys tell it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from understudy.pipelines.spec.columns import IdentifierColumn, ModelledColumn, TensorColumn
from understudy.pipelines.spec.expressions import Expression
from understudy.pipelines.spec.open import OpenColumn, opened
from understudy.pipelines.spec.public import MAX_BINS, BinCount, Public

SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"([1-9][0-9]{0,8}) ?(s|min|h|d|w)")


class LaterColumn(Public):
    """A datetime that never lies before another one: its distance is modelled, from nothing to `up_to`, clipped."""

    type: Literal["later"]
    after: str = Field(min_length=1, max_length=200, description="the datetime column that it follows")
    up_to: int = Field(ge=1, le=3_153_600_000, description="the longest distance: 90s, 45min, 6h, 30d, 8w")
    bins: BinCount = Field(32, description="of the distance: straight near nothing, then wider by a factor")
    resolution: Literal["second", "minute", "hour", "day"] = Field("second", description="of the distance")
    nullable: bool = False

    @field_validator("up_to", mode="before")
    @classmethod
    def _in_seconds(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        found = _SPAN.fullmatch(given.strip())
        if found is None:
            raise ValueError("a distance is written as 90s, 45min, 6h, 30d or 8w")
        return int(found.group(1)) * SECONDS[found.group(2)]


class DerivedColumn(Public):
    """Computed from other published columns in every row; never measured."""

    type: Literal["derived"]
    derive: str = Field(min_length=1, max_length=500, description="such as fare + tip + tolls")
    decimals: int | None = Field(None, ge=0, le=12, description="round to this many decimals")

    @field_validator("derive")
    @classmethod
    def _is_one(cls, text: str) -> str:
        return Expression(text).text

    @property
    def expression(self) -> Expression:
        return Expression(self.derive)


class LookupColumn(Public):
    """What a public table says of another column's value; never measured."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)  # what is stored says `from_`

    type: Literal["lookup"]
    from_: str = Field(alias="from", min_length=1, max_length=200, description="the category column that is looked up")
    table: dict[str, str | int] = Field(
        max_length=MAX_BINS, description="value: what it means; or a CSV file, one column of which is named as `from`"
    )

    @field_validator("table", mode="before")
    @classmethod
    def _is_there(cls, table: Any) -> Any:
        if isinstance(table, str):
            raise ValueError("a file is read with the spec's own file, or from the directory Python runs in")
        return {str(key): value for key, value in table.items()} if isinstance(table, dict) else table


MadeColumn = DerivedColumn | LookupColumn
Column = Annotated[
    ModelledColumn | TensorColumn | IdentifierColumn | LaterColumn | DerivedColumn | LookupColumn | OpenColumn,
    Field(discriminator="type"),
]


def tagged(column: Any) -> Any:
    """{derive: ...}, {from: ..., table: ...} and {type: datetime, after: ...} say by their keys what they are, as does
    whatever holds `discover`."""
    if not isinstance(column, dict):
        return column
    if "after" in column and column.get("type") == "datetime":
        return {**column, "type": "later"}
    if "type" in column:
        return opened(column)
    if "derive" in column:
        return {**column, "type": "derived"}
    return {**column, "type": "lookup"} if "from" in column and "table" in column else column
