"""What databases share as targets: which release a table shows, what is recorded of it, and whether it is whole still.

A release of one table is in the table that `publish.table` names; one of several in tables that are called after it.
Each database says how it makes the change at once: how it loads, swaps and records is its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from understudy.pipelines.canonical import sha256_text
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.stored import CARD
from understudy.pipelines.publishing.targets.base import Papers, Published, TargetBase, table_names
from understudy.pipelines.publishing.targets.published_tables import (
    ESTIMATES,
    RELEASES,
    HeldTable,
    changed,
    foreign,
    hashes_of,
    is_whole,
    lists,
    table_in_database,
)

Connection = TypeVar("Connection")

TABLE = "table"


@dataclass(frozen=True)
class Recorded:
    """A release that was published here: whether it is the one that is shown, and what was written down of it."""

    manifest: Manifest
    current: bool
    text: str = field(repr=False)
    envelope: str | None = field(repr=False)


class DatabaseTarget(TargetBase, Generic[Connection]):
    holds_trees = True

    table: str
    """As `publish.table` says."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The database, for people."""

    @abstractmethod
    def _connected(self) -> AbstractContextManager[Connection]: ...

    @abstractmethod
    def _records(
        self, connection: Connection, name: str | None = None, release_id: str | None = None
    ) -> list[Recorded]:
        """What was published into the table; of the releases of a name, or of one of them."""

    @abstractmethod
    def _contents(self, connection: Connection, manifest: Manifest) -> dict[str, bytes]:
        """The files that travelled with a release."""

    @abstractmethod
    def _card(self, connection: Connection, manifest: Manifest) -> str:
        """As it was recorded with a release."""

    @abstractmethod
    def _kind(self, connection: Connection, table: str) -> str | None:
        """TABLE, what else has the name, or None."""

    @abstractmethod
    def _file(self, connection: Connection, table: str, listed_as: str) -> PublishedFile: ...

    @abstractmethod
    def _read(self, connection: Connection, table: str) -> pa.Table: ...

    def _is_there(self) -> bool:
        """Whether there is a database to look into."""
        return True

    def ready(self, name: str) -> None:
        self.ready_for(name, ("",))

    def recover(self, name: str, release_id: str) -> Published | None:
        if not self._is_there():
            return None
        with self._connected() as connection:
            return self._recover(connection, name, release_id)

    def newest(self, name: str) -> tuple[Manifest, ...]:
        if not self._is_there():
            return ()
        with self._connected() as connection:
            return tuple(each.manifest for each in self._records(connection, name))

    def papers(self) -> tuple[Papers, ...]:
        if not self._is_there():
            return ()
        with self._connected() as connection:
            return tuple(
                Papers(one.manifest, one.current, one.text, one.envelope, self._card(connection, one.manifest))
                for one in self._records(connection)
            )

    def held(self) -> HeldTable | None:
        """The newest release in the table, if it holds one."""
        if not self._is_there():
            return None
        with self._connected() as connection:
            records = self._records(connection)
            shown = next((each for each in records if each.current), None)
            if shown is None:
                return None
            contents = self._papers(connection, shown.manifest)
            return HeldTable(
                shown.manifest,
                hashes_of(self._held_files(connection, shown.manifest), contents),
                shown.text,
                shown.envelope,
                tuple((each.manifest.release_id, each.text) for each in records),
                contents,
                self._rows,
                self._kept,
                self._card(connection, shown.manifest),
            )

    def _kept(self, manifest: Manifest) -> dict[str, bytes]:
        with self._connected() as connection:
            return self._contents(connection, manifest)

    def _rows(self, name: str = "") -> pa.Table:
        with self._connected() as connection:
            return self._read(connection, table_in_database(self.table, name))

    def _recover(self, connection: Connection, name: str, release_id: str) -> Published | None:
        found = next(iter(self._records(connection, name, release_id)), None)
        if found is None:
            return None
        if found.current and not self._intact(connection, found.manifest):
            raise changed(self.table, self.where, found.manifest)
        return self._published(found.manifest, found.text, found.current)

    def _intact(self, connection: Connection, manifest: Manifest) -> bool:
        found = self._held_files(connection, manifest)
        return is_whole(manifest, hashes_of(found, self._papers(connection, manifest)))

    def _papers(self, connection: Connection, manifest: Manifest) -> dict[str, bytes]:
        """The files that travelled with a release, and its card."""
        return {**self._contents(connection, manifest), CARD: self._card(connection, manifest).encode()}

    def _held_files(self, connection: Connection, manifest: Manifest) -> list[PublishedFile]:
        names = (*self._of(manifest), self._estimates)
        return [self._file(connection, name, name) for name in names if self._kind(connection, name) == TABLE]

    @property
    def _estimates(self) -> str:
        return f"{self.table}{ESTIMATES}"

    def _shown(self, connection: Connection) -> Manifest | None:
        return next((each.manifest for each in self._records(connection) if each.current), None)

    def _of(self, manifest: Manifest | None) -> tuple[str, ...]:
        """The tables in the database that a release consists of."""
        return () if manifest is None else self._called(table_names(manifest))

    def _called(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(table_in_database(self.table, name) for name in names)

    def _refuse_foreign(self, connection: Connection, shown: Manifest | None, names: Sequence[str]) -> None:
        ours = self._of(shown)
        for table in self._called(names):
            kind = self._kind(connection, table)
            if kind is not None and (kind != TABLE or table not in ours):
                raise foreign(table, self.where)

    def _may_hold_estimates(self, connection: Connection, shown: Manifest | None) -> bool:
        """Not where somebody else's table has that name."""
        return self._kind(connection, self._estimates) is None or lists(shown, self._estimates)

    def _published(self, manifest: Manifest, text: str, current: bool) -> Published:
        place = f"{self.where} table {self.table}"
        where = place if current else f"{place} (since replaced by a newer release)"
        return Published(manifest, where, f"{self.where} table {RELEASES}, column card", sha256_text(text))
