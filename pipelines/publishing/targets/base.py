"""Where a release goes. A target either shows the whole release or the one before it, never a part."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

import pyarrow as pa

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.manifest import Manifest, ReleaseFile
from understudy.pipelines.publishing.part_files import PartPlace
from understudy.pipelines.publishing.signing import SigningKey
from understudy.pipelines.publishing.stored import CARD, StoredRelease
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.plugins import TARGETS, is_own, loaded, names
from understudy.pipelines.table.in_parts import Parts


@dataclass(frozen=True)
class PreparedRelease:
    """Everything public about a release, ready to be written, and the key that signs it once its files are hashed."""

    manifest: Manifest
    rows: Parts = field(repr=False)
    card: str
    key: SigningKey | None = field(default=None, repr=False)
    measured: tuple[ReleaseFile, ...] = ()
    """The files of `measured/` and `contract/`: a target lists them in the manifest as it does the rows, or leaves them
    out."""
    more: tuple[Parts, ...] = field(default=(), repr=False)
    """Of a release of several tables, those after the first, as the manifest names them."""

    @property
    def papers(self) -> tuple[ReleaseFile, ...]:
        """What a database lists in the manifest beside its tables."""
        return (*self.measured, ReleaseFile(CARD, self.card.encode()))

    @property
    def table(self) -> pa.Table:
        """All rows, in memory; `rows` has them part by part."""
        return self.rows.table()

    @property
    def tables(self) -> dict[str, Parts]:
        """Rows by table, to be shown all at once or not at all; a table that is alone has the empty name."""
        return dict(zip(table_names(self.manifest), (self.rows, *self.more), strict=True))


@dataclass(frozen=True)
class Published:
    """A release in its place: what it is, where a person finds it, and the hash of its manifest as it lies there."""

    manifest: Manifest
    location: str
    card: str
    manifest_sha256: str


@dataclass(frozen=True)
class Papers:
    """What a place remembers of a release beside its rows, and whether it is the one that readers are led to."""

    manifest: Manifest
    current: bool
    text: str = field(repr=False)
    """The manifest as it lies there."""
    envelope: str | None = field(repr=False)
    card: str = field(repr=False)


class Target(Protocol):
    def ready(self, name: str) -> None:
        """Before anything is charged: raise PublishError if a release of that name could not be published here."""
        ...

    def ready_for(self, name: str, tables: tuple[str, ...]) -> None:
        """As `ready`, of a release of several tables; asked only where `holds_trees`."""
        ...

    def recover(self, name: str, release_id: str) -> Published | None:
        """The release if it was published, its publication finished if a crash interrupted the very end of it.

        A release whose hashes are wrong is an error, a missing one is None.
        """
        ...

    def publish(self, release: PreparedRelease) -> Published: ...

    def newest(self, name: str) -> tuple[Manifest, ...]:
        """What this place remembers of the name's releases, the newest among them; unchecked, to compare a ledger with.

        What cannot be read says nothing here: `recover` refuses it where it matters.
        """
        ...

    def retire_old(self, name: str, keep: int) -> list[str]:
        """Remove the data of all but the newest `keep` releases of the name, and give the ids of those it was.

        What was promised about them stays: an older release keeps manifest and card, so that its guarantee can still be
        looked up and recertified, and loses its rows. The newest release is never retired, nor is the one that readers
        are led to. A table in a database holds the newest release only, so there is nothing to retire.
        """
        ...

    def retired_release(self, name: str, release_id: str) -> Published | None:
        """A release that was published and retired since: releasing it again must not bring it back."""
        ...

    def papers(self) -> tuple[Papers, ...]:
        """Of every release that was published into a table, for a catalogue; read, and not believed."""
        ...

    def staged_in(self, name: str) -> Path | None:
        """The folder of this machine in which a publication that is killed may leave something half written."""
        ...

    def part_place(self, name: str, release_id: str, key: str) -> PartPlace | None:
        """Where files of a release may lie before it is published, seen by nobody; None where files have no place.

        `publish` is then given `KeptParts` of that place, if the release has several parts.
        """
        ...


class TargetKind(Protocol):
    """What an entry point of `understudy.targets` names: usually the target's own class."""

    @property
    def terms(self) -> Terms: ...

    @property
    def holds_tensors(self) -> bool: ...

    @property
    def holds_trees(self) -> bool:
        """Whether several tables can be shown all at once or not at all."""
        ...

    def opened(self, publish: PublishSpec, base: Path) -> Target:
        """The target, not connected yet. Relative places start at `base`."""
        ...

    def stored(self, address: Address) -> StoredRelease | None:
        """The release at an address, as whoever checks it names it; None if there is none. Read, and not believed."""
        ...


