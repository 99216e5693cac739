"""Columns of numbers as a spec declares them: whole or not, in bins on a scale, and how they are written."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from understudy.pipelines.spec.formats import NumberForm
from understudy.pipelines.spec.public import (
    MAX_BINS,
    MAX_SPIKES,
    SPIKES,
    BinCount,
    Public,
    check_distinct,
    later,
    left_out,
)

ScaleName = Literal["linear", "log", "ratio", "signed"]
_SCALE = "log: log(1 + x - min); ratio: a true logarithm, for min > 0; signed: a logarithm in both directions from zero"


def _check_shape(column: IntegerColumn | NumberColumn) -> None:
    bins = column.bins
    if not isinstance(bins, int):
        if (bins[0], bins[-1]) != (column.min, column.max):
            raise ValueError("bins must begin at min and end at max; leave min and max out to have them so")
        if any(low >= high for low, high in pairwise(bins)):
            raise ValueError("bins must rise from edge to edge")
    if column.scale == "ratio" and column.min <= 0:
        raise ValueError(
            "scale ratio is a true logarithm and needs min above 0; put 0 under spikes, or use scale signed"
        )
    check_distinct(column.spikes)


class Written(Public):
    """What columns of numbers share: how they are written where the source holds text, and bins that are listed."""

    decimal: Literal[".", ","] = later(".", description="text: what stands before the decimals")
    thousands: Literal[",", ".", " ", "'", "_"] | None = later(description="text: what stands between thousands")
    percent: Literal["number", "fraction"] | None = later(description="text: 12% is 12, or 0.12")
    units: tuple[Annotated[str, Field(min_length=1, max_length=20)], ...] = later(
        (), max_length=50, description="text: words that may stand before or after a number, such as CHF or kg"
    )

    @model_validator(mode="before")
    @classmethod
    def _ends_of_bins(cls, given: Any) -> Any:
        """Where `bins` lists edges, `min` and `max` are its ends."""
        bins = given.get("bins") if isinstance(given, dict) else None
        return {"min": bins[0], "max": bins[-1], **given} if isinstance(bins, list | tuple) and bins else given

    @property
    def form(self) -> NumberForm | None:
        form = NumberForm(self.decimal, self.thousands, self.percent, self.units)
        return None if form == NumberForm() else form

    @field_validator("units")
    @classmethod
    def _no_digits(cls, units: tuple[str, ...]) -> tuple[str, ...]:
        if any(letter.isdigit() or letter in "+-.,()%'" for unit in units for letter in unit):
            raise ValueError("a unit has no digit, sign, point, comma, quote, parenthesis or per cent in it")
        return units

    @model_validator(mode="after")
    def _two_marks(self) -> Written:
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands are both {self.decimal!r}")
        return self


class IntegerColumn(Written):
    """Whole numbers from `min` to `max`, clipped, in `bins` nearly equal bins (one a value if that is fewer)."""

    type: Literal["integer"]
    min: int = Field(ge=-(2**53), le=2**53)
    max: int = Field(ge=-(2**53), le=2**53)
    bins: BinCount | Annotated[tuple[int, ...], Field(min_length=2, max_length=MAX_BINS)] = Field(
        32, description="how many, or a list of their edges"
    )
    scale: ScaleName = Field("linear", description=_SCALE)
    spikes: tuple[Annotated[int, Field(ge=-(2**53), le=2**53)], ...] = Field(
        (), max_length=MAX_SPIKES, description=SPIKES, exclude_if=left_out
    )
    step: int | None = Field(
        None, ge=1, le=2**53, description="published values are multiples of it", exclude_if=left_out
    )
    nullable: bool = False

    @model_validator(mode="after")
    def _bounds(self) -> IntegerColumn:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}; swap them")
        _check_shape(self)
        return self


class NumberColumn(Written):
    """Real numbers from `min` to `max`, clipped, in `bins` bins of equal width on the chosen scale."""

    type: Literal["number"]
    min: float = Field(allow_inf_nan=False)
    max: float = Field(allow_inf_nan=False)
    bins: (
        BinCount
        | Annotated[tuple[Annotated[float, Field(allow_inf_nan=False)], ...], Field(min_length=2, max_length=MAX_BINS)]
    ) = Field(32, description="how many, or a list of their edges")
    scale: ScaleName = Field("linear", description=_SCALE)
    decimals: int | None = Field(None, ge=0, le=12, description="round published values to this many decimals")
    spikes: tuple[Annotated[float, Field(allow_inf_nan=False, ge=-1e300, le=1e300)], ...] = Field(
        (), max_length=MAX_SPIKES, description=SPIKES, exclude_if=left_out
    )
    step: float | None = Field(
        None, gt=1e-12, le=1e300, allow_inf_nan=False, description="published values are multiples of it, such as 0.25",
        exclude_if=left_out,
    )  # fmt: skip
    nullable: bool = False

    @model_validator(mode="after")
    def _one_grid(self) -> NumberColumn:
        if self.step is not None and self.decimals is not None:
            raise ValueError("give `step` or `decimals`, which is a step of 1, 0.1, 0.01, ...")
        _check_shape(self)
        for low, high in pairwise(sorted(self.spikes)):
            if high - low <= 4 * max(2.0**-23 * max(abs(low), abs(high)), 1e-12 * (self.max - self.min)):
                raise ValueError("two spikes are too close to be told apart in single precision")
        return self

    @model_validator(mode="after")
    def _bounds(self) -> NumberColumn:
        if not self.min < self.max:
            raise ValueError(f"min {self.min:g} must be below max {self.max:g}")
        if not math.isfinite(self.max - self.min):
            raise ValueError(f"{self.min:g} to {self.max:g} is wider than any number; give bounds that fit the column")
        return self
