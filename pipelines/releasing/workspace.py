"""Where an installation keeps its ledger, its measurements (`stores` opens them) and its keys.

All default to one home directory for the user, not to the working directory: a ledger that depended on where a command
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
SIGNING_KEY = "UNDERSTUDY_SIGNING_KEY"
STORE = "UNDERSTUDY_STORE"


@dataclass(frozen=True)
class Workspace:
    home: Path
    ledger_url: str = field(repr=False)
    brought_key: Path | None = None
    store: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Workspace:
        home = Path(environment.get(HOME) or Path.home() / ".understudy").absolute()
        brought = environment.get(SIGNING_KEY)
        return cls(
            home,
            environment.get(LEDGER) or f"sqlite:///{home / 'ledger.db'}",
            brought_key=Path(brought).absolute() if brought else None,
            store=environment.get(STORE, ""),
        )

    @property
    def measurements(self) -> Path:
        """The directory of measurements, where they are kept in one."""
        return Path(self.store) if Path(self.store).is_absolute() else self.home / "measurements"

    @property
    def checked(self) -> Path | None:
        """How far the ledger on a server was verified; SQLite's file has that beside itself. Safe to delete."""
        return None if self.ledger_url.startswith("sqlite") else self.home / "checked"

    @property
    def keys(self) -> Path:
        return self.home / "keys"

    @property
    def release_key(self) -> Path:
        return self.keys / "release.pem"

    @property
    def generators(self) -> Path:
        """Trained and half-trained generators: made from released numbers alone, and safe to delete."""
        return self.home / "generators"
