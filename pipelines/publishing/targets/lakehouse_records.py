"""What is remembered of the releases of a lakehouse table: rows of a table beside it that is only appended to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from understudy.pipelines.publishing.stored import CARD as CARD_FILE

NAME, RELEASE_ID, ATTEMPT = "understudy.name", "understudy.release-id", "understudy.attempt"
MANIFEST, ENVELOPE, CARD, FILE, PUBLISHED, RETIRED = "manifest", "envelope", "card", "file", "published", "retired"
_TEXTS = ("name", "release_id", "attempt", "kind", "path")
RECORDS = pa.schema([("number", pa.int64()), *((name, pa.string()) for name in _TEXTS), ("content", pa.binary())])


@dataclass(frozen=True)
class Record:
    """One thing that is remembered of an attempt to publish: a document, a file, or that it came to its end."""

    name: str
    release_id: str
    attempt: str
    kind: str
    path: str = ""
    content: bytes = field(default=b"", repr=False)

    @property
    def text(self) -> str:
        return self.content.decode()


@dataclass(frozen=True)
class Shown:
    """The release that the table's rows are of, and the version of the table that they came with."""

    name: str
    release_id: str
    attempt: str
    version: str = field(compare=False)


def shown_by(properties: Mapping[str, object], version: str) -> Shown | None:
    name, release_id, attempt = (str(properties.get(key) or "") for key in (NAME, RELEASE_ID, ATTEMPT))
    return Shown(name, release_id, attempt, version) if name and release_id and attempt else None


def finished(records: Sequence[Record], shown: Shown | None) -> list[Shown]:
    """Every attempt that came to its end, oldest first; the one that is shown did, whether or not it is recorded."""
    found = [Shown(r.name, r.release_id, r.attempt, r.text) for r in records if r.kind == PUBLISHED]
    return list(dict.fromkeys(found if shown is None or shown in found else [*found, shown]))


def document(records: Sequence[Record], one: Shown, kind: str) -> str | None:
    found = [r.text for r in records if (r.name, r.release_id, r.attempt, r.kind) == (*_key(one), kind)]
    return found[0] if found else None


def contents_of(records: Sequence[Record], one: Shown) -> dict[str, bytes]:
    """The files that travelled with a release, and its card."""
    own = [r for r in records if (r.name, r.release_id, r.attempt) == _key(one) and r.kind in (FILE, CARD)]
    return {r.path if r.kind == FILE else CARD_FILE: r.content for r in own}


def _key(one: Shown) -> tuple[str, str, str]:
    return one.name, one.release_id, one.attempt
