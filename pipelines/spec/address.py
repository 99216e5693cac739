"""Addresses in a spec: public, so they carry no secret; and how the secret half is found when one is needed.

A database is named in one of three ways, none of which puts a password into a spec, a log or a flow parameter:

- `postgresql://user@host:5432/database?sslmode=require`: the password comes from libpq's own places (`PGPASSWORD`,
  `~/.pgpass`, a service file);
- `postgresql+env://WAREHOUSE_URL`: the whole address is in that environment variable of the worker;
- `postgresql+block://warehouse`: the whole address is in that Prefect Secret block, which a task hands to `provide`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import parse_qsl, unquote, urlsplit

from understudy.pipelines.errors import SpecError, UnderstudyError

_SECRET_NAMES = re.compile(
    r"pass|secret|token|credential|signature|private|api_?key|access_?key|^sig$|^key$", re.IGNORECASE
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_BLOCK = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_LIBPQ_OPTIONS = frozenset({"host", "port", "sslmode", "sslrootcert", "connect_timeout", "application_name",
                            "channel_binding", "target_session_attrs", "gssencmode"})  # fmt: skip
_provided: dict[str, str] = {}


def provide(block: str, address: str) -> None:
    """Keep the address that a Secret block holds, in this process only."""
    _provided[block] = address


def check_address(address: str, key: str) -> str:
    """Refuse an address that carries a secret or climbs out of its directory. The message never quotes it."""
    parts = urlsplit(address) if "://" in address else None
    if parts is not None:
        try:
            password = parts.password
        except ValueError:
            password = "unreadable"  # noqa: S105
        named = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)] + re.findall(
            r"(\w+)=", parts.fragment
        )
        if password or any(_SECRET_NAMES.search(name) for name in named):
            raise SpecError(
                f"{key} carries a password or another secret; a spec is public and must not",
                "take it out (and change it: it was in a file), then use the environment or a Prefect Secret block: "
                "postgresql+env://VARIABLE or postgresql+block://name",
            )
    path = unquote(address if parts is None else parts.path)
    if ".." in PurePosixPath(path.replace("\\", "/")).parts or "\0" in address:
        raise SpecError(f"{key} climbs out of its directory with `..`", "give a path without `..`, or an absolute one")
    return address


@dataclass(frozen=True)
class Database:
    """A PostgreSQL address without its secret. `conninfo` is only ever handed to the driver."""

    address: str

    @classmethod
    def parse(cls, address: str, key: str) -> Database:
        check_address(address, key)
        scheme, _, rest = address.partition("://")
        if scheme == "postgresql+env" and _VARIABLE.fullmatch(rest):
            return cls(address)
        if scheme == "postgresql+block" and _BLOCK.fullmatch(rest):
            return cls(address)
        if scheme == "postgresql":
            unknown = [name for name, _ in parse_qsl(urlsplit(address).query) if name not in _LIBPQ_OPTIONS]
            if not unknown:
                return cls(address)
            raise SpecError(
                f"{key} has connection options that a spec may not set: {', '.join(sorted(unknown))[:200]}",
                f"allowed: {', '.join(sorted(_LIBPQ_OPTIONS))}",
            )
        raise SpecError(
            f"{key} is not a PostgreSQL address this version understands",
            "use postgresql://user@host/database, postgresql+env://VARIABLE or postgresql+block://name",
        )

    @property
    def block(self) -> str | None:
        return self.address.partition("://")[2] if self.address.startswith("postgresql+block://") else None

    def conninfo(self) -> str:
        """The full address, with whatever secret it needs. Never log, store or raise what this returns."""
        scheme, _, name = self.address.partition("://")
        if scheme == "postgresql":
            return self.address
        found = os.environ.get(name) if scheme == "postgresql+env" else _provided.get(name)
        if not found:
            place = f"environment variable {name}" if scheme == "postgresql+env" else f"Prefect Secret block {name}"
            raise UnderstudyError(
                f"the {place}, which should hold a database address, is not set here",
                "set it where the worker runs: postgresql://user:password@host/database",
            )
        return re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", found.strip())

    def __str__(self) -> str:
        """Where it is, for messages: without user, options or secret."""
        if not self.address.startswith("postgresql://"):
            return self.address
        parts = urlsplit(self.address)
        host = parts.hostname or "the local server"
        return f"{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
