"""The release spec: everything public about one release, typed, versioned by its hash, and refused if it is wrong."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.spec.columns import CategoryColumn, IdentifierColumn, TensorColumn
from understudy.pipelines.spec.dates import DatetimeColumn
from understudy.pipelines.spec.derived import Column, DerivedColumn, LaterColumn, LookupColumn
from understudy.pipelines.spec.handling import ComputeSpec, GenerateSpec, PublishSpec, RollingSpec, ScheduleSpec
from understudy.pipelines.spec.periods import Period, period_named
from understudy.pipelines.spec.plugins import METHODS, names
from understudy.pipelines.spec.protection import PrivacySpec, UnitSpec
from understudy.pipelines.spec.public import Public, later
from understudy.pipelines.spec.source import THE_TABLE, SourceSpec
from understudy.pipelines.spec.tree import (
    ENTITIES,
    MOST_TABLES,
    TableSpec,
    Tree,
    check_order,
    checked_columns,
    checked_tables,
    implied_tree,
    measured_tables,
    tree_of,
)

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
        {}, max_length=2000, description="what each column can hold; one that is not listed is never read"
    )
    tables: dict[str, TableSpec] | None = later(
        min_length=2,
        max_length=MOST_TABLES,
        description="instead of `columns`: several tables, one of them the root, the others each below another",
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
        return checked_columns(columns)

    @field_validator("tables", mode="before")
    @classmethod
    def _table_names(cls, tables: Any) -> Any:
        return checked_tables(tables)

    @model_validator(mode="before")
    @classmethod
    def _of_the_root(cls, given: Any) -> Any:
        """With tables, what the root says stands for what the release leaves out: its address, and who is protected."""
        return _filled_in(given) if isinstance(given, dict) and isinstance(given.get("tables"), dict) else given

    @model_validator(mode="after")
    def _coherent(self) -> ReleaseSpec:
        if self.tables is not None:
            _check_tables(self, self.tables)
            return self
        if not self.columns:
            raise ValueError("columns are missing: say what each column can hold, or name several `tables`")
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
        _check_entities(self)
        return self

    @property
    def tree(self) -> Tree | None:
        """Several tables, or a flat one that keeps its entities; None where rows are copied one by one."""
        if self.tables is not None:
            return tree_of(self.tables)
        unit = self.privacy.unit
        return implied_tree(str(unit.entity), unit.max_rows, unit.order_by) if unit.keeps_entities else None

    def table(self, name: str) -> ReleaseSpec:
        """One table of the tree as a release by itself, whose unit is a row: its source and columns, keys first."""
        if self.tables is not None:
            own = self.tables[name]
            columns, source = own.published, own.source.within(self.source, name)
        else:
            columns, source = _of_flat(self, name), self.source
        privacy = self.privacy.model_copy(update={"unit": UnitSpec()})
        alone = {"name": f"{self.name}.{name}"[:100], "tables": None, "rolling": None, "schedule": None}
        return self.model_copy(update={**alone, "columns": columns, "source": source, "privacy": privacy})

    @property
    def protects(self) -> str:
        """Whose presence is hidden, in words."""
        if self.tables is None:
            return str(self.privacy.protected_unit)
        return f"one of {tree_of(self.tables).root.name} with everything attributed to it"

    @property
    def alone(self) -> dict[str, ReleaseSpec]:
        """Each table as a release by itself, by its name; a release of one table is itself."""
        return {self.name: self} if self.tables is None else {name: self.table(name) for name in self.tables}

    @property
    def every_row_counts(self) -> bool:
        """Whether every row of the source is one of the table that is measured. Lines of a CSV file that are no record
        and rows of another period are not: replacing a row may then change how many there are."""
        of_a_period = self.rolling is not None and self.rolling.column is not None
        return not of_a_period and not self.source.names_csv

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
        if self.tables is not None:
            measured["tables"] = measured_tables(self.tables)
        # A measurement refers to columns by position, so their order belongs to it. Derived ones are not measured.
        columns = [each for each in measured["columns"].items() if each[1]["type"] not in ("derived", "lookup")]
        return hash_of({**measured, "columns": columns})

    @property
    def derived(self) -> dict[str, Any]:
        """The columns that are computed from published ones: free to change, and then another publication."""
        made = {name: column for name, column in self.columns.items() if column.type in ("derived", "lookup")}
        return {name: column.model_dump(mode="json", by_alias=True) for name, column in made.items()}


def _filled_in(given: dict[str, Any]) -> dict[str, Any]:
    roots = [(n, table) for n, table in given["tables"].items() if isinstance(table, dict) and not table.get("parent")]
    source, privacy = given.get("source"), given.get("privacy")
    if len(roots) != 1:
        return given  # told when the tables are checked
    name, root = roots[0]
    own = root.get("source")
    if isinstance(source, dict) and "uri" not in source and isinstance(own, dict) and "uri" in own:
        given = {**given, "source": {"uri": own["uri"], **source}}
    if isinstance(privacy, dict) and privacy.get("unit") is None:
        given = {**given, "privacy": {**privacy, "unit": {"entity": name}}}
    return given


def _check_tables(spec: ReleaseSpec, tables: dict[str, TableSpec]) -> None:
    """What holds of several tables together; each was checked by itself."""
    root = tree_of(tables).root
    for name, table in tables.items():
        try:
            _check_made(table.columns)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if spec.columns:
        raise ValueError("a release of several tables has its columns in `tables`; drop `columns`")
    if spec.method.name != "privpgd":
        raise ValueError(f"several tables are copied by the method privpgd only, not by {spec.method.name}")
    if spec.source.table is not None:
        raise ValueError("source.table is of one table; name it in the `source` of each of the tables")
    unit = spec.privacy.unit
    if unit.entity != root.name or unit.max_rows != 1 or unit.keeps_entities:
        raise ValueError(f"privacy.unit of several tables is the root, {root.name}, and nothing else")
    if spec.rolling is not None and spec.rolling.column is not None:
        raise ValueError("rolling.column is of one table; name the state of all tables by source.snapshot")
    if spec.privacy.quality is not None:
        raise ValueError("privacy.quality is for a release of one table")
    if spec.generate.denoise or spec.generate.image:
        raise ValueError("generate.denoise and generate.image are for the method mixing")
    if spec.source.snapshot == THE_TABLE or spec.source.version is not None:
        raise ValueError("several tables have no version in common; name their state by source.snapshot yourself")


def _check_entities(spec: ReleaseSpec) -> None:
    """A flat table that keeps its entities."""
    unit = spec.privacy.unit
    if not unit.keeps_entities:
        return
    if spec.method.name != "privpgd":
        raise ValueError(f"unit.columns and unit.order_by are for the method privpgd, not {spec.method.name}")
    if spec.privacy.quality is not None:
        raise ValueError("privacy.quality is for a table that does not keep its entities")
    for name in unit.columns:
        if _is_no_attribute(spec.columns.get(name)):
            raise ValueError(f"unit.columns names {name!r}, which is no modelled column of the spec")
    left = {name: column for name, column in spec.columns.items() if name not in unit.columns}
    for name, column in spec.columns.items():
        if isinstance(column, LaterColumn) and (name in unit.columns) != (column.after in unit.columns):
            raise ValueError(f"{name!r} comes after {column.after!r}: both are of the entity, or neither is")
    if all(column.type in ("identifier", "text", "derived", "lookup") for column in left.values()):
        raise ValueError("unit.columns leaves the rows no column of their own")
    if unit.order_by is not None:
        check_order(unit.order_by, left)


def _is_no_attribute(column: Any) -> bool:
    return column is None or column.type in ("identifier", "text", "derived", "lookup", "tensor", "discover")


def _of_flat(spec: ReleaseSpec, name: str) -> dict[str, Any]:
    """The columns of an entity, or of its rows; those that are made of others belong to the flat table again."""
    unit = spec.privacy.unit
    entity = {str(unit.entity): IdentifierColumn(type="identifier", action="surrogate")}
    told = {
        column: declared
        for column, declared in spec.columns.items()
        if column != unit.entity
        and declared.type not in ("derived", "lookup")
        and (column in unit.columns) == (name == ENTITIES)
    }
    return {**entity, **told}


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
