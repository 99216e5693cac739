"""What a spec may say under `method:` for the kernel method, checked against its columns and its guarantee."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, field_validator, model_validator

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.kernel.edges import Edges
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.options import read_options
from understudy.pipelines.spec.public import Public
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

NUMERIC_KINDS = ("integer", "number", "date", "datetime")
MAX_WIDTH = 65_536
MAX_NUMBERS = 50_000_000
"""Released numbers in all: 400 MB, which are held at once."""
DEFAULT_BANDWIDTHS = (0.11, 0.21)
"""Times the root of the number of values: 3 and 6 for pictures of 28 x 28 pixels."""
DEFAULT_SMOOTHING = 0.7
DEFAULT_WINDOWS = (4.0, 2.0)
EDGE_BANDWIDTHS = (0.032, 0.059)
"""Times the root of the number of edges: 0.63 and 1.17 for pictures of 28 x 28 pixels."""
LEAST_SIDE = 16
"""Pixels of a picture's shorter side below which windows would see all of it, and squares of edges a pixel or two."""


class KernelOptions(Public):
    label: str | None = Field(None, description="category column whose values are the classes; none: one class")
    rows: int = Field(
        ge=1,
        le=10**10,
        description="about how many rows the table has; public, and need not be right: noise is never divided by it",
    )
    release: Literal["once", "steps"] = Field(
        "once",
        description="once: one noisy embedding of the whole table; steps: one of a fresh sample and kernel a step",
    )
    frequencies: int | None = Field(
        None,
        ge=8,
        le=1_000_000,
        description="random frequencies: in all (once), a step (steps); default: 4,000, or 2,000 with windows and no "
        "edges",
    )
    bandwidths: tuple[float, ...] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description="of the Gaussian kernels, on values scaled to [0, 1]; default: 0.11 and 0.21 times the root of "
        "their number. Public: never look for them in the private table",
    )
    smoothing: float | None = Field(
        None, ge=0, le=100, description="pixels by which pictures are blurred inside the kernel; default: 0.7"
    )
    windows: tuple[float, ...] | None = Field(
        None,
        max_length=8,
        description="once: sizes in pixels of the parts of a picture that half of the frequencies look at, in equal "
        "shares; default: 4 and 2 for pictures of at least 16 pixels, none for anything else. Public",
    )
    edges: bool | None = Field(
        None,
        description="once: whether half of the frequencies look at how much a picture brightens in eight directions, "
        "by small squares, instead of at its pixels; default: yes for pictures of at least 16 pixels. Public",
    )
    rate: float | None = Field(None, gt=0, lt=1, description="steps: chance of a record to be in a step; default: auto")
    steps: int | None = Field(None, ge=1, le=1_000_000, description="steps: how many; default: by `seconds`")
    seconds: float = Field(600.0, gt=0, le=1e7, description="steps: about how long the release may take; public")
    class_sizes: dict[str, int] | None = Field(
        None, description="sizes of the classes where they are public; by default they are bought with the rest"
    )

    @field_validator("bandwidths")
    @classmethod
    def _positive(cls, bandwidths: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if bandwidths is not None and any(not (math.isfinite(b) and 1e-3 <= b <= 1e6) for b in bandwidths):
            raise ValueError("bandwidths lie between 0.001 and 1,000,000")
        return bandwidths

    @field_validator("windows")
    @classmethod
    def _in_pixels(cls, windows: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if windows is not None and any(not 0.5 <= window <= 1000 for window in windows):
            raise ValueError("windows lie between 0.5 and 1,000 pixels")
        if windows is not None and len(set(windows)) < len(windows):
            raise ValueError("a window is named twice")
        return windows

    @model_validator(mode="after")
    def _coherent(self) -> KernelOptions:
        if self.release == "once" and (self.rate is not None or self.steps is not None):
            raise ValueError("rate and steps belong to `release: steps`; drop them, or choose it")
        if self.release == "steps" and self.windows:
            raise ValueError("windows belong to `release: once`; drop them, or choose it")
        if self.release == "steps" and self.edges:
            raise ValueError("edges belong to `release: once`; drop them, or choose it")
        if self.class_sizes is not None and any(size < 0 for size in self.class_sizes.values()):
            raise ValueError("class sizes must not be negative")
        return self


def kernel_options(spec: ReleaseSpec, domain: TableDomain) -> KernelOptions:
    """The options of this spec, checked. Reads no row."""
    options = read_options(spec, KernelOptions)
    _check_privacy(spec, options)
    _check_columns(options, domain)
    return options


def numeric_columns(options: KernelOptions, domain: TableDomain) -> tuple[DomainColumn, ...]:
    return tuple(column for column in domain.columns if column.name != options.label)


def width_of(options: KernelOptions, domain: TableDomain) -> int:
    """Values of one record: those of its tensors, then one for each numeric column."""
    return sum(tensor.size for tensor in domain.tensors) + len(numeric_columns(options, domain))


def class_names(options: KernelOptions, domain: TableDomain) -> list[str]:
    return ["all"] if options.label is None else domain.columns[domain.index(options.label)].code_labels()


def bandwidths_of(options: KernelOptions, width: int) -> tuple[float, ...]:
    return options.bandwidths or tuple(share * math.sqrt(width) for share in DEFAULT_BANDWIDTHS)


def frequencies_of(options: KernelOptions, domain: TableDomain) -> int:
    """More of them tell training little that it does not know, and take as much longer to release."""
    windows_only = windows_of(options, domain) and not edge_bandwidths_of(options, domain)
    return options.frequencies or (2000 if windows_only else 4000)


def steps_that_fit(frequencies: int, classes: int) -> int:
    return max(1, MAX_NUMBERS // (classes * (2 * frequencies + 1)))


def picture_of(options: KernelOptions, domain: TableDomain) -> tuple[int, int, int] | None:
    """Height, width and channels, where a record is one picture and nothing else."""
    if len(domain.tensors) != 1 or numeric_columns(options, domain):
        return None
    shape = domain.tensors[0].shape
    if len(shape) == 2:
        return (shape[0], shape[1], 1)
    return (shape[0], shape[1], shape[2]) if len(shape) == 3 else None


def smoothing_of(options: KernelOptions, domain: TableDomain) -> float:
    picture = picture_of(options, domain)
    if picture is None:
        if options.smoothing:
            raise SpecError("method.smoothing is for records that are one picture", "drop it")
        return 0.0
    return DEFAULT_SMOOTHING if options.smoothing is None else options.smoothing


def windows_of(options: KernelOptions, domain: TableDomain) -> tuple[float, ...]:
    picture = picture_of(options, domain)
    if picture is None and options.windows:
        raise SpecError("method.windows is for records that are one picture", "drop it")
    if options.windows is not None:
        return options.windows
    return DEFAULT_WINDOWS if _large(options, picture) else ()


def edge_bandwidths_of(options: KernelOptions, domain: TableDomain) -> tuple[float, ...]:
    """None where edges are not looked at."""
    picture = picture_of(options, domain)
    if picture is None and options.edges:
        raise SpecError("method.edges is for records that are one picture", "drop it")
    if picture is None or options.edges is False:
        return ()
    numbers = Edges(*picture).numbers
    if numbers > MAX_WIDTH and options.edges:
        raise SpecError(f"such a picture has {numbers:,} edges; {MAX_WIDTH:,} is the most", "drop method.edges")
    if options.edges is None and not (_large(options, picture) and numbers <= MAX_WIDTH):
        return ()
    return tuple(share * math.sqrt(numbers) for share in EDGE_BANDWIDTHS)


def _large(options: KernelOptions, picture: tuple[int, int, int] | None) -> bool:
    return picture is not None and min(picture[:2]) >= LEAST_SIDE and options.release == "once"


def _check_privacy(spec: ReleaseSpec, options: KernelOptions) -> None:
    if spec.privacy.noise != "rounded":
        raise SpecError(
            "the kernel method needs the rounded Gaussian: no bound is proven for a function with discrete noise",
            "set privacy.noise: rounded",
        )
    if options.release == "steps" and spec.privacy.unit.max_rows != 1:
        raise SpecError(
            "steps sample rows, not entities, so they protect one row each",
            "set privacy.unit.max_rows: 1, or method.release: once",
        )


def _check_columns(options: KernelOptions, domain: TableDomain) -> None:
    if options.label is not None:
        if options.label not in domain.names:
            raise SpecError(f"method.label: no modelled column is named {options.label!r}", "name a category column")
        if domain.columns[domain.index(options.label)].kind not in ("category", "boolean"):
            raise SpecError(f"method.label: {options.label!r} is not a category", "name a category or boolean column")
    wrong = [column.name for column in numeric_columns(options, domain) if column.kind not in NUMERIC_KINDS]
    if wrong:
        raise SpecError(
            f"kernel embeds numbers; these columns are not numeric: {', '.join(wrong)}",
            "name one of them as method.label, drop them, or use `method: {name: privpgd}`",
        )
    if not 1 <= width_of(options, domain) <= MAX_WIDTH:
        raise SpecError(f"a record must hold 1 to {MAX_WIDTH:,} numbers", "declare a tensor or numeric columns")
    names = set(class_names(options, domain))
    if options.class_sizes is not None and set(options.class_sizes) != names:
        raise SpecError("method.class_sizes must give one size for each class", f"give {', '.join(sorted(names))}")
    numbers = len(names) * (2 * frequencies_of(options, domain) + 1) * (options.steps or 1)
    if numbers > MAX_NUMBERS:
        raise SpecError(
            f"{numbers:,} numbers would be released; {MAX_NUMBERS:,} is the most",
            "lower method.frequencies or method.steps",
        )
