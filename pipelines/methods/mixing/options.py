"""What a spec may say under `method:` for mixing, and the public design that follows from it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.options import read_options
from understudy.pipelines.spec.public import Public
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

NUMERIC_KINDS = ("integer", "number", "date", "datetime")
MAX_WIDTH = 2000


class MixingOptions(Public):
    label: str = Field(description="category column whose values are the classes")
    rows: int = Field(
        ge=1,
        le=10**10,
        description="about how many rows the table has; public, sets the sampling rate, and need not be right",
    )
    records: int | dict[str, int] | None = Field(
        None, description="synthetic records in all, or for each class; default: as many as `rows`"
    )
    balance: Literal["equal", "sizes"] = Field(
        "equal",
        description="equal: as many records of each class; sizes: in proportion to the noisy class sizes",
    )
    order: int | Literal["auto"] = Field(
        "auto",
        description="l, the records expected in one mixture of an average class; auto: by signal-to-noise",
    )
    sampler: Literal["poisson", "fixed"] = Field(
        "poisson", description="each record joins a mixture by a coin of its own, or mixtures have a fixed size"
    )
    centre: Literal["bought", "bounds"] | dict[str, float] = Field(
        "bought",
        description="what is subtracted: noisy class means, the middle of the bounds, or your own constants",
    )
    scale: Literal["bounds", "bought"] | dict[str, float] = Field(
        "bounds",
        description="what one unit of a column is: half its range, a noisy standard deviation, or your own",
    )
    statistics_share: float = Field(0.1, gt=0, lt=1, description="part of the budget for class sizes and means")
    clip: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="norm bound of a centred, scaled record; default: half the root of their number",
    )
    statistics_clip: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="norm bound of a record in the class means; default: the root of their number",
    )
    class_sizes: dict[str, int] | None = Field(
        None, description="sizes of the classes where they are public; otherwise they are bought"
    )
    label_noise: float | None = Field(
        None,
        gt=0,
        le=100,
        description="the paper's noise on one-hot labels; protects nothing more, spoils labels",
    )

    @model_validator(mode="after")
    def _sensible(self) -> MixingOptions:
        if isinstance(self.order, int) and not 1 <= self.order <= 1_000_000:
            raise ValueError("order must lie between 1 and 1,000,000, or be auto")
        counts = self.records.values() if isinstance(self.records, dict) else (self.records,)
        if any(count is not None and not 1 <= count <= 10**9 for count in counts):
            raise ValueError("records must lie between 1 and 1,000,000,000")
        if isinstance(self.records, dict) and self.balance == "sizes":
            raise ValueError("records of each class are given, so balance must stay equal")
        if isinstance(self.scale, dict) and any(not value > 0 for value in self.scale.values()):
            raise ValueError("scales must be positive")
        if self.class_sizes is not None and any(size < 0 for size in self.class_sizes.values()):
            raise ValueError("class sizes must not be negative")
        return self


def mixing_options(spec: ReleaseSpec, domain: TableDomain) -> MixingOptions:
    """The options of this spec, checked against its columns and its guarantee. Reads no row."""
    for key in ("denoise", "image"):
        if key in spec.method.options:
            raise SpecError(
                f"method.{key}: it changes what is made of the measurement, not what is measured, so it costs nothing",
                f"move it: `generate: {{{key}: ...}}`",
            )
    options = read_options(spec, MixingOptions)
    _check_privacy(spec)
    _check_columns(options, domain)
    image = spec.generate.image
    if image is not None and (min(image) < 1 or image[0] * image[1] != len(feature_columns(options, domain))):
        raise SpecError("generate.image: the numeric columns are not an image of that size", "correct it")
    return options


def _check_privacy(spec: ReleaseSpec) -> None:
    privacy = spec.privacy
    if privacy.relation is not Relation.ADD_REMOVE:
        raise SpecError(
            "mixing is proven under add_remove only: a replaced record may change class and touch two of them",
            "set privacy.relation: add_remove, or use another method",
        )
    if privacy.unit.max_rows != 1:
        raise SpecError(
            "mixing draws rows, not entities, so it protects one row each",
            "set privacy.unit.max_rows: 1 (one row of each entity is kept), or use another method",
        )
    if privacy.noise != "rounded":
        raise SpecError(
            "mixing needs the rounded Gaussian: no bound is proven for the subsampled discrete one",
            "set privacy.noise: rounded",
        )


def _check_columns(options: MixingOptions, domain: TableDomain) -> None:
    if options.label not in domain.names:
        raise SpecError(f"method.label: no modelled column is named {options.label!r}", "name a category column")
    if domain.columns[domain.index(options.label)].kind != "category":
        raise SpecError(f"method.label: {options.label!r} is not a category", "name a category column")
    others = [column for column in domain.columns if column.name != options.label]
    wrong = [column.name for column in others if column.kind not in NUMERIC_KINDS]
    if wrong:
        raise SpecError(
            f"mixing averages numbers; these columns are not numeric: {', '.join(wrong)}",
            "declare them {type: identifier, action: drop}, or use `method: {name: privpgd}`",
        )
    if not 1 <= len(others) <= MAX_WIDTH:
        raise SpecError(f"mixing takes 1 to {MAX_WIDTH} numeric columns", "declare some, or drop some")
    names = {column.name for column in others}
    for key in ("centre", "scale"):
        _check_keys(f"method.{key}", getattr(options, key), names)
    labels = set(domain.columns[domain.index(options.label)].code_labels())
    for key in ("records", "class_sizes"):
        _check_keys(f"method.{key}", getattr(options, key), labels)


def _check_keys(where: str, given: object, known: set[str]) -> None:
    if not isinstance(given, dict):
        return
    strange, missing = sorted(set(given) - known), sorted(known - set(given))
    if strange or missing:
        raise SpecError(
            f"{where}: unknown: {', '.join(strange) or 'none'}; missing: {', '.join(missing) or 'none'}",
            "list exactly one entry for each",
        )


def feature_columns(options: MixingOptions, domain: TableDomain) -> tuple[DomainColumn, ...]:
    return tuple(column for column in domain.columns if column.name != options.label)
