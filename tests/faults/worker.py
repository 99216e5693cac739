"""A process that forks cheap releases on demand, so that thousands of them can really be killed.

It reads one line of JSON a batch ({"jobs": [...]}) from standard input, gives each job to a child of its own, kills
those that are to be killed, and answers with one line: how each job ended. A child that survived its job takes
another one (as a worker process does); one that was patched for its job ends with it. The parent never opens a
ledger, so every child starts with no threads, no connections and no state.

A job is a release in miniature: the real ledger, store, spend protocol and directory target, with numbers in place
of a private table. It appends to a journal what happened *in the world*: noise drawn, release published.
"""

from __future__ import annotations

import gc
import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas  # noqa: F401  (imported once here, or pyarrow does it in every child)
import planted_bugs
import psycopg  # noqa: F401
import pyarrow as pa
import pyarrow.compute
import sqlalchemy.dialects.postgresql.psycopg
import sqlalchemy.dialects.sqlite  # noqa: F401

from understudy.pipelines.canonical import sha256_text
from understudy.pipelines.errors import PublishError, UnderstudyError
from understudy.pipelines.privacy.events import Gaussian, to_json
from understudy.pipelines.privacy.ledger import database as ledger_database
from understudy.pipelines.privacy.ledger import holder as ledger_holder
from understudy.pipelines.privacy.ledger.fault_points import VARIABLE, fault_point
from understudy.pipelines.privacy.ledger.ledger import Charge, ChargeRequest, Ledger, State
from understudy.pipelines.privacy.ledger.spend import Patience, Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.noise.rounded import rounded_gaussian
from understudy.pipelines.privacy.relation import Relation, Unit
from understudy.pipelines.publishing.manifest import AccountState, ChargedEvent, Guarantee, Manifest
from understudy.pipelines.publishing.targets.base import PreparedRelease
from understudy.pipelines.publishing.targets.directory import DirectoryTarget
from understudy.pipelines.table.in_parts import Parts

PUBLISH_RETRIES = 0  # duplicates that publish at once must agree without help
ACCOUNT, RELEASE, STAGE, SPEC_HASH = "clinic", "visits", "marginals", "5" * 64


def main() -> None:
    gc.collect()
    gc.freeze()  # the children's collectors leave the shared pages alone
    idle: list[Child] = []
    for line in sys.stdin:
        jobs = json.loads(line)["jobs"]
        while len(idle) < len(jobs):
            idle.append(Child(idle))
        busy = {child: child.start(job) for child, job in zip(idle, jobs, strict=False)}
        answers = _collect(busy)
        print(json.dumps([answers[child] for child in busy]), flush=True)
        idle = [child for child in idle if child not in busy or not child.ended]


class Child:
    """A forked process that runs jobs one after the other until one of them ends it."""

    def __init__(self, others: list[Child]) -> None:
        jobs_out, self._jobs = os.pipe()
        self.answers, answers_in = os.pipe()
        self.ended = False
        self.pid = os.fork()
        if self.pid == 0:
            for pipe in (self._jobs, self.answers, *(end for other in others for end in (other._jobs, other.answers))):
                os.close(pipe)  # a pipe must close when its own process dies
            with os.fdopen(jobs_out) as stream:
                for line in stream:
                    job = json.loads(line)
                    os.write(answers_in, (json.dumps(run(job)) + "\n").encode())
                    if job.keys() & {"bug", "place", "clock"}:
                        break
            os._exit(0)
        os.close(jobs_out)
        os.close(answers_in)

    def start(self, job: dict[str, Any]) -> float:
        """Answers when to kill it."""
        self._one_shot = bool(job.keys() & {"bug", "place", "clock"})
        os.write(self._jobs, (json.dumps(job) + "\n").encode())
        after = job.get("kill_after")
        return float("inf") if after is None else time.monotonic() + after

    def kill(self) -> None:
        """It may have answered a moment before; the answer then counts, but it takes no further job."""
        os.kill(self.pid, signal.SIGKILL)
        self._one_shot = True

    def finish(self) -> dict[str, Any]:
        """What it answered, once there is something to read; nothing to read means that it was killed."""
        text = b""
        while not text.endswith(b"\n") and (more := os.read(self.answers, 1 << 16)):
            text += more
        whole = text.endswith(b"\n")
        if not whole or self._one_shot:
            self.ended = True
            os.close(self._jobs)
            os.close(self.answers)
            os.waitpid(self.pid, 0)
        return json.loads(text) if whole else {"killed": True}


