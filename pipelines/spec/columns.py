"""The column types a spec may declare. Everything here is public: it is typed by a person, never read from the rows."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

MAX_BINS = 10_000
MAX_TENSOR_NUMBERS = 65_536


class Public(BaseModel):
    """A frozen piece of the spec; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class CategoryColumn(Public):
    """One of the listed values. Anything else becomes `other` if declared, else null, else the first value."""

    type: Literal["category"]
    values: tuple[str | int, ...] = Field(min_length=1, max_length=MAX_BINS)
    ordered: bool = Field(False, description="true if the values are listed in a meaningful order")
    other: bool = Field(False, description="true to keep one code for every value not listed")
    nullable: bool = False

    @field_validator("values", mode="before")
    @classmethod
    def _unambiguous(cls, values: Any) -> Any:
        """True and 1.0 would become the whole number 1, and no value of the source would match it."""
        if isinstance(values, list | tuple) and any(isinstance(value, bool | float) for value in values):
            raise ValueError("true, false and 1.0 are not words: put them in quotes, or declare a boolean or a number")
        return values

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: tuple[str | int, ...]) -> tuple[str | int, ...]:
        repeated = sorted(text for text, times in Counter(str(value) for value in values).items() if times > 1)
        if repeated:
            raise ValueError(f"values are listed more than once: {', '.join(repeated[:10])}")
        return values


class IntegerColumn(Public):
    """Whole numbers from `min` to `max`, clipped, in `bins` nearly equal bins (one a value if that is fewer)."""

    type: Literal["integer"]
    min: int = Field(ge=-(2**53), le=2**53)
    max: int = Field(ge=-(2**53), le=2**53)
    bins: int = Field(32, ge=1, le=MAX_BINS)
    scale: Literal["linear", "log"] = "linear"
    nullable: bool = False

    @model_validator(mode="after")
    def _bounds(self) -> IntegerColumn:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}; swap them")
        return self


class NumberColumn(Public):
    """Real numbers from `min` to `max`, clipped, in `bins` bins of equal width on the chosen scale."""

    type: Literal["number"]
    min: float = Field(allow_inf_nan=False)
    max: float = Field(allow_inf_nan=False)
    bins: int = Field(32, ge=1, le=MAX_BINS)
    scale: Literal["linear", "log"] = Field(
        "linear", description="log: bins widen with the distance from min, as log(1 + x - min)"
    )
    decimals: int | None = Field(None, ge=0, le=12, description="round published values to this many decimals")
    nullable: bool = False

    @model_validator(mode="after")
    def _bounds(self) -> NumberColumn:
        if not self.min < self.max:
            raise ValueError(f"min {self.min:g} must be below max {self.max:g}")
        if not math.isfinite(self.max - self.min):
            raise ValueError(f"{self.min:g} to {self.max:g} is wider than any number; give bounds that fit the column")
        return self


class BooleanColumn(Public):
    type: Literal["boolean"]
    nullable: bool = False


def _check_periods(first: dt.date, last: dt.date, bins: str | int) -> None:
    """As many calendar periods as bins of any other kind."""
    months = (last.year - first.year) * 12 + last.month - first.month + 1
    days = (last - first).days + 1
    _check_count({"day": days, "week": days // 7, "month": months, "quarter": months // 3}.get(str(bins), 0), bins)


def _check_count(periods: int, bins: str | int) -> None:
    if periods > MAX_BINS:
        raise ValueError(
            f"min to max has {periods:,} bins of one {bins}, and a column at most {MAX_BINS:,}; choose longer ones"
        )


class DateColumn(Public):
    """Days from `min` to `max`, clipped, in calendar periods or in a number of nearly equal bins."""

    type: Literal["date"]
    min: dt.date
    max: dt.date
    bins: Literal["day", "week", "month", "quarter", "year"] | Annotated[int, Field(ge=1, le=MAX_BINS)] = "month"
    nullable: bool = False

    @model_validator(mode="after")
    def _bounds(self) -> DateColumn:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is after max {self.max}; swap them")
        _check_periods(self.min, self.max, self.bins)
        return self


class DatetimeColumn(Public):
    """Moments from `min` to `max` (UTC if they carry a zone), clipped, in calendar periods or equal bins."""

    type: Literal["datetime"]
    min: dt.datetime
    max: dt.datetime
    bins: Literal["hour", "day", "week", "month", "quarter", "year"] | Annotated[int, Field(ge=1, le=MAX_BINS)] = (
        "month"
    )
    nullable: bool = False

    @field_validator("min", "max")
    @classmethod
    def _to_utc(cls, moment: dt.datetime) -> dt.datetime:
        return moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment

    @model_validator(mode="after")
    def _bounds(self) -> DatetimeColumn:
        if not self.min < self.max:
            raise ValueError(f"min {self.min} must be before max {self.max}")
        if self.bins == "hour":
            _check_count((self.max - self.min) // dt.timedelta(hours=1) + 1, self.bins)
        _check_periods(self.min.date(), self.max.date(), self.bins)
        return self


class IdentifierColumn(Public):
    """A key or free text: never modelled. `drop` leaves it out; `surrogate` publishes fresh ids, one a row."""

    type: Literal["identifier", "text"]
    action: Literal["drop", "surrogate"] = "drop"


class TensorColumn(Public):
    """So many numbers a row, from `min` to `max`, clipped: a picture `[H, W]` or `[H, W, C]`, or a vector `[d]`."""

    type: Literal["tensor"]
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1, max_length=4)
    min: float = Field(ge=-1e30, le=1e30, allow_inf_nan=False)
    max: float = Field(ge=-1e30, le=1e30, allow_inf_nan=False)

    @field_validator("shape")
    @classmethod
    def _size(cls, shape: tuple[int, ...]) -> tuple[int, ...]:
        if math.prod(shape) > MAX_TENSOR_NUMBERS:
            raise ValueError(f"a tensor has at most {MAX_TENSOR_NUMBERS:,} numbers; make the shape smaller")
        return shape

    @model_validator(mode="after")
    def _bounds(self) -> TensorColumn:
        if not self.min < self.max:
            raise ValueError(f"min {self.min:g} must be below max {self.max:g}")
        # Tensors are single precision, so there must be a few such numbers between the bounds.
        if self.max - self.min < max(1e-30, 1e-6 * max(abs(self.min), abs(self.max))):
            raise ValueError("min and max are too close to tell numbers between them apart in single precision")
        return self


ModelledColumn = CategoryColumn | IntegerColumn | NumberColumn | BooleanColumn | DateColumn | DatetimeColumn
Column = Annotated[ModelledColumn | TensorColumn | IdentifierColumn, Field(discriminator="type")]
