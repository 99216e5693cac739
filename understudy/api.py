"""`synthesize`: a private table in, a release out, without an orchestrator.

    from understudy import synthesize

    release = synthesize(frame, {
        "name": "visits",
        "snapshot": "2026-10",
        "privacy": {"account": "clinic", "epsilon": 1.0, "delta": 1e-6},
        "columns": {"age": {"type": "integer", "min": 0, "max": 110},
                    "sex": {"type": "category", "values": ["F", "M", "X"]}},
    })
    release.table, release.sample(1000), release.save("releases/")

The same ledger, the same single draw and the same stored measurement as a scheduled release: fitting the same spec and
snapshot again finds what was paid for and spends nothing, *whatever rows are passed*, since the snapshot is what names
the data. Give changed data a new snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.drafted import Drafted
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.released import Release
from understudy.synthesizer import Synthesizer, Table, workspace_of

if TYPE_CHECKING:
    from understudy.ledger_view import LedgerView
    from understudy.pipelines.releasing.asking import PublishedRelease

__all__ = ["Drafted", "Release", "Synthesizer", "Table", "open_ledger", "open_release", "synthesize"]


def synthesize(
    table: Table,
    spec: ReleaseSpec | Mapping[str, Any] | str | Path,
    *,
    rows: int | None = None,
    cap: tuple[float | str, float | str] | None = None,
    home: str | Path | None = None,
    ledger: str | None = None,
) -> Release:
    """A differentially private synthetic copy of `table`, under `spec`, paid for by its account."""
    return Synthesizer(spec, cap=cap, home=home, ledger=ledger).fit(table).release(rows)


def open_ledger(home: str | Path | None = None, ledger: str | None = None) -> LedgerView:
    """The ledger to look at: `.balances` by account, `.page`; shown in a notebook it is a table."""
    from understudy.ledger_view import LedgerView
    from understudy.pipelines.privacy.ledger.ledger import Ledger

    return LedgerView(Ledger(workspace_of(home, ledger).ledger_url))


def open_release(place: str | Path) -> PublishedRelease:
    """A published release, to be asked: `open_release("releases/visits").estimate("share(readmitted) by sex")`.

    `place` is its directory, the folder of all releases of a name (the latest is meant), an object store's path, or a
    table such as `duckdb:///out.duckdb#table`.
    """
    from understudy.pipelines.releasing.asking import PublishedRelease

    return PublishedRelease(str(place))
