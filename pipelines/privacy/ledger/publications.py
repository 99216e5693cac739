"""What was published, as the ledger remembers it: the release and the SHA-256 of its manifest, which lists every file.

Whoever swaps the rows of a release and corrects the hashes in its manifest has another manifest than the one recorded.
A release may be published more than once (moved away and made again for free), so a release has any number of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger.schema import history
from understudy.pipelines.privacy.ledger.who import Who


@dataclass(frozen=True)
class Publication:
    """`seq` is the line of the account's history that says so, `who` the facts of `Who`."""

    account: str
    release_id: str
    manifest_sha256: str
    mids: tuple[str, ...]
    at: str
    seq: int
    who: dict[str, str]


def publications(connection: Connection, account: str) -> tuple[Publication, ...]:
    query = (
        select(history)
        .where(history.c.account == account, history.c.action == ledger_history.PUBLISHED)
        .order_by(history.c.seq)
    )
    return tuple(_publication(row, json.loads(row.body)) for row in connection.execute(query))


def record(
    connection: Connection, account: str, mids: tuple[str, ...], release_id: str, manifest_sha256: str, who: Who
) -> Publication:
    """The caller holds the account. Recording the same manifest again finds the line that is there."""
    wanted = (release_id, manifest_sha256)
    found = [p for p in publications(connection, account) if (p.release_id, p.manifest_sha256) == wanted]
    if found:
        return found[0]
    body = {"release_id": release_id, "manifest_sha256": manifest_sha256, "mids": list(mids)}
    line = ledger_history.append(connection, account, ledger_history.PUBLISHED, "", body, who)
    return _publication(line, line.body)


def _publication(line: Any, body: dict[str, Any]) -> Publication:
    mids, who = tuple(body["mids"]), dict(body.get("who", {}))
    return Publication(line.account, body["release_id"], body["manifest_sha256"], mids, line.at, line.seq, who)
