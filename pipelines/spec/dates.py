"""Columns of dates and moments as a spec declares them: their range, bins and clock, and how they are written."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from understudy.pipelines.spec.formats import EPOCHS, DateForm, format_pieces
from understudy.pipelines.spec.periods import zone as zone_named
from understudy.pipelines.spec.public import (
    MAX_BINS,
    MAX_SPIKES,
    REMEMBERED,
    SPIKES,
    TEXT,
    Public,
    also,
    check_distinct,
    later,
    left_out,
)


def _check_periods(first: dt.datetime, last: dt.datetime, bins: str | int, info: ValidationInfo) -> None:
    """As many calendar periods as bins of any other kind, in whatever is still to be planned."""
    if info.context == REMEMBERED:
        return
    months = (last.year - first.year) * 12 + last.month - first.month + 1
    days = (last.date() - first.date()).days + 1
    hours = (last - first) // dt.timedelta(hours=1) + 1
    counts = {"hour": hours, "day": days, "week": days // 7, "month": months, "quarter": months // 3}
    if (periods := counts.get(str(bins), 0)) > MAX_BINS:
        raise ValueError(
            f"min to max has {periods:,} bins of one {bins}, and a column at most {MAX_BINS:,}; choose longer ones"
        )


class Dated(Public):
    """Keys of columns of dates and moments: how they are written, and on whose clock."""

    format: tuple[Annotated[str, Field(max_length=100)], ...] = later(
        (),
        max_length=10,
        description="how dates are written: a strptime format such as %d.%m.%Y or several, tried in order; or epoch, "
        "epoch_ms, epoch_us, epoch_ns for numbers since 1970",
        json_schema_extra=also(TEXT),
    )
    day_first: bool | None = later(description="true: 01/04/2014 is 1 April; false: 4 January; left out: unreadable")
    zone: str | None = later(
        description="a clock such as Europe/Berlin: values with an offset are turned to it, others are on it already; "
        "left out: values with an offset are taken in UTC",
    )

    @field_validator("format", mode="before")
    @classmethod
    def _one_or_several(cls, formats: Any) -> Any:
        return (formats,) if isinstance(formats, str) else formats

    @field_validator("format")
    @classmethod
    def _formats(cls, formats: tuple[str, ...]) -> tuple[str, ...]:
        if any(one in EPOCHS for one in formats):
            if len(formats) > 1:
                raise ValueError("an epoch is the only format of its column")
            return formats
        for one in formats:
            format_pieces(one)
        return formats

    @field_validator("zone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        return None if name is None else str(zone_named(name))

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Dated:
        if self.format and self.day_first is not None:
            raise ValueError("a format says which comes first, day or month; drop day_first")
        return self

    @property
    def form(self) -> DateForm | None:
        form = DateForm(self.format, self.day_first, self.zone)
        return None if form == DateForm() else form


class DateColumn(Dated):
    """Days from `min` to `max`, clipped, in calendar periods or in a number of nearly equal bins."""

    type: Literal["date"]
    min: dt.date
    max: dt.date
    bins: Literal["day", "week", "month", "quarter", "year"] | Annotated[int, Field(ge=1, le=MAX_BINS)] = "month"
    spikes: tuple[dt.date, ...] = Field((), max_length=MAX_SPIKES, description=SPIKES, exclude_if=left_out)
    nullable: bool = False

    @model_validator(mode="after")
    def _bounds(self, info: ValidationInfo) -> DateColumn:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is after max {self.max}; swap them")
        check_distinct(self.spikes)
        midnight = dt.time()
        first, last = (dt.datetime.combine(day, midnight) for day in (self.min, self.max))
        _check_periods(first, last, self.bins, info)
        return self


class DatetimeColumn(Dated):
    """Moments from `min` to `max` (in UTC or on the clock of `zone`), clipped, in calendar periods or equal bins."""

    type: Literal["datetime"]
    min: dt.datetime
    max: dt.datetime
    bins: Literal["hour", "day", "week", "month", "quarter", "year"] | Annotated[int, Field(ge=1, le=MAX_BINS)] = (
        "month"
    )
    spikes: tuple[dt.datetime, ...] = Field((), max_length=MAX_SPIKES, description=SPIKES, exclude_if=left_out)
    resolution: Literal["second", "minute", "hour", "day"] | None = Field(
        None,
        description="publish no finer than this; by default whole days where bins are a day or longer, else seconds",
        exclude_if=left_out,
    )
    parts: tuple[Literal["date", "weekday", "hour", "minute"], ...] = Field(
        (),
        max_length=4,
        description="model the calendar date (in `bins`), the weekday and the time of day as columns of their own",
        exclude_if=left_out,
    )
    nullable: bool = False

    @field_validator("parts")
    @classmethod
    def _with_a_date(cls, parts: tuple[str, ...]) -> tuple[str, ...]:
        if parts and ("date" not in parts or len(set(parts)) < len(parts) or len(parts) < 2):
            raise ValueError("parts are date and at least one of weekday, hour, minute, each once")
        if "minute" in parts and "hour" not in parts:
            raise ValueError("the part minute needs the part hour")
        return parts

    @field_validator("min", "max")
    @classmethod
    def _on_its_clock(cls, moment: dt.datetime, said: ValidationInfo) -> dt.datetime:
        if moment.tzinfo is None:
            return moment
        clock = said.data.get("zone")
        return moment.astimezone(zone_named(clock) if clock else dt.UTC).replace(tzinfo=None)

    @field_validator("spikes")
    @classmethod
    def _spikes_on_its_clock(cls, spikes: tuple[dt.datetime, ...], said: ValidationInfo) -> tuple[dt.datetime, ...]:
        shown = tuple(cls._on_its_clock(moment, said) for moment in spikes)
        check_distinct(shown)
        return shown

    @model_validator(mode="after")
    def _bounds(self, info: ValidationInfo) -> DatetimeColumn:
        if not self.min < self.max:
            raise ValueError(f"min {self.min} must be before max {self.max}")
        if self.parts and self.bins == "hour":
            raise ValueError("with parts, bins are of the date: day, week, month, quarter, year or a number")
        if "weekday" in self.parts and self.bins == "day":
            raise ValueError("bins of one day know their weekday; leave the part weekday out, or use longer bins")
        if self.parts and self.spikes:
            raise ValueError("a datetime has parts or spikes, not both")
        _check_periods(self.min, self.max, self.bins, info)
        return self
