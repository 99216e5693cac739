"""What T1 costs in a ledger that has many charges, with and without the check of the account before it is charged.

    python -m benchmarks.ledger_check [--charges 10000] [--postgresql URL]

Fills a ledger through its own protocol (T1 and T2 of every charge), then times single charges: `check` is the check
alone with a remembered head, `first` the same with nothing remembered (every line since the account was opened).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.ledger.checking import Checked, require_whole
from understudy.pipelines.privacy.ledger.ledger import ChargeRequest, Holder, Ledger
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

REPEATS = 15


def request(number: int) -> ChargeRequest:
    return ChargeRequest("bench", Relation.ADD_REMOVE, Unit(), "bench", "5" * 64, f"snapshot {number}", "marginals",
                         Gaussian(1000.0), "00000000-0000-0000-0000-000000000000")  # fmt: skip


def fill(ledger: Ledger, charges: int) -> None:
    """By the ledger's own functions inside one transaction: what is timed is reading, not 20,000 fsyncs."""
    from understudy.pipelines.privacy.ledger import history
    from understudy.pipelines.privacy.ledger.schema import charges as table

    ledger.open_account("bench", Relation.ADD_REMOVE, Unit(), Budget("9", "1e-6"))

    def work(connection: object) -> None:
        for number in range(charges):
            asked, sha256 = request(number), f"{number:064x}"
            ledger._insert_charge(connection, asked, Holder.here(), 60.0)  # type: ignore[arg-type]
            settled = table.update().where(table.c.mid == asked.mid).values(state="MEASURED", measurement_sha256=sha256)
            connection.execute(settled)  # type: ignore[attr-defined]
            history.append(connection, "bench", history.MEASURED, asked.mid, {"sha256": sha256})  # type: ignore[arg-type]

    ledger._database.write(work)


def milliseconds(work: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float, float]:
    """On the clock, median and worst, and the median of the processor's, which other work does not stretch."""
    clock, processor = [], []
    for _ in range(repeats):
        started, worked = time.perf_counter(), time.process_time()
        work()
        clock.append((time.perf_counter() - started) * 1000)
        processor.append((time.process_time() - worked) * 1000)
    return statistics.median(clock), max(clock), statistics.median(processor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--charges", type=int, default=10_000)
    parser.add_argument("--postgresql", help="a URL of an empty database instead of a SQLite file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(given.postgresql or f"sqlite:///{folder}/ledger.db", checked=Path(folder) / "checked")
        fill(ledger, given.charges)
        numbers = iter(range(given.charges, given.charges + 10 * REPEATS))

        def check(known: Checked) -> Checked:
            return ledger._database.read(lambda connection: require_whole(connection, "bench", known, ""))

        first = milliseconds(lambda: check(Checked()), 3)
        head = check(Checked())
        again = milliseconds(lambda: check(head))
        charged = milliseconds(lambda: ledger.charge(request(next(numbers)), Holder.here()))
        print(f"{given.charges:,} charges, {2 * given.charges + 1:,} lines; milliseconds: median, worst, processor")
        for name, took in (("check", again), ("first check", first), ("T1 with its check", charged)):
            print(f"{name:20} {took[0]:8.1f} {took[1]:8.1f} {took[2]:8.1f}")


if __name__ == "__main__":
    main()
