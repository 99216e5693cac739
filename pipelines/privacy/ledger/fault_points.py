"""Named places where a test may kill the process, so that every crash the protocol claims to survive can be
made.

A fault point does nothing unless the environment says `UNDERSTUDY_FAULT=<name>`; then the process kills
itself there with SIGKILL (no handler, no `finally`, no flush), raises `FaultInjected` with
`UNDERSTUDY_FAULT=<name>:raise`, or waits with `UNDERSTUDY_FAULT=<name>:<seconds>`, so that a signal can meet it there.
"""

from __future__ import annotations

import os
import signal
import time

VARIABLE = "UNDERSTUDY_FAULT"

PROTOCOL_POINTS = (
    "before_t1",  # nothing charged
    "inside_t1",  # charge inserted, not committed
    "after_t1",  # charged, no noise drawn
    "after_draw",  # noise drawn, only in memory
    "measurement_staged",  # noise on disk under a temporary name
    "measurement_renamed",  # noise on disk under its final name, ledger not told
    "inside_t2",  # ledger told, not committed
    "after_t2",  # measured; everything later is post-processing
)
STAGE_POINTS = (
    "after_ingest",
    "after_normalize",
    "after_select",
    "before_privatize",
    "after_privatize",
    "after_generate",
    "after_validate",
    "publish_staged",
    "publish_mid_rename",
    "publish_before_pointer",
    "after_publish",
)
FAULT_POINTS = PROTOCOL_POINTS + STAGE_POINTS
METHOD_POINTS = (
    "after_discover",  # met where a spec leaves something open
    "catalogue_staged",  # met by directories, after a release is published
    "part_kept",  # met by tables that are made in parts, after each that is kept
    "training_checkpointed",  # met by one method only, so not part of every release's kills
    "published_unrecorded",  # in its place, the ledger not told; met by what is published for a ledger
)


class FaultInjected(RuntimeError):
    """Raised instead of a kill, to test the paths that do see an exception."""


def fault_point(name: str) -> None:
    if name not in FAULT_POINTS + METHOD_POINTS:
        raise ValueError(f"{name!r} is not a fault point; add it to FAULT_POINTS so that the harness covers it")
    target, _, mode = os.environ.get(VARIABLE, "").partition(":")
    if target != name:
        return
    if mode == "raise":
        raise FaultInjected(f"fault injected at {name}")
    if mode:
        time.sleep(float(mode))
        return
    os.kill(os.getpid(), signal.SIGKILL)
