"""The column types a spec may declare. Everything here is public: it is typed by a person, never read from the rows."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from understudy.pipelines.spec.formats import EPOCHS, DateForm, NumberForm, TruthForm, WordForm, format_pieces
from understudy.pipelines.spec.lists import range_of
from understudy.pipelines.spec.periods import zone as zone_named

MAX_BINS = 10_000
REMEMBERED = {"remembered": True}
"""Context of a spec that is read back from a measurement: it was paid for when calendar bins had no limit."""
MAX_TENSOR_NUMBERS = 65_536
MAX_SPIKES = 100
BinCount = Annotated[int, Field(ge=1, le=MAX_BINS)]
ScaleName = Literal["linear", "log", "ratio", "signed"]
_SCALE = "log: log(1 + x - min); ratio: a true logarithm, for min > 0; signed: a logarithm in both directions from zero"
_SPIKES = "values that many rows hold exactly: each has a code of its own and is published as it is"


def _left_out(value: Any) -> bool:
    """Specs older than a key keep their hash: it is written down only where it is given."""
    return value is None or value == ()


def _ends_of_bins(given: Any) -> Any:
    """Where `bins` lists edges, `min` and `max` are its ends."""
    bins = given.get("bins") if isinstance(given, dict) else None
    return {"min": bins[0], "max": bins[-1], **given} if isinstance(bins, list | tuple) and bins else given


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
    _check_distinct(column.spikes)


def _check_distinct(spikes: tuple[Any, ...]) -> None:
    if len(set(spikes)) < len(spikes):
        raise ValueError("a spike is listed more than once")


class Public(BaseModel):
    """A frozen piece of the spec; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


def _also(*forms: dict[str, Any]) -> Any:
    """For editors: a list that may be written in other forms too, which a validator turns into the list."""

    def widened(schema: dict[str, Any]) -> None:
        listed = {key: schema.pop(key) for key in ("type", "items", "minItems", "maxItems") if key in schema}
        schema["anyOf"] = [listed, *forms]

    return widened


_KEYS = {"type": "object", "additionalProperties": False}
_RANGE = {**_KEYS, "properties": {"from": {"type": "integer"}, "to": {"type": "integer"}}, "required": ["from", "to"]}
_FILE = {**_KEYS, "properties": {"file": {"type": "string"}, "column": {"type": "string"}}, "required": ["file"]}
_TEXT, _WORD = {"type": "string"}, {"type": ["string", "number", "boolean"]}
_WORDS = {"type": "array", "items": _WORD}


def _later(default: Any = None, **about: Any) -> Any:
    """A key that specs of earlier versions could not have: where it is left out, the spec's hash is what it was."""
    return Field(default, exclude_if=lambda value: value == default, **about)


class CategoryColumn(Public):
    """One of the listed values. Anything else becomes `other` if declared, else null, else the first value."""

    type: Literal["category"]
    values: tuple[str | int, ...] = Field(min_length=1, max_length=MAX_BINS, json_schema_extra=_also(_RANGE, _FILE))
    ordered: bool = Field(False, description="true if the values are listed in a meaningful order")
    other: bool = Field(False, description="true to keep one code for every value not listed")
    nullable: bool = False
    trim: bool = _later(False, description="true: blanks around a value do not count")
    case: Literal["exact", "ignore"] = _later("exact", description="ignore: upper and lower case are one")
    aliases: dict[str, str | int] = _later(
        {}, description="other names of listed values: {N.Y.: NYC}", max_length=MAX_BINS
    )

    @field_validator("values", mode="before")
    @classmethod
    def _unambiguous(cls, values: Any) -> Any:
        """True and 1.0 would become the whole number 1, and no value of the source would match it."""
        if isinstance(values, dict):
            return range_of(values, MAX_BINS)
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

    @property
    def form(self) -> WordForm | None:
        form = WordForm(self.trim, self.case == "ignore", tuple(self.aliases.items()))
        return None if form == WordForm() else form

    @model_validator(mode="after")
    def _told_apart(self) -> CategoryColumn:
        """No two values may be one to the reader, nor an alias name two."""
        form = self.form
        if form is None:
            return self
        unknown = sorted(str(value) for value in self.aliases.values() if value not in self.values)
        if unknown:
            raise ValueError(f"aliases name values that are not listed: {', '.join(unknown[:10])}")
        listed = [form.spelled(str(value)) for value in self.values]
        if alike := sorted(text for text, times in Counter(listed).items() if times > 1):
            raise ValueError(f"with `trim` or `case: ignore` these values are one: {', '.join(alike[:10])}")
        means: dict[str, str | int] = dict(zip(listed, self.values, strict=True))
        for alias, value in self.aliases.items():
            if means.setdefault(form.spelled(alias), value) != value:
                raise ValueError(f"the alias {alias!r} is a listed value or another's alias already")
        return self


