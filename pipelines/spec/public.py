"""What every piece of a spec is made of: frozen, typed by a person, and refused if a key is unknown."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MAX_BINS = 10_000
REMEMBERED = {"remembered": True}
"""Context of a spec that is read back from a measurement: it was paid for when calendar bins had no limit."""
MAX_SPIKES = 100
BinCount = Annotated[int, Field(ge=1, le=MAX_BINS)]
SPIKES = "values that many rows hold exactly: each has a code of its own and is published as it is"


def left_out(value: Any) -> bool:
    """Specs older than a key keep their hash: it is written down only where it is given."""
    return value is None or value == ()


def check_distinct(spikes: tuple[Any, ...]) -> None:
    if len(set(spikes)) < len(spikes):
        raise ValueError("a spike is listed more than once")


class Public(BaseModel):
    """A frozen piece of the spec; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


def also(*forms: dict[str, Any]) -> Any:
    """For editors: a list that may be written in other forms too, which a validator turns into the list."""

    def widened(schema: dict[str, Any]) -> None:
        listed = {key: schema.pop(key) for key in ("type", "items", "minItems", "maxItems") if key in schema}
        schema["anyOf"] = [listed, *forms]

    return widened


_KEYS = {"type": "object", "additionalProperties": False}
RANGE = {**_KEYS, "properties": {"from": {"type": "integer"}, "to": {"type": "integer"}}, "required": ["from", "to"]}
FILE = {**_KEYS, "properties": {"file": {"type": "string"}, "column": {"type": "string"}}, "required": ["file"]}
TEXT, WORD = {"type": "string"}, {"type": ["string", "number", "boolean"]}
WORDS = {"type": "array", "items": WORD}


def later(default: Any = None, **about: Any) -> Any:
    """A key that specs of earlier versions could not have: where it is left out, the spec's hash is what it was."""
    return Field(default, exclude_if=lambda value: value == default, **about)
