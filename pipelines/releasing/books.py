"""The ledger and the measurements of an installation, opened once for a release and handed on as an argument."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.releasing.stores import store_of
from understudy.pipelines.releasing.workspace import Workspace


@dataclass(frozen=True)
class Books:
    ledger: Ledger = field(repr=False)
    store: MeasurementStore = field(repr=False)
    generators: Path
    """Where a half-trained generator waits for the next run: made from released numbers alone, and safe to delete."""

    workspace: Workspace = field(repr=False)

    @classmethod
    def open(cls, workspace: Workspace) -> Books:
        ledger = Ledger(workspace.ledger_url, checked=workspace.checked)
        return cls(ledger, store_of(workspace), workspace.generators, workspace)
