"""Printing figures and measuring what a piece of work costs."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Figures:
    """Prints the figures whose names start with `only`, and tells what need not be computed."""

    only: str = ""

    def wants(self, prefix: str) -> bool:
        """Whether any figure below `prefix` is asked for."""
        return prefix.startswith(self.only) or self.only.startswith(prefix)

    def show(self, name: str, value: float | None, peer: str | None = None, peer_value: float | None = None) -> None:
        if name.startswith(self.only):
            line = {"figure": name, "value": _short(value), "peer": peer, "peer_value": _short(peer_value)}
            print(json.dumps(line), flush=True)


@dataclass
class Cost:
    """Wall and CPU seconds of all threads, and the most memory resident at one time."""

    seconds: float = field(default=0.0)
    cpu_seconds: float = field(default=0.0)
    peak_mb: float = field(default=0.0)


@contextmanager
def measured() -> Iterator[Cost]:
    """Fills the cost when the block ends."""
    cost = Cost()
    _reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.seconds, cost.cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    cost.peak_mb = _peak_mb()


def _reset_peak() -> None:
    # Linux only: 5 resets the high-water mark. Elsewhere the peak is that of the whole process so far.
    control = Path("/proc/self/clear_refs")
    if control.exists():
        control.write_text("5")


def _peak_mb() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
