"""Where an installation keeps its ledger and its measurements.

Both default to one home directory for the user, not to the working directory: a ledger that depended on where a command
was started would let the same budget be spent twice from two places. The ledger's address may hold a password, so it
comes from the environment and is never a flow parameter, a log line or part of a manifest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOME = "UNDERSTUDY_HOME"
LEDGER = "UNDERSTUDY_LEDGER"


@dataclass(frozen=True)
class Workspace:
    home: Path
    ledger_url: str = field(repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Workspace:
        home = Path(environment.get(HOME) or Path.home() / ".understudy").absolute()
        return cls(home, environment.get(LEDGER) or f"sqlite:///{home / 'ledger.db'}")

    @property
    def measurements(self) -> Path:
        return self.home / "measurements"

    @property
    def checked(self) -> Path | None:
        """How far the ledger on a server was verified; SQLite's file has that beside itself. Safe to delete."""
        return None if self.ledger_url.startswith("sqlite") else self.home / "checked"

    @property
    def generators(self) -> Path:
        """Trained and half-trained generators: made from released numbers alone, and safe to delete."""
        return self.home / "generators"
