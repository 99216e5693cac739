"""How many pairs a test of the audit makes: few in `make test`, `UNDERSTUDY_AUDIT_TIMES` times as many in `make audit`.
Each finished run of a pair is counted, so that the report can say how many there were."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

TIMES = int(os.environ.get("UNDERSTUDY_AUDIT_TIMES", "1"))
TALLY = os.environ.get("UNDERSTUDY_AUDIT_TALLY", "")
_done: Counter[str] = Counter()


def pairs(few: int) -> int:
    return few * TIMES


def done(what: str) -> None:
    """One more pair of this kind was compared and showed no difference."""
    if not TALLY:
        return
    _done[what] += 1
    place = Path(TALLY)
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{os.getpid()}.json").write_text(json.dumps(_done))