def _collect(busy: dict[Child, float]) -> dict[Child, dict[str, Any]]:
    answers: dict[Child, dict[str, Any]] = {}
    deadlines = dict(busy)
    while len(answers) < len(busy):
        waiting = {child.answers: child for child in busy if child not in answers}
        pause = max(0.0, min(deadlines[child] for child in waiting.values()) - time.monotonic())
        for ready in select.select(list(waiting), [], [], None if pause == float("inf") else pause)[0]:
            answers[waiting[ready]] = waiting[ready].finish()
        for child in waiting.values():
            if child not in answers and time.monotonic() >= deadlines[child]:
                child.kill()
                deadlines[child] = float("inf")
    return answers


def run(job: dict[str, Any]) -> dict[str, Any]:
    """One child's life. Expected errors are answers; anything else is an answer that fails the test."""
    os.environ[VARIABLE] = job.get("fault") or ""
    if job.get("bug"):
        planted_bugs.plant(job["bug"])
    if job.get("meet"):
        planted_bugs.meet = lambda: meet(Path(job["world"]), job["meet"])
    _move_clock(job.get("clock", 0.0))
    if job.get("place"):
        ledger_holder._this_place = lambda pid: job["place"]
    try:
        if "make" in job:
            Ledger(job["make"])
            return {"done": True}
        started = time.perf_counter()
        answer = spend_many(job) if "spends" in job else release(job)
        return {"done": True, "seconds": time.perf_counter() - started, **answer}
    except UnderstudyError as error:
        return {"error": type(error).__name__, "code": error.exit_code, "message": str(error)}
    except BaseException as error:
        return {"error": type(error).__name__, "code": -1, "message": repr(error)}
    finally:
        if job.get("touch"):
            (Path(job["world"]) / job["touch"]).touch()


def meet(world: Path, count: int) -> None:
    (world / f"here-{os.getpid()}").touch()
    wait_for(world, "here-*", count)


def request_for(job: dict[str, Any], snapshot: str, attempt: int = 0) -> ChargeRequest:
    return ChargeRequest(
        account=ACCOUNT,
        relation=Relation.ADD_REMOVE,
        unit=Unit("patient", 5),
        release=RELEASE,
        spec_hash=job.get("spec_hash", SPEC_HASH),
        snapshot=snapshot,
        stage=STAGE,
        event=Gaussian(job["sigma"]),
        flow_run="harness",
        attempt=attempt,
    )


def release(job: dict[str, Any]) -> dict[str, Any]:
    world = Path(job["world"])
    if job.get("after_a_draw"):
        wait_for(world, "journal", 1)
    ledger = Ledger(job["url"], patience_seconds=job.get("ledger_patience", 5))
    request = request_for(job, job["snapshot"])
    pay_again = bool(job.get("pay_again"))
    ledger.check([request], pay_again=pay_again)
    for stage in ("after_ingest", "after_normalize", "after_select", "before_privatize"):
        fault_point(stage)
    held: list[Charge] = []
    purchases = Purchases(
        ledger,
        MeasurementStore(world / "measurements"),
        lambda planned: request,
        on_event=lambda kind, charge: held.append(charge),
        pay_again=pay_again,
        patience=Patience(
            lease=job.get("lease", 30), heartbeat=job.get("heartbeat", 0.05), wait=job.get("wait", 30), poll=0.005
        ),
    )

    def draw(randomness: Any) -> dict[str, np.ndarray]:
        note(world, "draw", mid=held[-1].mid if held else request.mid)
        time.sleep(job.get("draw_seconds", 0))
        if job.get("draw_until"):
            wait_for(world, job["draw_until"], 1)
        if job.get("draw_fails"):
            raise ValueError("a private value")
        counts = rounded_gaussian((4, 5), 10.0, randomness)
        note(world, "drawn", mid=held[-1].mid if held else request.mid, content=content_of(counts))
        bulk = np.random.default_rng(0).integers(0, 2**62, size=job.get("megabytes", 0) << 17)
        return {"counts": counts, "bulk": bulk}

    noise = SimpleNamespace(event=request.event, draw=lambda exact, randomness: draw(randomness))
    mechanism = Mechanism(noise, None, "counts", {"std": 10.0})
    measured = purchases(PlannedCharge(STAGE, request.event), mechanism)
    fault_point("after_privatize")
    counts = measured.arrays["counts"]
    fault_point("after_generate")
    fault_point("after_validate")
    charge = ledger.find(held[-1].mid)
    if charge is None or charge.state is not State.MEASURED:
        return {"published": False}
    publish(world, charge, counts)
    note(world, "published", mid=charge.mid, sha256=charge.measurement_sha256, content=content_of(counts))
    fault_point("after_publish")
    return {"published": True, "mid": charge.mid}


