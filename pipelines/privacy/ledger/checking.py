"""Verified before it is spent: an account's history, terms and charges, checked inside T1's own transaction.

`history.verify` replays everything and says all that is wrong. T1 needs a yes or no in milliseconds: it remembers how
far it has checked (`Checked`) and replays only the lines sealed since. Invariants of the account at every charge:

- the history still goes through the line that was checked last, has no line missing, and each newer line seals the
  one before, up to the head that the account's row names;
- relation, unit, cap and filter in the account's row are those the history gave it;
- the charges are those of the history, each with the event and all else that was sealed, and in the state it came to.

The last is compared by a sum over all charges that have come to their final state: SHA-256 of everything sealed about
them, modulo 2^256, so that the order does not matter and a new line only adds. What is checked is kept outside the
database, in a small file: whoever edits the ledger leaves it behind, and a ledger restored from an old copy lacks its
line. It is a cache, not a proof: without it everything is checked once from the first line; whoever rewrites ledger and
file together is found by what was published (`releasing.recording`).
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from understudy.pipelines.canonical import canonical_json, sha256_text
from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger.records import HistoryEntry, State, measurement_id
from understudy.pipelines.privacy.ledger.schema import accounts, charges, history

_MODULUS = 1 << 256
_FACTS = ("mid", "release", "stage", "snapshot", "spec_hash", "attempt", "flow_run", "event")
_TERMS = ("relation", "entity", "max_rows", "epsilon", "delta", "filter")
_OF_NO_CHARGE = (
    ledger_history.PUBLISHED,
    ledger_history.APPROVED,
    ledger_history.MOVED,
    ledger_history.KEY,
    ledger_history.RESTORED,
)
_SETTLED = {ledger_history.MEASURED: State.MEASURED.value, ledger_history.BURNT: State.BURNT.value}
_in_process: dict[tuple[str, str], Checked] = {}


@dataclass(frozen=True)
class Checked:
    """An account as its history up to line `seq` makes it. `settled` is the sum over charges in their final state,
    `waiting` are the facts of the others, by mid."""

    seq: int = 0
    head: str = ""
    terms: Mapping[str, Any] = field(default_factory=dict)
    charges: int = 0
    settled: int = 0
    waiting: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def after(self, lines: Iterable[HistoryEntry]) -> Checked:
        """Raises `Broken` at the first line that does not follow."""
        checked = self
        for line in lines:
            if (line.seq, line.previous) != (checked.seq + 1, checked.head) or line.hash != line.expected_hash():
                raise Broken(f"line {line.seq} of its history was edited, removed or added by hand")
            checked = replace(checked._with(line), seq=line.seq, head=line.hash)
        return checked

    def _with(self, line: HistoryEntry) -> Checked:
        body = line.body
        if line.action == ledger_history.OPENED:
            terms = {**body, "filter": canonical_json(body["filter"])} if "filter" in body else body
            return replace(self, terms={key: terms[key] for key in _TERMS if key in terms})
        if line.action == ledger_history.FILTERED:
            return replace(self, terms={**self.terms, "filter": canonical_json(body["filter"])})
        if line.action == ledger_history.CAP_CHANGED:
            return replace(self, terms={**self.terms, "epsilon": body["epsilon"], "delta": body["delta"]})
        if line.action == ledger_history.CHARGED:
            named = (body[key] for key in ("account", "spec_hash", "snapshot", "stage", "attempt"))
            if body["account"] != line.account or measurement_id(*named) != line.mid:
                raise Broken(f"line {line.seq} charges something that its id does not name")
            facts = {**body, "mid": line.mid, "event": canonical_json(body["event"])}
            waiting = {**self.waiting, line.mid: tuple(facts[key] for key in _FACTS)}
            return replace(self, charges=self.charges + 1, waiting=waiting)
        if line.action in _SETTLED:
            if line.mid not in self.waiting:
                raise Broken(f"line {line.seq} settles a charge that was not waiting for it")
            digest = _digest((*self.waiting[line.mid], _SETTLED[line.action], body.get("sha256")))
            waiting = {mid: facts for mid, facts in self.waiting.items() if mid != line.mid}
            return replace(self, waiting=waiting, settled=(self.settled + digest) % _MODULUS)
        if line.action in _OF_NO_CHARGE:
            return self
        raise Broken(f"line {line.seq} of its history is of an unknown kind")


class Broken(Exception):
    """What does not hold, in words; never leaves this package."""


class Checkpoints:
    """How far each account of a ledger was checked: files under `root`, or the memory of this process."""

    def __init__(self, root: Path | None, ledger_id: str) -> None:
        self._root = None if root is None else Path(root) / ledger_id
        self._ledger_id = ledger_id

    def load(self, account: str) -> Checked:
        """To be asked before the transaction begins, so that it is never ahead of what the transaction sees."""
        if self._root is None:
            return _in_process.get((self._ledger_id, account), Checked())
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # a torn file is none
            found = json.loads(self._path(account).read_text(encoding="utf-8"))
            if found.pop("account") == account:
                waiting = {mid: tuple(facts) for mid, facts in found["waiting"].items()}
                return Checked(**{**found, "settled": int(found["settled"], 16), "waiting": waiting})
        return Checked()

    def save(self, account: str, checked: Checked) -> None:
        """Only after the commit of what it describes. What cannot be written costs time at the next charge, no more."""
        if self._root is None:
            _in_process[self._ledger_id, account] = checked
            return
        document = {**asdict(checked), "settled": f"{checked.settled:064x}", "account": account}
        path = self._path(account)
        fresh = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(canonical_json(document), encoding="utf-8")
            os.replace(fresh, path)
        with suppress(OSError):
            fresh.unlink(missing_ok=True)

    def forget(self, account: str) -> None:
        _in_process.pop((self._ledger_id, account), None)
        if self._root is not None:
            self._path(account).unlink(missing_ok=True)

    def _path(self, account: str) -> Path:
        assert self._root is not None
        return self._root / f"{sha256_text(account)[:32]}.json"


def require_whole(connection: Connection, account: str, known: Checked, where: str) -> Checked:
    """The account as it now stands, every part of it checked, or LedgerError. Reads only."""
    try:
        return _whole(connection, account, known)
    except Broken as error:
        problem = str(error)
    except (ValueError, KeyError, TypeError, ArithmeticError, AttributeError, RecursionError) as error:
        problem = f"something in its rows cannot be read ({type(error).__name__})"
    raise LedgerError(
        f"The ledger {where} does not verify: of account {account!r}, {problem}. Nothing was charged.",
        "Stop releasing from it and find out who changed it: `understudy ledger verify` says all that is wrong. Then "
        "restore the newest backup of ledger and measurements.",
    )


def _whole(connection: Connection, account: str, known: Checked) -> Checked:
    row = connection.execute(select(accounts).where(accounts.c.name == account)).one()
    _require_line(connection, account, known)
    lines = ledger_history.entries(connection, account, after=known.seq)
    checked = known.after(lines)
    count, last = connection.execute(
        select(func.count(), func.max(history.c.seq)).where(history.c.account == account)
    ).one()
    if (row.history_seq, row.history_head) != (checked.seq, checked.head) or (count, last) != (checked.seq,) * 2:
        raise Broken("lines are missing from its history, or its row names another last line")
    if {key: getattr(row, key) for key in _TERMS} != dict(checked.terms):
        raise Broken("relation, unit, cap or filter were changed by hand")
    _require_charges(connection, account, checked)
    return checked


def _require_line(connection: Connection, account: str, known: Checked) -> None:
    if known.seq == 0:
        return
    query = select(history.c.hash).where(history.c.account == account, history.c.seq == known.seq)
    if connection.execute(query).scalar_one_or_none() != known.head:
        raise Broken(
            f"line {known.seq}, which was its last when it was checked before, is gone: the history was cut or "
            "rewritten, or the ledger is an older copy"
        )


def _require_charges(connection: Connection, account: str, checked: Checked) -> None:
    columns = [charges.c[name] for name in (*_FACTS, "state", "measurement_sha256")]
    found = connection.execute(select(*columns).where(charges.c.account == account)).all()
    waits = [row[-2] == "CHARGED" and row[-1] is None for row in found]
    waiting = {row[0]: tuple(row[:-2]) for row, yet in zip(found, waits, strict=True) if yet}
    settled = sum(_digest(tuple(row)) for row, yet in zip(found, waits, strict=True) if not yet) % _MODULUS
    if (len(found), waiting, settled) != (checked.charges, checked.waiting, checked.settled):
        raise Broken("charges were changed, removed or added by hand")


def _digest(values: tuple[Any, ...]) -> int:
    """repr tells a number from its text and None from both; the parts cannot run into each other."""
    return int.from_bytes(hashlib.sha256(repr(values).encode("utf-8", "surrogatepass")).digest(), "big")
