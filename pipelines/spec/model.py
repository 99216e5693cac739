"""The release spec: everything public about one release, typed, versioned by its hash, and refused if it is wrong."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.privacy.ledger.names import account_name_problem
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.spec.address import Address, check_address
from understudy.pipelines.spec.columns import CategoryColumn, DatetimeColumn, IdentifierColumn, Public, TensorColumn
from understudy.pipelines.spec.derived import Column, DerivedColumn, LaterColumn, LookupColumn, tagged
from understudy.pipelines.spec.dialect import COMMAS, CsvDialect
from understudy.pipelines.spec.periods import Period, period_named, zone
from understudy.pipelines.spec.plugins import METHODS, names
from understudy.pipelines.spec.rules import Rule

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class SourceSpec(Public):
    uri: str = Field(
        description="duckdb:///file.duckdb, postgresql://user@host/database, a Parquet or CSV file or directory, "
        "or one in an object store (s3://bucket/path); for tensors also an .npz or idx file, or a folder of pictures",
        max_length=2000,
    )
    table: str | None = Field(None, description="table or view name, where the source is a database", max_length=200)
    snapshot: str = Field(
        min_length=1,
        max_length=200,
        description="names the state of the data; a new one is a new, charged release; {{ month }} is filled in",
    )
    rows_are_public: bool = Field(
        False,
        description="you declare that the number of rows is no secret; `plan` then reads it from the source's metadata",
    )
    quoted_newlines: bool = Field(
        False,
        description="CSV: a quoted field may hold line breaks. A stray quote then joins rows up to the next quote, so "
        "declare it only of files that a program wrote; without it every line is a row of its own",
    )

    csv: CsvDialect = Field(
        COMMAS,
        description="CSV: how the file is written, where it is not commas, quotes and UTF-8",
        exclude_if=lambda dialect: dialect == COMMAS,
    )

    id: str | None = Field(
        None,
        pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$",
        description="names the data itself, wherever it lies: a measurement then belongs to this name and not to a "
        "path or server, and is found again after a move. Two sources never share an id",
    )
    external: bool = Field(
        False,
        description="DuckDB: a view may read files and other databases; whoever can write those then decides what is "
        "measured",
    )

    @field_validator("uri")
    @classmethod
    def _public_address(cls, uri: str) -> str:
        return check_address(uri, "source.uri")

    @property
    def address(self) -> Address:
        return Address.parse(self.uri, "source.uri", self.table)


class UnitSpec(Public):
    entity: str | None = Field(None, description="column that says whose row it is; omit it to protect single rows")
    max_rows: int = Field(1, ge=1, le=1_000_000, description="rows kept for one entity; the rest are dropped")
    ids: Literal["text"] | None = Field(
        None,
        description="text: ids are compared letter by letter. Otherwise blanks around them do not count and texts that "
        "are plain numbers are numbers, so that 7, 7.0 and 07 are one entity",
        exclude_if=lambda ids: ids is None,  # specs older than this key keep their hash
    )

    @model_validator(mode="after")
    def _row_unit(self) -> UnitSpec:
        if self.entity is None and self.ids is not None:
            raise ValueError("unit.ids says how an entity column is read; name it as unit.entity or drop ids")
        if self.entity is None and self.max_rows != 1:
            raise ValueError("max_rows needs an entity column; name it as unit.entity or drop max_rows")
        return self


class PrivacySpec(Public):
    account: str = Field(description="ledger account that pays")
    relation: Relation = Field(
        Relation.ADD_REMOVE, description="neighbours differ in one unit more or less, or in one unit changed"
    )
    unit: UnitSpec = Field(UnitSpec(), description="whose presence is hidden: a row, or an entity with its rows")
    epsilon: Decimal = Field(gt=0, le=100, description="what the release may cost; smaller is more private and noisier")
    delta: Decimal = Field(gt=0, lt=1, description="far below one over the number of entities, such as 1e-6")
    noise: Literal["rounded", "opendp"] = Field("rounded", description="sampler of the integer Gaussian noise")
    quality: float | None = Field(
        None,
        gt=0,
        le=0.5,
        description="privpgd: part of the budget, such as 0.02, that tells how much of each column was understood, "
        "null, unreadable, out of range or not listed",
        exclude_if=lambda share: share is None,  # specs older than this key keep their hash and their event
    )

    @field_validator("epsilon", "delta")
    @classmethod
    def _one_spelling(cls, amount: Decimal) -> Decimal:
        return amount.normalize()  # 1, 1.0 and 1e0 are one budget and must have one hash

    @field_validator("account")
    @classmethod
    def _account_name(cls, account: str) -> str:
        if (problem := account_name_problem(account)) is not None:
            raise ValueError(problem)
        return account

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta)

    @property
    def protected_unit(self) -> Unit:
        return Unit(self.unit.entity, self.unit.max_rows, self.unit.ids == "text")


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


class GenerateSpec(Public):
    """How rows are made from what was measured. Post-processing: change it and repeat it without paying again."""

    particles: int | None = Field(None, ge=1, le=10_000_000, description="privpgd: default one a row, at most 100,000")
    epochs: int | None = Field(None, ge=0, le=100_000, description="privpgd: passes over all marginals")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where particles or generators are computed")
    denoise: Literal["none", "spectral"] | None = Field(
        None,
        description="mixing: publish noisy mixtures, or (default) records rebuilt from what stands above the noise",
    )
    image: tuple[int, int] | None = Field(
        None,
        description="mixing: height and width, where the columns are pixels row by row; denoising expects smoothness",
    )
    generator: Literal["auto", "conv", "dcgan", "mlp"] = Field(
        "auto", description="kernel: auto is conv for pictures of 28 or 32 pixels, mlp for anything else"
    )
    training_steps: int | None = Field(None, ge=1, le=10_000_000, description="kernel: default 1,500")
    one_a_class: bool = Field(False, description="kernel: train a generator for each class instead of one for all")
    class_mix: Literal["released", "equal"] | dict[str, Annotated[float, Field(ge=0, le=1e9)]] = Field(
        "released", description="kernel: shares of the classes: as released (noisy), equal, or your own"
    )
    rules: tuple[Rule, ...] = Field((), description="public knowledge that every published row obeys")


class RefuseSpec(Public):
    """Shares of a column's rows above which nothing is published; judged by the noisy cells that `quality` bought."""

    unreadable: float | None = Field(None, ge=0, le=1, description="values that were not understood")
    null: float | None = Field(None, ge=0, le=1, description="missing values")
    below: float | None = Field(None, ge=0, le=1, description="values below the declared range")
    above: float | None = Field(None, ge=0, le=1, description="values above the declared range")
    other: float | None = Field(None, ge=0, le=1, description="values that are not listed")

    @property
    def limits(self) -> dict[str, float]:
        return {cell: limit for cell, limit in self.model_dump().items() if limit is not None}


