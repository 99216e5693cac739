"""What lakehouse tables share as targets: a release is one commit of the table, and what travels with it lies in a
table of records beside it.

A publication goes in this order, so that a kill leaves the old release or the new one, and the next run knows which:

1. the release that is shown now is recorded as published, if that is not done;
2. manifest, signature, card and measured files are appended to the records, under the name of this attempt: nobody is
   led to them yet;
3. the rows take the place of the table's in one commit, whose properties name release and attempt and say what is
   guaranteed;
4. the release is recorded as published.

A release was published if the table's last release commit names it, or the records do. A table that has no such commit
is somebody else's and never replaced.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.canonical import sha256_text
from understudy.pipelines.errors import PublishError, SourceError, UnderstudyError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.publishing.attesting import attest
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.targets.base import Papers, PreparedRelease, Published, TargetBase
from understudy.pipelines.publishing.targets.lakehouse_records import (
    ATTEMPT,
    CARD,
    ENVELOPE,
    FILE,
    MANIFEST,
    NAME,
    PUBLISHED,
    RECORDS,
    RELEASE_ID,
    RETIRED,
    Record,
    Shown,
    contents_of,
    document,
    finished,
)
from understudy.pipelines.publishing.targets.lakehouse_rows import lakehouse_parts, rows_file
from understudy.pipelines.publishing.targets.published_tables import (
    HeldTable,
    hashes_of,
    is_whole,
    listed,
    read_manifest,
)
from understudy.pipelines.table.in_parts import Parts


class LakehouseTarget(TargetBase):
    holds_tensors = False
    why_no_trees = "every table has a log of its own, and a reader between two commits would see half of a release"

    where: str
    """The table, for messages."""
    address: str
    """As `understudy verify` is told it."""
    records_at: str
    """Where the records are, for people."""

    @abstractmethod
    def _exists(self) -> bool:
        """Whether anything is in the place of the table, whosever it is."""

    @abstractmethod
    def _last_commit(self) -> Shown | None:
        """By the properties of the table's last release commit."""

    @abstractmethod
    def _is_same_table(self, version: str) -> bool:
        """Whether the table is the one that had this version."""

    @abstractmethod
    def _read_records(self) -> pa.Table | None:
        """Of this table; None: there are none yet."""

    @abstractmethod
    def _append_records(self, records: pa.Table) -> None: ...

    @abstractmethod
    def _replace(self, rows: Parts, properties: Mapping[str, str]) -> str:
        """In one commit, however many parts there are; the version that it made."""

    @abstractmethod
    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Of what the table shows now."""

    @abstractmethod
    def _expire(self, gone: Sequence[str], kept: Sequence[str]) -> None:
        """Let go of the rows of some versions; those that are gone already are no error."""

    @abstractmethod
    def _probe(self) -> None:
        """Find out whether the table could be written."""

    def ready(self, name: str) -> None:
        with self._doing():
            self._require_ours(self._records())
            self._probe()

    def recover(self, name: str, release_id: str) -> Published | None:
        with self._doing():
            return self._recover(name, release_id)

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        with self._doing():
            if (published := self._recover(manifest.name, manifest.release_id)) is not None:
                return published
            records = self._records()
            shown = self._require_ours(records)
            if shown is not None:
                self._record_published(shown, records)
            attempt, rows = uuid.uuid4().hex[:12], lakehouse_parts(release.rows)
            files = (rows_file(self.where, rows.schema.names, rows.batches()), *listed(release.papers))
            manifest = manifest.model_copy(update={"files": files})
            text = manifest.model_dump_json()
            envelope = attest(manifest, text, release.key)
            kept = [(MANIFEST, "", text.encode()), (CARD, "", release.card.encode())]
            kept += [] if envelope is None else [(ENVELOPE, "", envelope.encode())]
            kept += [(FILE, file.path, file.content) for file in release.measured]
            self._keep([Record(manifest.name, manifest.release_id, attempt, *each) for each in kept])
            fault_point("publish_staged")
            properties = _properties(manifest, attempt, text)
            fault_point("publish_before_pointer")
            version = self._replace(rows, properties)
            self._record_published(Shown(manifest.name, manifest.release_id, attempt, version), ())
            return self._published(manifest, text, current=True)

    def held(self) -> HeldTable | None:
        """The newest release in the table, if it holds one."""
        with self._doing():
            records = self._records()
            shown = self._shown(records) if self._exists() else None
            if shown is None:
                return None
            text = document(records, shown, MANIFEST)
            if text is None:
                raise PublishError(f"{self.records_at} lacks the manifest of {shown.release_id}", "restore it")
            manifest = read_manifest(text, self.records_at)
            contents = contents_of(records, shown)
            every = finished(records, shown)
            known = [document(records, other, MANIFEST) for other in every]
            by_id = {(other.name, other.release_id): other for other in every}
            return HeldTable(
                manifest,
                self._hashes(manifest, contents),
                text,
                document(records, shown, ENVELOPE),
                tuple((read_manifest(each, self.records_at).release_id, each) for each in known if each is not None),
                contents,
                lambda name: pa.Table.from_batches(self._batches(manifest.columns)),
                lambda other: contents_of(records, by_id[other.name, other.release_id]),
                document(records, shown, CARD) or "",
            )

    def papers(self) -> tuple[Papers, ...]:
        with self._doing():
            records = self._records()
            shown = self._shown(records) if self._exists() else None
            return tuple(found for one in finished(records, shown) if (found := self._papers(records, one, shown)))

    def _papers(self, records: Sequence[Record], one: Shown, shown: Shown | None) -> Papers | None:
        text, envelope, card = (document(records, one, kind) for kind in (MANIFEST, ENVELOPE, CARD))
        if text is None:
            return None
        return Papers(read_manifest(text, self.records_at), one == shown, text, envelope, card or "")

    def newest(self, name: str) -> tuple[Manifest, ...]:
        with self._doing():
            records = self._records()
            shown = self._shown(records) if self._exists() else None
            found = [document(records, one, MANIFEST) for one in finished(records, shown) if one.name == name]
            return tuple(read_manifest(text, self.records_at) for text in found if text is not None)

    def retire_old(self, name: str, keep: int) -> list[str]:
        with self._doing():
            records = self._records()
            shown = self._shown(records) if self._exists() else None
            retired = {(record.name, record.release_id) for record in records if record.kind == RETIRED}
            live = [one for one in finished(records, shown) if (one.name, one.release_id) not in retired]
            dated = []
            for one in live:
                text = document(records, one, MANIFEST)
                if one.name == name and text is not None:
                    dated.append((read_manifest(text, self.records_at).created_at, one))
            old = [one for _, one in sorted(dated, key=lambda pair: pair[0])[:-keep] if one != shown]
            if not old:
                return []
            self._expire([one.version for one in old], [one.version for one in live if one not in old])
            self._keep([Record(one.name, one.release_id, one.attempt, RETIRED) for one in old])
            return [one.release_id for one in old]

    def retired_release(self, name: str, release_id: str) -> Published | None:
        with self._doing():
            records = self._records()
            for record in records:
                if (record.name, record.release_id, record.kind) == (name, release_id, RETIRED):
                    text = document(records, Shown(name, release_id, record.attempt, ""), MANIFEST)
                    if text is not None:
                        return self._published(read_manifest(text, self.records_at), text, current=False)
            return None

    def _recover(self, name: str, release_id: str) -> Published | None:
        records = self._records()
        shown = self._shown(records) if self._exists() else None
        for one in finished(records, shown):
            text = document(records, one, MANIFEST) if (one.name, one.release_id) == (name, release_id) else None
            if text is None:
                continue
            manifest = read_manifest(text, self.records_at)
            if one == shown:
                if not is_whole(manifest, self._hashes(manifest, contents_of(records, one))):
                    raise PublishError(
                        f"{self.where} was changed after {release_id} was published into it",
                        f"restore its version {one.version} with the table's own tools, or publish to another place: "
                        "running again is free",
                    )
                self._record_published(one, records)
            return self._published(manifest, text, current=one == shown)
        return None

    def _require_ours(self, records: Sequence[Record]) -> Shown | None:
        if not self._exists():
            return None
        shown = self._shown(records)
        if shown is None:
            raise PublishError(
                f"{self.where} exists and was not published by Understudy",
                "choose another place to publish to, or rename or drop that one yourself",
            )
        return shown

    def _shown(self, records: Sequence[Record]) -> Shown | None:
        """Where the log of old commits was cleaned away, what was recorded last."""
        last = self._last_commit()
        if last is not None:
            return last
        known = [one for one in finished(records, None) if self._is_same_table(one.version)]
        return known[-1] if known else None

    def _record_published(self, shown: Shown, records: Sequence[Record]) -> None:
        key = (shown.name, shown.release_id, shown.attempt, PUBLISHED)
        if not any((one.name, one.release_id, one.attempt, one.kind) == key for one in records):
            self._keep([Record(*key, content=shown.version.encode())])

    def _records(self) -> list[Record]:
        """In the order in which they were made."""
        found = self._read_records()
        if found is None:
            return []
        return [Record(**row) for row in found.sort_by("number").select(RECORDS.names[1:]).to_pylist()]

    def _keep(self, records: Sequence[Record]) -> None:
        known = self._read_records()
        first = 0 if known is None or not known.num_rows else pc.max(known["number"]).as_py() + 1
        columns = {name: [getattr(record, name) for record in records] for name in RECORDS.names[1:]}
        numbers = list(range(first, first + len(records)))
        self._append_records(pa.table({"number": numbers, **columns}, schema=RECORDS))

    def _hashes(self, manifest: Manifest, contents: Mapping[str, bytes]) -> dict[str, str]:
        try:
            rows = [rows_file(self.where, manifest.columns, self._batches(manifest.columns))]
        except (UnderstudyError, duckdb.Error, pa.ArrowException):
            rows = []  # it cannot be read as what it was: changed
        return hashes_of(rows, contents)

    def _published(self, manifest: Manifest, text: str, current: bool) -> Published:
        where = self.address if current else f"{self.address} (since replaced by a newer release)"
        return Published(manifest, where, f"{self.records_at}, kind card", sha256_text(text))

    @contextmanager
    def _doing(self) -> Iterator[None]:
        try:
            yield
        except SourceError as error:
            problem = error.problem
        except UnderstudyError:
            raise
        except Exception as error:
            problem = f"cannot publish into {self.where} ({type(error).__name__})"
        else:
            return
        raise PublishError(problem, "check the place, its credentials and who else writes there; running again is free")


def _properties(manifest: Manifest, attempt: str, text: str) -> dict[str, str]:
    """What the commit itself says: whoever looks at the table's history sees what the rows are."""
    guarantee = manifest.guarantee
    return {
        NAME: manifest.name,
        RELEASE_ID: manifest.release_id,
        ATTEMPT: attempt,
        "understudy.snapshot": manifest.snapshot,
        "understudy.guarantee": guarantee.sentence,
        "understudy.epsilon": repr(guarantee.epsilon),
        "understudy.delta": repr(guarantee.delta),
        "understudy.relation": guarantee.relation.value,
        "understudy.unit": guarantee.unit,
        "understudy.manifest-sha256": sha256_text(text),
    }