def publish(world: Path, charge: Charge, counts: np.ndarray) -> None:
    event = ChargedEvent(
        stage=charge.stage,
        mid=charge.mid,
        description="",
        event=to_json(charge.event),
        measurement_sha256=charge.measurement_sha256 or "",
    )
    manifest = Manifest(
        name=RELEASE,
        release_id=f"{charge.snapshot}-{charge.mid[:12]}",
        snapshot=charge.snapshot,
        created_at=charge.created_at,
        guarantee=Guarantee(
            sentence="", relation=Relation.ADD_REMOVE, unit="", epsilon=1, delta=1e-6, accountant="", events=(event,)
        ),
        account=AccountState(name=ACCOUNT, cap_epsilon="", cap_delta="", spent_epsilon=0, releases_charged=0),
        method="none",
        steps=(),
        noise=(),
        rows=counts.size,
        columns=("count",),
        spec_hash=charge.spec_hash,
        spec={},
        versions={},
    )
    prepared = PreparedRelease(manifest, Parts.of(pa.table({"count": counts.ravel()})), "<html></html>")
    for retries_left in range(PUBLISH_RETRIES, -1, -1):
        try:
            DirectoryTarget(world / "published").publish(prepared)
            return
        except (PublishError, OSError):
            if not retries_left:
                raise
            time.sleep(random.SystemRandom().random() * 0.2)


def spend_many(job: dict[str, Any]) -> dict[str, Any]:
    """Race: many charges in a row, some contested by every process; answers the time each took."""
    world, ledger = Path(job["world"]), Ledger(job["url"], busy_seconds=300)
    seconds, refused = [], 0
    for snapshot in job["spends"]:
        request = request_for(job, snapshot)
        holder = ledger_holder.Holder.here()
        started = time.perf_counter()
        try:
            with ledger_holder.in_progress(holder):
                charge = ledger.charge(request, holder)
                if charge.state is State.CHARGED and charge.holder == holder:
                    note(world, "draw", mid=charge.mid)
                    ledger.record_measurement(charge.mid, sha256_text(holder.token), holder)
        except UnderstudyError as error:
            if error.exit_code != 3:
                raise
            refused += 1
        seconds.append(time.perf_counter() - started)
    return {"each": seconds, "refused": refused}


def note(world: Path, what: str, **facts: Any) -> None:
    """One atomic append: survives a kill of this process right after."""
    line = (json.dumps({"what": what, **facts}) + "\n").encode()
    descriptor = os.open(world / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, line)
    os.close(descriptor)


def wait_for(world: Path, pattern: str, count: int) -> None:
    """Until that many such files exist: how the processes of a scenario meet, whatever the load."""
    for _ in range(12_000):
        if len(list(world.glob(pattern))) >= count:
            return
        time.sleep(0.005)


def content_of(counts: np.ndarray) -> str:
    return sha256_text(json.dumps(np.asarray(counts).ravel().tolist()))


def _move_clock(seconds: float) -> None:
    if seconds:
        for name in ("_SQLITE_NOW", "_POSTGRES_NOW"):
            setattr(ledger_database, name, f"({getattr(ledger_database, name)} + ({seconds}))")


if __name__ == "__main__":
    main()
