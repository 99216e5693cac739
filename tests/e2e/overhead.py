"""What orchestration costs: the time of a flow minus the time its stages work, on a small table, the server running.

    python -m tests.e2e.overhead

Stages are timed inside their tasks, so everything Prefect adds (states, artifacts, events, logs) is overhead.
Prints one JSON line a run: the first run of a process, and the median of the following ones.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "CRITICAL")
os.environ.setdefault("DO_NOT_TRACK", "1")

STAGES = ("select", "afford", "already_published", "recall", "ingest", "normalize", "privatize", "generate", "validate",
          "publish")  # fmt: skip
RUNS = 5


def main() -> None:
    from prefect.testing.utilities import prefect_test_harness

    from tests.examples import SPEC, build_clinic
    from understudy.flows import release as module
    from understudy.pipelines.privacy.ledger.ledger import Ledger
    from understudy.pipelines.privacy.relation import Budget, Relation, Unit
    from understudy.pipelines.spec.reading import parse_spec

    worked = [0.0]
    for name in STAGES:
        stage = getattr(module, name)
        stage.fn = timed(stage.fn, worked)
    text = SPEC + "generate: {epochs: 20, particles: 2000, device: cpu}\n"
    with tempfile.TemporaryDirectory() as folder, prefect_test_harness(server_startup_timeout=180):
        os.environ["UNDERSTUDY_HOME"] = f"{folder}/home"
        os.environ.pop("UNDERSTUDY_LEDGER", None)
        build_clinic(Path(folder))
        ledger = Ledger(f"sqlite:///{folder}/home/ledger.db")
        ledger.open_account("clinic", Relation.ADD_REMOVE, Unit("patient_id", 4), Budget("90", "1e-6"))
        overheads = []
        for number in range(RUNS):
            spec = parse_spec(text.replace('"2026-10"', f'"run-{number}"'))
            worked[0] = 0.0
            started = time.perf_counter()
            module.release(spec, Path(folder))
            took = time.perf_counter() - started
            overheads.append(took - worked[0])
            print(json.dumps({"run": number, "flow_seconds": round(took, 2), "stage_seconds": round(worked[0], 2),
                              "overhead_seconds": round(took - worked[0], 2)}))  # fmt: skip
        print(json.dumps({"overhead_first": round(overheads[0], 2),
                          "overhead_median_after": round(statistics.median(overheads[1:]), 2),
                          "load_average": os.getloadavg()[0]}))  # fmt: skip


def timed(function: Any, total: list[float]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            total[0] += time.perf_counter() - started

    return wrapper


if __name__ == "__main__":
    main()
