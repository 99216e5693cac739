"""The release spec: everything public about one release, typed, versioned by its hash, and refused if it is wrong."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.spec.columns import CategoryColumn, IdentifierColumn, TensorColumn
from understudy.pipelines.spec.dates import DatetimeColumn
from understudy.pipelines.spec.derived import Column, DerivedColumn, LaterColumn, LookupColumn, tagged
from understudy.pipelines.spec.handling import ComputeSpec, GenerateSpec, PublishSpec, RollingSpec, ScheduleSpec
from understudy.pipelines.spec.periods import Period, period_named
from understudy.pipelines.spec.plugins import METHODS, names
from understudy.pipelines.spec.protection import PrivacySpec
from understudy.pipelines.spec.public import Public
from understudy.pipelines.spec.source import SourceSpec

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class MethodSpec(Public):
    """The method's name and its own options, which the method itself checks when it plans."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = Field("privpgd", description="privpgd, gaussian, mixing, kernel, or what an installed package offers")

    @field_validator("name")
    @classmethod
    def _installed(cls, name: str) -> str:
        if name not in names(METHODS):
            raise ValueError(f"there is no such method; installed are {', '.join(names(METHODS))}")
        return name

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


_NOT_MEASURED: dict[str, Any] = dict.fromkeys(("generate", "publish", "compute", "rolling", "schedule"), True)
_NOT_MEASURED |= {"source": {"rows_are_public", "external"}}

_ADDED_LATER = (("source", "quoted_newlines"), ("source", "id"))
"""Keys that specs of earlier versions could not have: where they are left out, the hash is what it was."""


