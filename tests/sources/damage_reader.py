"""A process that reads damaged files, one after the other, and says what came of each: `damage_reader.py FILES...`.

What a segfault, an endless loop or a greedy allocation would end is this process, which the test sees.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import traceback
from itertools import combinations
from pathlib import Path

from tests.sources.damage import SPEC
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.columns import check_columns
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

SECONDS, MEGABYTES = 60.0, 3000
"""Most that a file may take of the processor (the first one waits for compilation) and of address space."""


def outcome(path: Path, spec: ReleaseSpec) -> dict[str, str]:
    """What a release does with the file before it pays: columns are checked, rows are counted, with a cap and without,
    and read whole."""
    domain = TableDomain.of(spec)
    cliques = list(combinations(range(len(domain.columns)), 2))
    found = {"ended": "read"}
    try:
        source = open_source(spec.source.model_copy(update={"uri": path.name}), path.parent, spec)
        check_columns(source.schema(), spec)
        source.row_estimate()
        for unit in (Unit(), spec.privacy.protected_unit):
            LocalTable(source, domain, unit, b"key", batch_rows=256).counts(cliques)
            for batch in LocalTable(source, domain, unit, b"key", batch_rows=256).record_batches():
                batch.num_rows  # noqa: B018
    except UnderstudyError as error:
        context = error.__context__ or error.__cause__
        found = {"ended": "refused", "problem": error.problem, "fix": error.fix, "context": repr(context)}
    except BaseException:
        found = {"ended": "broken", "trace": traceback.format_exc()}
    return found


def _peak_megabytes() -> int:
    """By the kernel's own count, which begins with the program; that of getrusage begins with the process it was forked
    from, such as a worker that has run a thousand tests."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def main() -> None:
    spec = ReleaseSpec.model_validate(SPEC)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (MEGABYTES << 20), resource.RLIM_INFINITY))
    for name in sys.argv[1:]:
        print(json.dumps({"file": name, "ended": "crashed"}), flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        found = outcome(Path(name), spec)
        signal.setitimer(signal.ITIMER_PROF, 0)
        peak = _peak_megabytes()
        print(json.dumps({"file": name, "peak": peak} | found), flush=True)


if __name__ == "__main__":
    main()
