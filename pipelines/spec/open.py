"""Columns of which something is left open, to be bought: `discover` stands where nobody can say.

    {type: category, values: discover}                   which values many people share; the rest is `other`
    {type: category, values: [F, M], more: discover}     further ones beside those listed
    {type: number, min: discover, max: 120}              bounds; `bins: quantiles` by how many rows there are
    {type: number, min: 0, max: 100, spikes: discover}   values that many rows hold exactly
    {type: integer, min: 0, max: 100, bins: auto}        as many bins as the budget can tell apart
    {type: discover}                                     everything, whether it holds numbers, dates or words too

What was found takes the place of such a column before anything is planned (`pipelines.discovery.closing`), so that no
later stage knows the difference. Everything said beside it stays as it was said.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from understudy.pipelines.spec.columns import ModelledColumn
from understudy.pipelines.spec.public import MAX_BINS, Public

DISCOVER, QUANTILES, AUTO = "discover", "quantiles", "auto"
OpenKind = Literal["category", "integer", "number", "date", "datetime"]
KINDS = ("category", "integer", "number", "date", "datetime")
ASSUMED_VALUES = 16
ASSUMED_BINS = 16
_PLAIN: TypeAdapter[Any] = TypeAdapter(Annotated[ModelledColumn, Field(discriminator="type")])
_MARKS = {"values": (DISCOVER,), "more": (DISCOVER,), "min": (DISCOVER,), "max": (DISCOVER,), "spikes": (DISCOVER,),
          "bins": (QUANTILES, AUTO)}  # fmt: skip
_OWN = ("most", "longest")
_ENDS: dict[str, tuple[Any, Any]] = {
    "integer": (0, 100),
    "number": (0.0, 100.0),
    "date": ("2015-01-01", "2024-12-31"),
    "datetime": ("2015-01-01T00:00:00", "2025-01-01T00:00:00"),
}


class OpenColumn(Public):
    """A column of which something is to be discovered. `declared` is what else was said of it, as it was said."""

    type: Literal["discover"]
    kind: OpenKind | None = Field(None, description="what it holds; left out: that is to be found out, too")
    declared: dict[str, Any] = Field(default_factory=dict, description="all other keys of the column")
    most: int = Field(1000, ge=1, le=MAX_BINS, description="so many values are kept at most, the most frequent ones")
    longest: int = Field(100, ge=1, le=1000, description="longer texts are no values")

    @model_validator(mode="after")
    def _sayable(self) -> OpenColumn:
        if self.kind is None:
            if unknown := sorted(set(self.declared) - {"nullable"}):
                raise ValueError(f"of a column of which nothing is known nothing can be said: {', '.join(unknown)}")
            return self
        try:
            self.plain()
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"] if part != self.kind)
            raise ValueError(
                f"{where}: {first['msg'].removeprefix('Value error, ')}" if where else first["msg"]
            ) from None
        return self

    @property
    def asks(self) -> frozenset[str]:
        """Which of values, bounds, bins, spikes are open; of an unknown column all are."""
        if self.kind is None:
            return frozenset({"kind"})
        said = self.declared
        found = {
            "values": DISCOVER in (said.get("values"), said.get("more")),
            "bounds": DISCOVER in (said.get("min"), said.get("max")),
            "quantiles": said.get("bins") == QUANTILES,
            "auto": said.get("bins") == AUTO,
            "spikes": said.get("spikes") == DISCOVER,
        }
        return frozenset(name for name, asked in found.items() if asked)

    @property
    def known_values(self) -> tuple[Any, ...]:
        listed = self.declared.get("values", ())
        return tuple(listed) if isinstance(listed, list | tuple) else ()

    def assumed(self) -> dict[str, Any]:
        """A column as it might turn out, for estimates: nothing in it is known."""
        values = [f"value {number}" for number in range(1, ASSUMED_VALUES + 1)]
        if self.kind is None:
            return {"type": "category", "values": values, "other": True, "nullable": True}
        said = {key: value for key, value in self.declared.items() if key != "more" and not is_mark(key, value)}
        if self.kind == "category":
            listed = list(self.known_values)
            return {"type": "category", **said, "values": [*listed, *values] if "values" in self.asks else listed,
                    "other": True}  # fmt: skip
        low, high = _ENDS[self.kind]
        calendar = self.kind in ("date", "datetime")
        bins = "quarter" if calendar else ASSUMED_BINS
        ends = _between(said.get("min"), said.get("max"), low, high)
        return {"type": self.kind, "bins": bins, **said, **ends}

    def plain(self) -> Any:
        """The same as a column of its kind, filled in by assumption."""
        return _PLAIN.validate_python(self.assumed())


def _between(low: Any, high: Any, least: Any, most: Any) -> dict[str, Any]:
    """Both ends, where one or none is known."""
    if isinstance(low, int | float) and high is None:
        return {"min": low, "max": low + 100}
    if isinstance(high, int | float) and low is None:
        return {"min": high - 100, "max": high}
    if isinstance(least, str) and (low is None) != (high is None):  # dates
        return {"min": low or "1900-01-01", "max": high or "2100-01-01"}
    return {"min": least if low is None else low, "max": most if high is None else high}


def is_mark(key: str, value: Any) -> bool:
    return isinstance(value, str) and value in _MARKS.get(key, ())


def opened(column: dict[str, Any]) -> dict[str, Any]:
    """A column as people write it, as an open one if something in it is left open."""
    if column.get("type") == DISCOVER:
        if "declared" in column:
            return column
        said = {key: value for key, value in column.items() if key not in ("type", *_OWN)}
        return {"type": DISCOVER, "declared": said, **_own(column)}
    if column.get("type") not in KINDS or not any(is_mark(key, value) for key, value in column.items()):
        return column
    said = {key: value for key, value in column.items() if key not in ("type", *_OWN)}
    return {"type": DISCOVER, "kind": column["type"], "declared": said, **_own(column)}


def _own(column: dict[str, Any]) -> dict[str, Any]:
    return {key: column[key] for key in _OWN if key in column}
