"""What every stage of a release costs before it runs: CPU seconds, memory, bytes moved and bytes written.

Computed from the public domain, the plan and a number of rows, which is private under ADD_REMOVE: give one only if its
owner declares it public. Work is counted in units that the code's loops have (values, cells, vectors of a marginal's
fibres). `python -m benchmarks cost` fits STARTING_SECONDS, FIT_NS, DRAW_NS and VALUE_NS at two sizes and checks them at
a third, and so it does NUMBER_NS, MEASURING_SECONDS, BYTE_NS and the bytes of memory; docs/costs.md has its figures.
NORMAL_NS is an estimate that nothing was fitted to. All are of one core of that machine: expect a factor of two either
way elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from understudy.pipelines.counting.counting import usable_cores
from understudy.pipelines.counting.estimate import PROCESS_BYTES, estimate_counting
from understudy.pipelines.counting.tally import Clique
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.in_parts import sizes_of

STARTING_SECONDS = 5.7
"""Importing Arrow, numba and Great Expectations; an orchestrator's own start comes on top."""
NUMBER_NS = 300.0
"""Drawing the noise of one number, and what is done with it until rows are fitted."""
FIT_NS = 15.8
"""Of a unit of `redraw_units` in the fit: four redraws, then sweeps until little moves."""
DRAW_NS = 2.0
"""Of the same unit in a part: one redraw, and closing what gaps are left."""
NORMAL_NS = 110.0
"""One value of a row that the gaussian method draws."""
VALUE_NS = 200.0
"""One value decoded, encoded, checked, counted and packed."""
BYTE_NS = 3.0
"""One byte hashed, twice, and flushed."""
LANES = 8
TABLE_STEPS = 2
"""A table costs as much as so many more vectors, whatever its codes."""
FITTED_ROWS = 500_000
FITTED_CODES = 64
"""Wider columns are fitted by groups of their codes."""
MEASURING_SECONDS = 0.05
"""The two transactions of a charge, and storing what was bought."""
FITTING_BYTES = 24
"""For each value of the rows that are fitted."""
PART_BYTES = 16
"""For each value of a part that is being made: codes, values, what sorts them, and the file."""
MAKING_BYTES = 100 << 20
"""Beside the parts: the fitted rows, their tables, and what allocators keep of the stages before."""
PUBLISHING_BYTES = 250 << 20
"""What is looked at again of every part, and what allocators keep of making them."""
HELP_SECONDS = 600
"""Longer work is worth a cluster."""


@dataclass(frozen=True)
class StageCost:
    """CPU seconds of all who work on it, memory of each process, bytes over the network where workers are elsewhere."""

    stage: str
    cpu_seconds: float
    peak_mb: float
    moved_mb: float = 0.0
    shared: bool = False
    """Whether several may work on it."""

    def seconds(self, cores: int) -> float:
        return self.cpu_seconds / cores if self.shared else self.cpu_seconds


@dataclass(frozen=True)
class ReleaseCost:
    stages: tuple[StageCost, ...]
    rows: int
    parts: int
    output_mb: float

    @property
    def cpu_seconds(self) -> float:
        return sum(stage.cpu_seconds for stage in self.stages)

    @property
    def peak_mb(self) -> float:
        return max(stage.peak_mb for stage in self.stages)

    def seconds(self, cores: int) -> float:
        return sum(stage.seconds(cores) for stage in self.stages)

    def advice(self, cores: int) -> str | None:
        """When a cluster would help, and by how much at most."""
        here, alone = self.seconds(cores), sum(stage.seconds(1) for stage in self.stages if not stage.shared)
        if here < HELP_SECONDS:
            return None
        workers = max(2 * cores, math.ceil((here - alone) * cores / HELP_SECONDS))
        return f"compute.engine: dask would help: about {_told(self.seconds(workers))} on {workers} workers"