class ReleaseSpec(Public):
    """One release: what is copied, for whom it is safe, how, and where it goes."""

    name: str = Field(description="what the release is called: lower-case letters, digits, dots, dashes, underscores")
    source: SourceSpec = Field(description="where the private table is")
    privacy: PrivacySpec = Field(description="who is protected, how well, and which account pays")
    columns: dict[str, Column] = Field(
        min_length=1, max_length=2000, description="what each column can hold; one that is not listed is never read"
    )
    method: MethodSpec = Field(MethodSpec(), description="how the table is measured")
    generate: GenerateSpec = Field(GenerateSpec(), description="how rows are made of what was measured; free to change")
    publish: PublishSpec = Field(description="where the synthetic copy goes")
    compute: ComputeSpec = Field(ComputeSpec(), description="what counts the rows")
    rolling: RollingSpec | None = Field(None, description="a release for each period")
    schedule: ScheduleSpec | None = Field(None, description="when `understudy deploy` has the release run")

    @field_validator("name")
    @classmethod
    def _release_name(cls, name: str) -> str:
        return _checked_name(name)

    @field_validator("columns", mode="before")
    @classmethod
    def _column_names(cls, columns: Any) -> Any:
        if isinstance(columns, dict):
            for name in columns:
                if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
                    raise ValueError("column names must be printable text of at most 200 characters")
            return {name: tagged(column) for name, column in columns.items()}
        return columns

    @model_validator(mode="after")
    def _coherent(self) -> ReleaseSpec:
        _check_made(self.columns)
        if all(column.type in ("identifier", "text", "derived", "lookup") for column in self.columns.values()):
            raise ValueError("no column is modelled; declare at least one that is not an identifier or text")
        if self.generate.rules and self.method.name != "privpgd":
            raise ValueError(f"generate.rules are kept by the method privpgd only, not by {self.method.name}")
        if self.method.name != "mixing" and (self.generate.denoise or self.generate.image):
            raise ValueError(f"generate.denoise and generate.image are for the method mixing, not {self.method.name}")
        if self.privacy.quality is not None and self.method.name != "privpgd":
            raise ValueError(f"privacy.quality is measured by the method privpgd only, not by {self.method.name}")
        if self.publish.refuse_if is not None and self.publish.refuse_if.limits and self.privacy.quality is None:
            raise ValueError("publish.refuse_if is judged by what privacy.quality buys; set privacy.quality: 0.02")
        if self.publish.refuse_if is not None and self.publish.refuse_if.verdict and self.method.name != "privpgd":
            raise ValueError(f"publish.refuse_if.verdict is given for the method privpgd only, not {self.method.name}")
        tensors = ", ".join(name for name, column in self.columns.items() if column.type == "tensor")
        if tensors and self.method.name != "kernel":
            raise ValueError(f"tensors ({tensors}) are copied by the method kernel only, not by {self.method.name}")
        entity = self.privacy.unit.entity
        if entity in self.columns and self.columns[entity].type not in ("identifier", "text"):
            raise ValueError(
                f"the entity column {entity!r} cannot be modelled; declare it {{type: identifier, action: drop}}"
            )
        return self

    @property
    def every_row_counts(self) -> bool:
        """Whether every row of the source is one of the table that is measured. Lines of a CSV file that are no record
        and rows of another period are not: replacing a row may then change how many there are."""
        of_a_period = self.rolling is not None and self.rolling.column is not None
        return not of_a_period and not self.source.uri.lower().endswith((".csv", ".csv.gz"))

    @property
    def period(self) -> Period | None:
        """What the snapshot of a rolling release names; SpecError if that is no period. Others have none."""
        return period_named(self.rolling.period, self.source.snapshot) if self.rolling is not None else None

    @property
    def hash(self) -> str:
        """Of what is measured. How it is computed, what is generated from it and where it goes cannot change that."""
        measured = self.model_dump(mode="json", exclude=_NOT_MEASURED)
        for part, key in _ADDED_LATER:
            if measured[part][key] == type(getattr(self, part)).model_fields[key].default:
                del measured[part][key]
        if self.rolling is not None and self.rolling.column is not None:  # it says which rows are measured
            measured["rolling"] = {"period": self.rolling.period, "column": self.rolling.column}
        # A measurement refers to columns by position, so their order belongs to it. Derived ones are not measured.
        columns = [each for each in measured["columns"].items() if each[1]["type"] not in ("derived", "lookup")]
        return hash_of({**measured, "columns": columns})

    @property
    def derived(self) -> dict[str, Any]:
        """The columns that are computed from published ones: free to change, and then another publication."""
        made = {name: column for name, column in self.columns.items() if column.type in ("derived", "lookup")}
        return {name: column.model_dump(mode="json", by_alias=True) for name, column in made.items()}


def _check_made(columns: dict[str, Any]) -> None:
    """What columns are made of must be there, and be of a kind that it can be made of."""
    known: set[str] = set()
    published = {name for name, column in columns.items() if not isinstance(column, IdentifierColumn | TensorColumn)}
    for name, column in columns.items():
        if isinstance(column, DatetimeColumn):
            clash = [part for part in (f"{name}.{part}" for part in column.parts) if part in columns]
            if clash:
                raise ValueError(f"{clash[0]!r} is a column and a part of {name!r}; rename one of them")
        if isinstance(column, LaterColumn):
            start = columns.get(column.after)
            if not isinstance(start, DatetimeColumn):
                raise ValueError(f"{name!r} comes after {column.after!r}, which is no datetime column of the spec")
            if start.nullable and not column.nullable:
                raise ValueError(f"{name!r} comes after {column.after!r}, which may be null; declare it nullable too")
        if isinstance(column, LookupColumn) and not isinstance(columns.get(column.from_), CategoryColumn):
            raise ValueError(f"{name!r} is looked up from {column.from_!r}, which is no category of the spec")
        if isinstance(column, DerivedColumn):
            later = {other for other, made in columns.items() if isinstance(made, DerivedColumn)} - known
            missing = [used for used in column.expression.names if used not in published or used in later]
            if missing:
                raise ValueError(
                    f"{name!r} is derived from {missing[0]!r}, which is no published column, or one derived after it"
                )
            known.add(name)


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} must be lower-case letters, digits, dots, dashes or underscores (at most 100)")
    return name