class Written(Public):
    """Keys of every column of numbers: how they are written where the source holds text."""

    decimal: Literal[".", ","] = _later(".", description="text: what stands before the decimals")
    thousands: Literal[",", ".", " ", "'", "_"] | None = _later(description="text: what stands between thousands")
    percent: Literal["number", "fraction"] | None = _later(description="text: 12% is 12, or 0.12")
    units: tuple[Annotated[str, Field(min_length=1, max_length=20)], ...] = _later(
        (), max_length=50, description="text: words that may stand before or after a number, such as CHF or kg"
    )

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
        (), max_length=MAX_SPIKES, description=_SPIKES, exclude_if=_left_out
    )
    step: int | None = Field(
        None, ge=1, le=2**53, description="published values are multiples of it", exclude_if=_left_out
    )
    nullable: bool = False

    @model_validator(mode="before")
    @classmethod
    def _listed_bins(cls, given: Any) -> Any:
        return _ends_of_bins(given)

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
        (), max_length=MAX_SPIKES, description=_SPIKES, exclude_if=_left_out
    )
    step: float | None = Field(
        None, gt=1e-12, le=1e300, allow_inf_nan=False, description="published values are multiples of it, such as 0.25",
        exclude_if=_left_out,
    )  # fmt: skip
    nullable: bool = False

    @model_validator(mode="before")
    @classmethod
    def _listed_bins(cls, given: Any) -> Any:
        return _ends_of_bins(given)

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


class BooleanColumn(Public):
    """True or false, by the usual words and numbers and by those listed."""

    type: Literal["boolean"]
    nullable: bool = False
    true: tuple[str, ...] = _later(
        (), description="further words that are true", max_length=100, json_schema_extra=_also(_WORD, _WORDS)
    )
    false: tuple[str, ...] = _later(
        (), description="further words that are false", max_length=100, json_schema_extra=_also(_WORD, _WORDS)
    )

    @model_validator(mode="before")
    @classmethod
    def _named_by_words(cls, declared: Any) -> Any:
        """In YAML the keys true and false are no words."""
        if not isinstance(declared, dict):
            return declared
        return {{True: "true", False: "false"}.get(key, key) if isinstance(key, bool) else key: value
                for key, value in declared.items()}  # fmt: skip

    @field_validator("true", "false", mode="before")
    @classmethod
    def _as_words(cls, words: Any) -> Any:
        listed = words if isinstance(words, list | tuple) else [words]
        return [str(word) if isinstance(word, int | float) else word for word in listed]

    @field_validator("true", "false")
    @classmethod
    def _as_read(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_lowered(word.strip()) for word in words)

    @model_validator(mode="after")
    def _not_both(self) -> BooleanColumn:
        if both := sorted(set(self.true) & set(self.false)):
            raise ValueError(f"these words are true and false: {', '.join(both)}")
        return self

    @property
    def form(self) -> TruthForm | None:
        return TruthForm(self.true, self.false) if self.true or self.false else None


def _lowered(word: str) -> str:
    """As the reader does it: letters without accents only."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in word)


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

    format: tuple[Annotated[str, Field(max_length=100)], ...] = _later(
        (),
        max_length=10,
        description="how dates are written: a strptime format such as %d.%m.%Y or several, tried in order; or epoch, "
        "epoch_ms, epoch_us, epoch_ns for numbers since 1970",
        json_schema_extra=_also(_TEXT),
    )
    day_first: bool | None = _later(description="true: 01/04/2014 is 1 April; false: 4 January; left out: unreadable")
    zone: str | None = _later(
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
    spikes: tuple[dt.date, ...] = Field((), max_length=MAX_SPIKES, description=_SPIKES, exclude_if=_left_out)
    nullable: bool = False

    @model_validator(mode="after")
    def _bounds(self, info: ValidationInfo) -> DateColumn:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is after max {self.max}; swap them")
        _check_distinct(self.spikes)
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
    spikes: tuple[dt.datetime, ...] = Field((), max_length=MAX_SPIKES, description=_SPIKES, exclude_if=_left_out)
    resolution: Literal["second", "minute", "hour", "day"] | None = Field(
        None,
        description="publish no finer than this; by default whole days where bins are a day or longer, else seconds",
        exclude_if=_left_out,
    )
    parts: tuple[Literal["date", "weekday", "hour", "minute"], ...] = Field(
        (),
        max_length=4,
        description="model the calendar date (in `bins`), the weekday and the time of day as columns of their own",
        exclude_if=_left_out,
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
    def _spikes_to_utc(cls, spikes: tuple[dt.datetime, ...]) -> tuple[dt.datetime, ...]:
        utc = tuple(moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment for moment in spikes)
        _check_distinct(utc)
        return utc

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