class PublishSpec(Public):
    to: str = Field(
        description="a directory, duckdb:///file.duckdb, postgresql://user@host/database, or s3://bucket/path",
        max_length=2000,
    )
    table: str | None = Field(None, description="table name, where the target is a database", max_length=200)
    rows: int | None = Field(None, ge=1, le=1_000_000_000, description="rows to publish; default: the noisy total")
    approval: Literal["none", "required"] = Field("none", description="required: the run pauses for a person's yes")
    keep: int | None = Field(None, ge=1, description="how many releases keep their data; older ones are retired")
    refuse_if: RefuseSpec | None = Field(
        None,
        description="publish nothing if more of a column than this was not understood: {unreadable: 0.02}",
        exclude_if=lambda limits: limits is None,
    )

    @field_validator("to")
    @classmethod
    def _public_address(cls, to: str) -> str:
        return check_address(to, "publish.to")

    @property
    def address(self) -> Address:
        return Address.parse(self.to, "publish.to", self.table)

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two publications different ones: not who approves them, nor how long they are kept."""
        return self.model_dump(mode="json", exclude={"approval", "keep", "refuse_if"})


class ComputeSpec(Public):
    engine: Literal["local", "dask"] = Field("local", description="where rows are counted; the counts are the same")
    scheduler: str | None = Field(None, description="address of a running Dask scheduler", max_length=2000)

    @field_validator("scheduler")
    @classmethod
    def _public_address(cls, scheduler: str | None) -> str | None:
        return scheduler and check_address(scheduler, "compute.scheduler")


class RollingSpec(Public):
    """A release for each period, named by its label. What is declared about its entities decides how they compose."""

    period: Literal["day", "week", "month", "quarter", "year"] = Field("month", description="how long one lasts")
    entities: Literal["recurring", "disjoint"] = Field(
        "recurring",
        description="recurring: an entity may be in several periods, which compose one after the other. disjoint: you "
        "declare that none is in two, so the worst period counts; if that is false, so is the guarantee",
    )
    column: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="date or datetime column: only rows whose value (UTC) lies in the period that the snapshot names "
        "are read, before any row is chosen or counted; needed for entities: disjoint where the unit is a row",
    )
    warn_below: int = Field(3, ge=0, le=1000, description="warn when the cap pays for fewer further periods than this")


class ScheduleSpec(Public):
    """When and where `understudy deploy` has the release run. It cannot change what is measured."""

    cron: str = Field(max_length=200, description="five fields, such as `0 6 1 * *`")
    timezone: str = Field("UTC", max_length=60, description="of the schedule and of {{ month }}")
    pool: str = Field("understudy-cpu", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="Prefect work pool")
    tags: tuple[str, ...] = Field((), max_length=20, description="of the deployment's runs")

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, cron: str) -> str:
        if len(cron.split()) != 5:
            raise ValueError("a cron schedule has five fields: minute, hour, day, month, weekday")
        return " ".join(cron.split())

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        zone(name)
        return name


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
