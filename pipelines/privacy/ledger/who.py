"""Who did it: sealed into every line of the history that a person or a run brought about.

A name as the operating system knows it is a fact about a process, not a proof about a person: whoever may write the
ledger's database may write anything. It answers "who was that?" among people who trust each other's machines.
"""

from __future__ import annotations

import os
import pwd
import socket
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Who:
    """`run` is the id of a Prefect flow run, `by` the Prefect user or automation that asked for it; or empty."""

    user: str
    host: str
    run: str = ""
    by: str = ""

    @classmethod
    def here(cls, run: str = "", by: str = "") -> Who:
        return cls(_user(), socket.gethostname(), run, by)

    def in_run(self, run: str) -> Who:
        """The same, in the flow run that a charge names if none was known."""
        return self if self.run or not run else replace(self, run=run)

    def facts(self) -> dict[str, str]:
        return {key: value for key, value in asdict(self).items() if value}

    def __str__(self) -> str:
        return told(self.facts())


def told(facts: dict[str, str]) -> str:
    """One short phrase for a table: user@host, the Prefect user, the run's first digits."""
    asked = [f"by {facts['by']}"] if facts.get("by") else []
    run = [f"run {facts['run'][:8]}"] if facts.get("run") else []
    return " ".join([f"{facts.get('user', '?')}@{facts.get('host', '?')}", *asked, *run])


def _user() -> str:
    """By the process's own user id: an environment variable would say whatever it was set to."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())  # a container may run as a number without a name