class TargetBase(ABC):
    """The answers of a target that keeps nothing but the newest release, and of its kind."""

    terms: ClassVar[Terms] = Terms()
    holds_tensors: ClassVar[bool] = True
    holds_trees: ClassVar[bool] = False
    why_no_trees: ClassVar[str] = ""
    """Why several tables are refused, for people."""

    @classmethod
    @abstractmethod
    def opened(cls, publish: PublishSpec, base: Path) -> Target: ...

    @classmethod
    @abstractmethod
    def stored(cls, address: Address) -> StoredRelease | None: ...

    @abstractmethod
    def ready(self, name: str) -> None: ...

    def ready_for(self, name: str, tables: tuple[str, ...]) -> None:
        """As `ready`, of a release of several tables."""
        self.ready(name)

    @abstractmethod
    def recover(self, name: str, release_id: str) -> Published | None: ...

    @abstractmethod
    def publish(self, release: PreparedRelease) -> Published: ...

    @abstractmethod
    def newest(self, name: str) -> tuple[Manifest, ...]: ...

    def retire_old(self, name: str, keep: int) -> list[str]:
        return []

    def retired_release(self, name: str, release_id: str) -> Published | None:
        return None

    def papers(self) -> tuple[Papers, ...]:
        return ()

    def staged_in(self, name: str) -> Path | None:
        return None

    def part_place(self, name: str, release_id: str, key: str) -> PartPlace | None:
        return None


def open_target(spec: ReleaseSpec, base: Path) -> Target:
    """The target a spec names; relative places are resolved against the directory of the spec."""
    return check_target(spec).opened(spec.publish, base)


def check_target(spec: ReleaseSpec) -> TargetKind:
    """What publishes to the spec's address, or SpecError. Opens nothing."""
    address = spec.publish.address
    kind = target_kind(address)
    if kind is None:
        others = [f"{name}://" for name in names(TARGETS) if not is_own(TARGETS, name)]
        raise SpecError(
            f"publish.to: cannot publish to {address.scheme}://",
            "use a directory, duckdb:///file.duckdb, sqlite:///file.db, postgresql://user@host/database, "
            "mysql://user@host/database, delta:///folder, iceberg://catalogue or s3://bucket/path"
            + (f"; or, by packages installed here, {', '.join(others)}" if others else ""),
        )
    if kind.terms.table and not spec.publish.table:
        raise SpecError("publish.table is missing", "name the table to publish into, or give a directory in publish.to")
    tensors = ", ".join(name for name, column in spec.columns.items() if column.type == "tensor")
    if tensors and not kind.holds_tensors:
        raise SpecError(f"tensors ({tensors}) cannot be published to {address.kind}", "publish to a directory")
    if spec.tables is not None and not getattr(kind, "holds_trees", False):
        why = getattr(kind, "why_no_trees", "")
        raise SpecError(
            f"several tables cannot be published to {address.kind} all at once or not at all" + (why and f": {why}"),
            "publish to a directory, an object store, DuckDB, SQLite, PostgreSQL, MariaDB or MySQL",
        )
    return kind


def table_names(manifest: Manifest) -> tuple[str, ...]:
    """Of the tables of a release; one that is alone has the empty name."""
    return tuple(fact.name for fact in manifest.tables) or ("",)


def target_kind(address: Address) -> TargetKind | None:
    """What publishes to addresses of this form, if anything installed does."""
    kind: TargetKind | None = loaded(TARGETS, address.kind)
    return kind if kind is not None and kind.terms.accept(address) else None


def address_of(published: Published, target: Address) -> str:
    """What `verify`, `ask` and `card` take to find the release again; of a table, the newest release in it."""
    kind = target_kind(target)
    in_table = kind is not None and kind.terms.table
    return f"{target.text}#{target.table}" if in_table else published.location


def target_place(address: Address, base: Path) -> Path | None:
    """The file or folder that a target's address names on this machine, links followed; None where it is another."""
    kind = target_kind(address)
    return None if kind is None else kind.terms.place(address, base)


def release_id(spec: ReleaseSpec, mids: tuple[str, ...]) -> str:
    """The same measurements published the same way are the same release, so publishing twice is publishing once."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", spec.source.snapshot).strip("-")[:40] or "snapshot"
    identity = [list(mids), spec.publish.identity, spec.generate.model_dump(mode="json")]
    identity += [spec.derived] if spec.derived else []
    return f"{readable}-{hash_of(identity)[:12]}"
