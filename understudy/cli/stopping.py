"""Commands that end when they are told to: Ctrl-C, SIGTERM and SIGHUP are answered in one line within three seconds.

The command works in a thread of its own, so that this one is always free to answer; nothing is ever interrupted in
the middle. A purchase between T1 and T2 gets two seconds to finish, no other begins, and then the process
ends as if it had been killed, which every stage survives: what was paid is found by the next run.
"""

from __future__ import annotations

import contextvars
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

import click

Result = TypeVar("Result")
SECONDS_FOR_A_PURCHASE = 2.0
SECONDS_FOR_TELLING = 0.8
SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
_SHOW_CURSOR = "\r\x1b[K\x1b[?25h"

_last_words: list[Callable[[str], None]] = []


class Stopped(BaseException):
    def __init__(self, number: int) -> None:
        self.number = number


def before_stopping(tell: Callable[[str], None]) -> None:
    """Have `tell` called with the signal's name, in a thread that gets less than a second, before the process ends."""
    _last_words.append(tell)


def stoppable(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises; or the end of this process."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[Result] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="understudy", daemon=True)
    before = {number: signal.signal(number, stop) for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    try:
        thread.start()
        while not done.wait(0.2):
            pass  # not one long wait: a signal that another thread receives would not end it
    except Stopped as stopped:
        _end(stopped.number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _end(number: int) -> None:
    from understudy.pipelines.privacy.ledger.holder import close_purchases

    for ignored in SIGNALS:
        signal.signal(ignored, signal.SIG_IGN)
    whole = close_purchases(SECONDS_FOR_A_PURCHASE)
    name = SIGNALS[signal.Signals(number)]
    telling = threading.Thread(target=lambda: [tell(name) for tell in _last_words], daemon=True)
    telling.start()
    telling.join(SECONDS_FOR_TELLING)
    after = "what was paid is kept: running it again pays for nothing twice" if whole else (
        "a charge was being drawn: run it again to have it finished or, if that is too late, reported as burnt"
    )  # fmt: skip
    prefix = _SHOW_CURSOR if sys.stderr.isatty() else ""
    try:
        click.echo(f"{prefix}understudy: stopped by {name}; {after}", err=True)
        sys.stdout.flush()
    except OSError:
        pass  # the terminal is gone; that is what SIGHUP says
    os._exit(128 + number)
