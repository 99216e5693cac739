"""What is done with a measurement: rows made, published, computed and scheduled. None of it changes what is measured,
but for the rows of a period."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from understudy.pipelines.spec.address import Address, check_address
from understudy.pipelines.spec.periods import zone
from understudy.pipelines.spec.public import Public
from understudy.pipelines.spec.rules import Rule


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
    generator: Literal["auto", "warped", "conv", "wide", "dcgan", "mlp"] = Field(
        "auto",
        description="kernel: auto is warped for pictures of 28 or 32 pixels (wide, where no edges were released, conv, "
        "where the metric is plain), mlp for anything else",
    )
    training_steps: int | None = Field(
        None, ge=1, le=10_000_000, description="kernel: default 1,200, or 1,500 where the metric is plain"
    )
    metric: Literal["auto", "plain", "whitened"] = Field(
        "auto",
        description="kernel: what training makes small; whitened (auto, where windows or edges were released): the "
        "distance weighted by how well each direction is known; plain: unweighted",
        exclude_if=lambda metric: metric == "auto",
    )
    judged: bool = Field(
        False,
        description="kernel: draw anew what does not look like its class by what was released; needs `release: once`",
        exclude_if=lambda judged: not judged,
    )
    one_a_class: bool = Field(False, description="kernel: train a generator for each class instead of one for all")
    class_mix: Literal["released", "equal"] | dict[str, Annotated[float, Field(ge=0, le=1e9)]] = Field(
        "released", description="kernel: shares of the classes: as released (noisy), equal, or your own"
    )
    rules: tuple[Rule, ...] = Field((), description="public knowledge that every published row obeys")


class RefuseSpec(Public):
    """When nothing is published. Shares of a column's rows are judged by the noisy cells that `quality` bought, the
    verdict by signal and noise of what was measured."""

    unreadable: float | None = Field(None, ge=0, le=1, description="values that were not understood")
    null: float | None = Field(None, ge=0, le=1, description="missing values")
    below: float | None = Field(None, ge=0, le=1, description="values below the declared range")
    above: float | None = Field(None, ge=0, le=1, description="values above the declared range")
    other: float | None = Field(None, ge=0, le=1, description="values that are not listed")
    verdict: Literal["usable with care", "noise"] | None = Field(
        None, description="of the whole copy, this or worse", exclude_if=lambda verdict: verdict is None
    )

    @property
    def limits(self) -> dict[str, float]:
        shares = self.model_dump(exclude={"verdict"})
        return {cell: limit for cell, limit in shares.items() if limit is not None}


class PublishSpec(Public):
    to: str = Field(
        description="a directory, duckdb:///file.duckdb, postgresql://user@host/database, delta:///folder, "
        "iceberg://catalogue, or s3://bucket/path",
        max_length=2000,
    )
    table: str | None = Field(None, description="table name, where the target is a database", max_length=200)
    rows: int | None = Field(None, ge=1, le=1_000_000_000, description="rows to publish; default: the noisy total")
    approval: Literal["none", "required"] = Field("none", description="required: the run pauses for a person's yes")
    keep: int | None = Field(None, ge=1, description="how many releases keep their data; older ones are retired")
    refuse_if: RefuseSpec | None = Field(
        None,
        description="publish nothing if more of a column than this was not understood, as {unreadable: 0.02}, or if "
        "the copy would be {verdict: noise}",
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
