"""Generate: synthetic rows from released numbers alone. Post-processing, so it may be retried for ever."""

from __future__ import annotations

import shutil

import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.tasks.telling.reporting import artifact_key, progress_of, report_samples
from understudy.tasks.telling.retrying import worth_retrying
from understudy.tasks.telling.stages import stage

GPU_TAG = "gpu"


@task(
    retries=2,
    retry_delay_seconds=2,
    retry_condition_fn=worth_retrying,
    persist_result=False,
    cache_policy=NO_CACHE,
)
@stage("generating")
def generate(measured: Measurement, spec: ReleaseSpec) -> pa.Table:
    with progress_of(f"generating {spec.name}", artifact_key(spec.name, "generate")) as progress:
        table = method_named(spec.method.name).generate(
            measured, spec, TableDomain.of(spec), spec.publish.rows, progress
        )
    report_samples(spec, table)
    fault_point("after_generate")
    return table


def device_tags(spec: ReleaseSpec) -> set[str]:
    """The `gpu` tag, by which Prefect limits concurrency, when generation will run on a GPU."""
    if spec.generate.device == "auto" and shutil.which("nvidia-smi") is None:
        return set()  # importing torch to learn the same takes seconds
    return set() if spec.generate.device == "cpu" else {GPU_TAG}
