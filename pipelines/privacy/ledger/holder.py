"""Who holds a charge between T1 and T2, and whether that process can still finish.

A live holder must never be burnt, and a dead one must not block its release for long. Three questions, in
this order:

1. Same machine, boot and pid namespace? Then the kernel knows: the process with this pid *and* this start
   time runs or it does not. No clock is asked.
2. This very process? Then its own register of purchases in progress knows: a failed attempt has left it.
3. Anywhere else, only the lease speaks (see `spend`): expired by the database's clock *and* not renewed
   while watched.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

_active: set[str] = set()
_active_lock = threading.Condition()
_closed = threading.Event()


class Presence(Enum):
    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Holder:
    """One attempt to buy, by one process. `token` is new for every attempt, so a reused pid is never
    mistaken for it."""

    token: str
    place: str
    pid: int
    started: str

    @classmethod
    def here(cls) -> Holder:
        pid = os.getpid()
        _, started = _process_state(pid) or ("", "")
        return cls(uuid.uuid4().hex, _this_place(pid), pid, started)

    def presence(self) -> Presence:
        me = os.getpid()
        if self.place != _this_place(me) or not self.started:
            return Presence.UNKNOWN
        found = _process_state(self.pid)
        if found is None or found[1] != self.started or found[0] in "ZX":
            return Presence.DEAD
        if self.pid != me:
            return Presence.ALIVE
        with _active_lock:
            return Presence.ALIVE if self.token in _active else Presence.DEAD

    def __str__(self) -> str:
        return f"process {self.pid} on {self.place.split('/')[0]}"


@contextmanager
def in_progress(holder: Holder) -> Iterator[None]:
    """Marks the attempt as alive for other threads of this process."""
    with _active_lock:
        _active_lock.wait_for(lambda: not _closed.is_set())  # for ever, if this process is about to end
        _active.add(holder.token)
    try:
        yield
    finally:
        with _active_lock:
            _active.discard(holder.token)
            _active_lock.notify_all()


def close_purchases(seconds: float) -> bool:
    """Before this process ends: no purchase begins any more, and one between T1 and T2 gets so long to finish."""
    with _active_lock:
        _closed.set()
        return _active_lock.wait_for(lambda: not _active, timeout=seconds)


def _process_state(pid: int) -> tuple[str, str] | None:
    """(state letter, start time in clock ticks since boot) from /proc, or None where there is no such
    process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the command name before it may contain anything
    return fields[0], fields[19]


@lru_cache(maxsize=4)
def _this_place(pid: int) -> str:
    """Hostname, boot id and pid namespace: two containers of one host see different processes under one pid.

    Keyed by pid, since a forked child may have moved to another namespace.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        boot = namespace = "unknown"
    return f"{socket.gethostname()}/{boot}/{namespace}"
