"""The column types a spec may declare. Everything here is public: it is typed by a person, never read from the rows."""

from __future__ import annotations

import math
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from understudy.pipelines.spec.dates import DateColumn, DatetimeColumn
from understudy.pipelines.spec.formats import TruthForm, WordForm
from understudy.pipelines.spec.lists import range_of
from understudy.pipelines.spec.numbers import IntegerColumn, NumberColumn
from understudy.pipelines.spec.public import FILE, MAX_BINS, RANGE, WORD, WORDS, Public, also, later

MAX_TENSOR_NUMBERS = 65_536


class CategoryColumn(Public):
    """One of the listed values. Anything else becomes `other` if declared, else null, else the first value."""

    type: Literal["category"]
    values: tuple[str | int, ...] = Field(min_length=1, max_length=MAX_BINS, json_schema_extra=also(RANGE, FILE))
    ordered: bool = Field(False, description="true if the values are listed in a meaningful order")
    other: bool = Field(False, description="true to keep one code for every value not listed")
    nullable: bool = False
    trim: bool = later(False, description="true: blanks around a value do not count")
    case: Literal["exact", "ignore"] = later("exact", description="ignore: upper and lower case are one")
    aliases: dict[str, str | int] = later(
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


class BooleanColumn(Public):
    """True or false, by the usual words and numbers and by those listed."""

    type: Literal["boolean"]
    nullable: bool = False
    true: tuple[str, ...] = later(
        (), description="further words that are true", max_length=100, json_schema_extra=also(WORD, WORDS)
    )
    false: tuple[str, ...] = later(
        (), description="further words that are false", max_length=100, json_schema_extra=also(WORD, WORDS)
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
