"""An error nobody expected, in one message: its type and where it came from, and never its text."""

from __future__ import annotations

import errno
import os
import traceback

from understudy.pipelines.errors import UnderstudyError

DEBUG = "UNDERSTUDY_DEBUG"
_TELLABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE)


def unexpected(error: BaseException) -> UnderstudyError:
    """Only a full disk and its kin are named, by the operating system's own words; other text may quote a row."""
    kind, where = type(error).__name__, _where(error)
    if isinstance(error, OSError) and error.errno in _TELLABLE:
        return UnderstudyError(f"{os.strerror(error.errno)} ({where})", "make room, then run again")
    if isinstance(error, MemoryError):
        return UnderstudyError(f"there is not enough memory ({where})", "run it on a larger machine")
    return UnderstudyError(
        f"unexpected {kind} at {where}; its message is withheld because it may quote private values",
        f"running again pays for nothing twice; if it persists, report this line ({DEBUG}=1 shows the traceback)",
    )


def _where(error: BaseException) -> str:
    """Module and line of the last frame of ours, or failing that of whoever raised it."""
    walked = traceback.walk_tb(error.__traceback__)
    frames = [(str(frame.f_globals.get("__name__", "?")), line) for frame, line in walked]
    ours = [(module, line) for module, line in frames if module.startswith(("understudy.", "__main__"))]
    module, line = (ours or frames or [("?", 0)])[-1]
    return f"{module}:{line}"
