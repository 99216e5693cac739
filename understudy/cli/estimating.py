"""How long counting will take and how much memory it needs, and what of the source's types is lost, said before a row
is read.

How many rows there are is a secret of the table unless its owner declares otherwise, so the source's metadata is opened
only if the spec says `source.rows_are_public`; else the estimate is for a number that somebody assumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

if TYPE_CHECKING:
    from understudy.pipelines.counting.estimate import CountingEstimate
    from understudy.pipelines.releasing.costs import ReleaseCost

ASSUMED_ROWS = 100_000


@dataclass(frozen=True)
class TableSize:
    """A public number of rows, and where it comes from, in words."""

    rows: int
    origin: str


def table_size(spec: ReleaseSpec, base: Path, assumed: int | None) -> TableSize:
    """What the caller assumes; else what metadata says, where that is declared public; else a round number."""
    if assumed is not None:
        return TableSize(assumed, "assumed")
    if spec.tables is not None and spec.tree is not None:  # what counts are the rows of the root
        spec = spec.table(spec.tree.root.name)
    if not spec.source.rows_are_public:
        return TableSize(ASSUMED_ROWS, "assumed; say --assume-rows or declare source.rows_are_public")
    from understudy.pipelines.sources import opening

    try:
        with closing(opening.open_source(spec.source, base)) as source:
            rows = source.row_estimate()
    except UnderstudyError as problem:
        return TableSize(ASSUMED_ROWS, f"assumed, since the metadata cannot be read: {problem}")
    if rows is None:
        return TableSize(ASSUMED_ROWS, "assumed, since this source has no metadata of its size")
    return TableSize(max(rows, 1), "by the source's metadata, declared public")


def types_lost(spec: ReleaseSpec, base: Path) -> list[str]:
    """What declarations lose of the source's types: asked of its catalogue where a `number` is declared, never of a
    row."""
    if spec.tables is not None:
        return [f"{name}: {told}" for name, alone in spec.alone.items() for told in types_lost(alone, base)]
    if not any(column.type == "number" for column in spec.columns.values()):
        return []
    from understudy.pipelines.sources import opening
    from understudy.pipelines.sources.catalogue import source_types
    from understudy.pipelines.table.fitness import type_advice

    try:
        with closing(opening.open_source(spec.source, base, spec)) as source:
            types = source_types(source)
    except UnderstudyError as problem:
        return [f"whether `number` fits the source's types is not known, since its catalogue cannot be read: {problem}"]
    return type_advice(TableDomain.of(spec), types)


def counting_estimate(spec: ReleaseSpec, plan: MethodPlan[Any], size: TableSize) -> CountingEstimate | None:
    """For this machine's cores; None if the method counts no marginals."""
    if not plan.counted:
        return None
    from understudy.pipelines.counting.counting import usable_cores
    from understudy.pipelines.counting.estimate import estimate_counting

    domain, unit = TableDomain.of(spec), spec.privacy.protected_unit
    return estimate_counting(domain, plan.counted, unit, size.rows, usable_cores())


def _counting_line(spec: ReleaseSpec, plan: MethodPlan[Any], size: TableSize) -> Iterator[str]:
    found = counting_estimate(spec, plan, size)
    if found is None:
        return
    passes = f", {found.passes} passes" if found.passes > 1 else ""
    yield (
        f"counting {len(plan.counted)} marginals of {size.rows:,} rows ({size.origin}): about {_time(found.seconds)}"
        f" on this machine's cores, {found.peak_mb:,.0f} MB{passes}"
    )


def release_cost(spec: ReleaseSpec, plan: MethodPlan[Any], size: TableSize) -> ReleaseCost | None:
    """For this machine's cores; None where a method's own work is not known beforehand."""
    from understudy.pipelines.releasing.costs import estimate_release

    return estimate_release(spec, plan, size.rows)


def cost_lines(spec: ReleaseSpec, plan: MethodPlan[Any], size: TableSize) -> Iterator[str]:
    """Time and memory of every stage, the size of what is published, and whether a cluster would help."""
    from understudy.pipelines.counting.counting import usable_cores

    yield from _counting_line(spec, plan, size)
    cost, cores = release_cost(spec, plan, size), usable_cores()
    if cost is None:
        yield f"how long {plan.method} takes to make rows is not known beforehand"
        return
    told = [f"{stage.stage} {_time(stage.seconds(cores))}" for stage in cost.stages if stage.seconds(cores) >= 1]
    parts = f" in {cost.parts:,} parts" if cost.parts > 1 else ""
    yield (
        f"the whole release of {cost.rows:,} rows{parts}: about {_time(cost.seconds(cores))} on this machine's cores "
        f"({', '.join(told)}), {cost.peak_mb:,.0f} MB of memory, {_size(cost.output_mb)} published"
    )
    if spec.compute.engine != "dask" and (advice := cost.advice(cores)) is not None:
        yield f"   ! {advice}"


def _size(megabytes: float) -> str:
    return f"{megabytes / 1000:,.1f} GB" if megabytes >= 1000 else f"{max(megabytes, 0.1):,.1f} MB"


def _time(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
