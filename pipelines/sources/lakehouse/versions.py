"""What sources of versioned tables share: the words for what is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from understudy.pipelines.errors import SourceError, SpecError

_NOW = "release the table as it is now (`snapshot: table`, without --resume): that is another, charged release"


@contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Around an import of what only an extra installs."""
    try:
        yield
    except ImportError:
        missing = True
    else:
        missing = False
    if missing:
        raise SpecError(
            f"{what} needs {package}, which is not installed",
            f"pip install 'understudy[{extra}]'; nothing was read or charged",
        )


def parsed(label: str) -> tuple[int, str]:
    """A version's number and the table it is of, from what `snapshot: table` became."""
    if not (found := re.fullmatch(r"(\d{1,19})-([0-9a-f]{12})", label)):
        raise SpecError(
            "source.snapshot names no version of the table",
            "write `snapshot: table`, or what a manifest calls its snapshot",
        )
    return int(found[1]), found[2]


def gone(table: str, version: str) -> SourceError:
    return SourceError(f"{version} of {table} is gone (expired or cleaned away); nothing was spent", _NOW)


def replaced(table: str, version: str) -> SourceError:
    return SourceError(
        f"{table} is another table than the one whose {version} is meant: it was made anew; nothing was spent", _NOW
    )
