"""How a CSV source is written. Public, and part of what is measured: another dialect reads other values."""

from __future__ import annotations

import codecs
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator, model_validator

from understudy.pipelines.spec.public import Public

Mark = Annotated[str, StringConstraints(strip_whitespace=False, min_length=1, max_length=1)]
NullWord = Annotated[str, StringConstraints(strip_whitespace=False, max_length=100)]


class CsvDialect(Public):
    delimiter: Mark = Field(",", description='what stands between fields, such as ";" or "\\t"')
    quote: Mark | None = Field('"', description="what may stand around a field; null: quotes are letters like others")
    encoding: str = Field("utf-8", max_length=40, description="of the file; bytes that it lacks are replaced")
    header: bool | tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        True, description="the first line names the columns; false: they are column_1, column_2 ...; or their names"
    )
    comment: Mark | None = Field(None, description="lines that begin with it are no rows")
    nulls: tuple[NullWord, ...] = Field((), max_length=100, description="fields that are null, beside empty ones")

    @field_validator("delimiter", "quote", "comment")
    @classmethod
    def _one_byte(cls, mark: str | None) -> str | None:
        if mark is not None and (not mark.isascii() or mark in "\r\n\0" or mark.isalnum()):
            raise ValueError("one ASCII character that is no letter, digit or line break")
        return mark

    @field_validator("encoding")
    @classmethod
    def _known(cls, encoding: str) -> str:
        try:
            found = codecs.lookup(encoding)
            "a".encode(found.name).decode(found.name)
        except (LookupError, UnicodeError, TypeError, ValueError):
            raise ValueError(f"there is no encoding {encoding!r}; try utf-8, latin-1, cp1252 or utf-16") from None
        if not getattr(found, "_is_text_encoding", True):
            raise ValueError(f"{encoding!r} is no encoding of text")
        return found.name

    @field_validator("header")
    @classmethod
    def _distinct(cls, header: Any) -> Any:
        if isinstance(header, tuple) and (not header or len(set(header)) < len(header)):
            raise ValueError("name every column once")
        return header

    @model_validator(mode="after")
    def _told_apart(self) -> CsvDialect:
        marks = [mark for mark in (self.delimiter, self.quote, self.comment) if mark is not None]
        if len(set(marks)) < len(marks):
            raise ValueError("delimiter, quote and comment are different characters")
        return self


COMMAS = CsvDialect()
