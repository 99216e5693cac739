"""Generate: synthetic rows from released numbers alone. Post-processing, so it may be retried for ever."""

from __future__ import annotations

import shutil
from pathlib import Path

from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.approving import Approval
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.checking import require_worthwhile
from understudy.pipelines.releasing.generating import generate_rows, parts_beside
from understudy.pipelines.releasing.making import Workers, by_threads
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.releasing.policy import Policy, scheduler_of
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.synthetic_tree import Made
from understudy.tasks.telling.reporting import artifact_key, progress_of, report_samples
from understudy.tasks.telling.retrying import retried
from understudy.tasks.telling.stages import stage

GPU_TAG = "gpu"


@retried
@stage("generating")
def generate(measured: Measurement, planned: Planned, approval: Approval, books: Books, base: Path) -> Made:
    name = planned.spec.name
    require_worthwhile(measured, planned)  # what would not be published need not be made
    with progress_of(f"generating {name}", artifact_key(name, "generate")) as progress:
        synthetic = generate_rows(
            measured,
            planned,
            books.generators,
            progress=progress,
            place_of=parts_beside(planned.spec, approval.mids, books, base),
            workers=_workers(planned),
        )
    report_samples(planned.spec, synthetic)
    fault_point("after_generate")
    return synthetic


def _workers(planned: Planned) -> Workers:
    """Who makes the parts of a large table: threads of this process or, where the spec says so, Dask's workers."""
    spec = planned.spec
    if spec.compute.engine != "dask":
        return by_threads
    from understudy.tasks.engines.dask_making import by_dask

    return by_dask(scheduler_of(spec, Policy.from_environment()), type(planned.method).__module__)


def device_tags(spec: ReleaseSpec) -> set[str]:
    """The `gpu` tag, by which Prefect limits concurrency, when generation will run on a GPU."""
    if spec.generate.device == "auto" and shutil.which("nvidia-smi") is None:
        return set()  # importing torch to learn the same takes seconds
    return set() if spec.generate.device == "cpu" else {GPU_TAG}
