"""Addresses in a spec, one type for all of them: public, so they carry no secret; and how the secret half is found.

An address is a plain path, or `scheme://place`. What reads or writes it is found by its kind, the scheme without what
follows a `+`, which says where the address itself is kept. None puts a password into a spec, a log or a flow parameter:

- `postgresql://user@host:5432/database?sslmode=require`: the password comes from libpq's own places (`PGPASSWORD`,
  `~/.pgpass`, a service file);
- `postgresql+env://WAREHOUSE_URL`: the whole address is in that environment variable of the worker;
- `postgresql+block://warehouse`: the whole address is in that Prefect Secret block, which a task hands to `provide`.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qsl, unquote, urlsplit

from understudy.pipelines.errors import SpecError, UnderstudyError

_SECRET_NAMES = re.compile(
    r"pass|secret|token|credential|signature|private|api_?key|access_?key|^sig$|^key$", re.IGNORECASE
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_BLOCK = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
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
class Terms:
    """What addresses of one kind of source or target may and must say."""

    table: bool = False
    """A table has to be named beside the address; otherwise it must not be."""
    local: bool = False
    """The place is a file or folder of this machine: `kind:///relative/to/the/spec` or `kind:////absolute`."""
    hidden_in: frozenset[str] = frozenset()
    """Where the whole address may be kept instead, as `kind+env://VARIABLE` or `kind+block://name`."""
    plain: bool = True
    """The address may stand in the spec itself."""
    options: frozenset[str] = frozenset()
    """Further keys of `source` that it obeys: `quoted_newlines`, `external`."""
    versions: bool = False
    """The table has versions that can be named and read again, so `source.snapshot` may be `table`."""

    def accept(self, address: Address) -> bool:
        return address.hidden_in in self.hidden_in if address.hidden_in else self.plain

    def place(self, address: Address, base: Path) -> Path | None:
        """The file or folder that an address names on this machine, links followed; None where it is another."""
        path = address.path(base) if self.local else None
        return None if path is None else path.resolve()


@dataclass(frozen=True)
class Address:
    """Where something is read or published, as a spec says it. `key` is the spec's own word for it, for messages."""

    scheme: str
    place: str
    table: str | None = None
    key: str = field(default="the address", compare=False)

    @classmethod
    def parse(cls, text: str, key: str, table: str | None = None) -> Address:
        """SpecError, without a word of the text, if it carries a secret, climbs, or hides itself nowhere."""
        address = cls.of(check_address(text, key), table, key)
        names = {"env": _VARIABLE, "block": _BLOCK}
        if address.hidden_in in names and not names[address.hidden_in].fullmatch(address.place):
            what = "VARIABLE" if address.hidden_in == "env" else "name"
            raise SpecError(f"{key} is not of the form {address.scheme}://{what}", "give the name and nothing else")
        return address

    @classmethod
    def of(cls, text: str, table: str | None = None, key: str = "the address") -> Address:
        """Unchecked: of what is not from a spec, or was checked before."""
        scheme, separator, place = text.partition("://")
        return cls(scheme, place, table, key) if separator else cls("", text, table, key)

    @property
    def text(self) -> str:
        return f"{self.scheme}://{self.place}" if self.scheme else self.place

    @property
    def kind(self) -> str:
        """The name under which a source or target is registered."""
        return self.scheme.partition("+")[0] or "file"

    @property
    def hidden_in(self) -> str:
        """`env` or `block`, where the spec does not hold the address itself."""
        return self.scheme.partition("+")[2]

    @property
    def block(self) -> str | None:
        return self.place if self.hidden_in == "block" else None

    def path(self, base: Path) -> Path | None:
        """The file or folder of this machine; relative ones start at `base`. Only for kinds whose terms are `local`."""
        if not self.scheme:
            return base / self.place
        if not self.place.startswith("/"):
            return None
        if self.kind == "file":
            return Path(unquote(self.place))
        return base / self.place[1:] if len(self.place) > 1 else None

    @property
    def folders(self) -> tuple[str, ...]:
        """Scheme, bucket or host, and folders: what lies below another begins with it. An account beside a container
        is left out."""
        first, *more = [part for part in self.place.split("/") if part] or [""]
        return (self.scheme.removeprefix("delta-"), first.partition("@")[0], *more)

    @property
    def identity(self) -> str:
        """Which place this is, in public words: as a fingerprint where the spec kept the address to itself, and empty
        where this process cannot tell. Neither user nor options nor secret have a part in it."""
        if not self.hidden_in:
            return f"{self.kind} {_bare(self.place)}"
        try:
            return f"{self.kind} {fingerprint(_bare(self.revealed().partition('://')[2]))}"
        except UnderstudyError:  # told when it is connected to, if it ever is
            return ""

    def revealed(self) -> str:
        """The full address, with whatever secret it needs. Never log, store or raise what this returns."""
        if not self.hidden_in:
            return self.text
        found = os.environ.get(self.place) if self.hidden_in == "env" else _provided.get(self.place)
        if not found:
            named = "environment variable" if self.hidden_in == "env" else "Prefect Secret block"
            raise UnderstudyError(
                f"the {named} {self.place}, which should hold a database address, is not set here",
                f"set it where the worker runs: {self.kind}://user:password@host/database",
            )
        return found.strip()

    def __str__(self) -> str:
        """Where it is, for messages: without user, options or secret."""
        if not self.scheme or self.hidden_in:
            return self.text
        place = _bare(self.place)
        return f"the local server{place}" if place.startswith("/") else place


def is_in(inner: Path, outer: Path) -> bool:
    """Whether it is the other file or folder, or lies in it; links of either kind are followed."""
    return any(_same(place, outer) for place in (inner, *inner.parents))


def _same(one: Path, other: Path) -> bool:
    if one == other:
        return True
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there yet
        return False


def fingerprint(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def _bare(place: str) -> str:
    return re.split(r"[?#]", place, maxsplit=1)[0].rpartition("@")[2]