def estimate_release(
    spec: ReleaseSpec, plan: MethodPlan[Any], rows: int, cores: int | None = None, workers: int = 0
) -> ReleaseCost | None:
    """Of a table of so many rows on so many cores, or on so many workers of one core; None where a method's own work
    is not known beforehand."""
    if spec.tree is not None or plan.method not in ("privpgd", "gaussian"):
        return None
    domain, cores = TableDomain.of(spec), cores or usable_cores()
    out = spec.publish.rows or rows
    width = len(domain.columns) + sum(tensor.size for tensor in domain.tensors)
    sizes = sizes_of(out, width)
    threads = 1 if workers else min(cores, len(sizes))
    written = out * row_bytes(domain)
    counts = 8 * sum(math.prod(domain.countable_sizes[column] for column in clique) for clique in plan.counted)
    at_work = PROCESS_BYTES + MAKING_BYTES + threads * (sizes[0] * width * PART_BYTES + 2 * counts)
    stages = [StageCost("starting", STARTING_SECONDS, _resident(PROCESS_BYTES))]
    held = _resident(PROCESS_BYTES)
    if plan.counted:
        counting = estimate_counting(domain, plan.counted, spec.privacy.protected_unit, rows, 1 if workers else cores)
        moved = workers * counts if workers else 0
        stages.append(StageCost("counting", counting.core_seconds, counting.peak_mb, _mb(moved), shared=True))
        held = counting.peak_mb
    numbers = sum(line.numbers for line in plan.noise)
    measuring = MEASURING_SECONDS + numbers * NUMBER_NS * 1e-9
    stages.append(StageCost("measuring", measuring, held + _resident(8 * numbers)))
    fitted, drawn = min(out, FITTED_ROWS), width * NORMAL_NS
    if plan.method == "privpgd":
        units = redraw_units(domain.sizes, plan.counted)
        alone = out if len(sizes) == 1 else fitted
        fitting = PROCESS_BYTES + alone * width * FITTING_BYTES
        stages.append(StageCost("fitting", alone * units * FIT_NS * 1e-9, _resident(fitting)))
        drawn = 0.0 if len(sizes) == 1 else units * DRAW_NS
    sent = (workers * fitted * width * 4 + len(sizes) * counts + written) if workers else 0
    making = out * (drawn + width * VALUE_NS) * 1e-9
    stages.append(StageCost("making rows", making, _resident(at_work), _mb(sent), shared=len(sizes) > 1))
    stages.append(StageCost("publishing", written * BYTE_NS * 1e-9, _resident(PROCESS_BYTES + PUBLISHING_BYTES)))
    return ReleaseCost(tuple(stages), out, len(sizes), written / 1e6)


def redraw_units(sizes: Sequence[int], cliques: Sequence[Clique]) -> int:
    """Vectors that redrawing one row reads: for each column, the fibre of every table that it is in."""
    own = [clique for clique in cliques if clique and max(clique) < len(sizes)]
    joint = [clique for clique in own if len(clique) > 1 and not any(set(clique) < set(other) for other in own)]
    tables = [1 + sum(column in clique for clique in joint) for column in range(len(sizes))]
    codes = [min(size, FITTED_CODES) for size in sizes]
    return sum(each * (-(-size // LANES) + TABLE_STEPS) for each, size in zip(tables, codes, strict=True))


def row_bytes(domain: TableDomain) -> float:
    """Of a published row in Parquet: about the bits that tell its values apart."""
    return sum(_bits(column) for column in domain.columns) / 8 + sum(4 * tensor.size for tensor in domain.tensors)


def _bits(column: DomainColumn) -> float:
    if not column.edges:
        return math.log2(max(column.size, 2))
    low, high = (float(end) for end in column.ends)
    if column.kind == "number" and column.step is None:
        return 60.0
    step = float(column.step) if column.step is not None else 1.0
    return min(60.0, math.log2(max((high - low) / step, 2.0)))


def _mb(size: float) -> float:
    return size / 1e6


def _resident(size: float) -> float:
    """As the system counts memory."""
    return size / 2**20


def _told(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
