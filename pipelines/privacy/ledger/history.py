"""The hash-chained history: every account's life, one line for each change, each line sealing the one before.

Invariants checked by `verify`:
- lines are numbered without gaps, each hash covers its line and the previous hash, and the account's row
  holds the last;
- replaying the lines gives exactly the accounts and charges that the tables hold;
- each charge went CHARGED -> MEASURED or BURNT at most once, and its mid is the hash of what it names;
- at every moment a charge was accepted, all events together were within the cap then in force, by the account's
  filter (by the older rule, a composition of fixed losses, before the line that gave an old account its filter).

The chain shows edits and deletions by anyone who does not rewrite it whole; a head hash kept elsewhere
(manifests carry it) shows that too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, insert, select, update

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.privacy import filters
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import SelfComposed, from_json
from understudy.pipelines.privacy.ledger.records import (
    Account,
    HistoryEntry,
    State,
    VerifyReport,
    charged_loss,
    measurement_id,
    within,
)
from understudy.pipelines.privacy.ledger.schema import accounts, charges, history
from understudy.pipelines.privacy.ledger.who import Who
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

OPENED, CAP_CHANGED, CHARGED, MEASURED, BURNT = "opened", "cap_changed", "charged", "measured", "burnt"
MOVED = "moved"
FILTERED, APPROVED, PUBLISHED = "filtered", "approved", "published"
RESTORED = "restored"  # from a backup that is older than something known elsewhere, for the reason given
_SEALED_COLUMNS = ("account", "release", "stage", "snapshot", "spec_hash", "attempt", "flow_run")
KEY = "key"


def append(
    connection: Connection, account: str, action: str, mid: str, facts: dict[str, Any], who: Who | None = None
) -> HistoryEntry:
    """Seal one more line. The caller holds the account's lock, so the head cannot move underneath."""
    body = {**facts, "who": (who or Who.here()).facts()}
    columns = (accounts.c.history_seq, accounts.c.history_head)
    head = connection.execute(select(*columns).where(accounts.c.name == account)).one()
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    draft = HistoryEntry(account, head.history_seq + 1, at, action, mid, body, head.history_head, "")
    entry = HistoryEntry(account, draft.seq, at, action, mid, body, draft.previous, draft.expected_hash())
    connection.execute(
        insert(history).values(
            account=account,
            seq=entry.seq,
            at=at,
            action=action,
            mid=mid,
            body=canonical_json(body),
            previous=entry.previous,
            hash=entry.hash,
        )
    )
    connection.execute(
        update(accounts).where(accounts.c.name == account).values(history_seq=entry.seq, history_head=entry.hash)
    )
    return entry


def entries(connection: Connection, account: str | None = None, after: int = 0) -> list[HistoryEntry]:
    query = select(history).order_by(history.c.account, history.c.seq)
    if account is not None:
        query = query.where(history.c.account == account)
    if after:
        query = query.where(history.c.seq > after)
    return [
        HistoryEntry(row.account, row.seq, row.at, row.action, row.mid, json.loads(row.body), row.previous, row.hash)
        for row in connection.execute(query)
    ]


def charge_facts(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a charge that never changes, as the history seals it."""
    return {**{name: columns[name] for name in _SEALED_COLUMNS}, "event": json.loads(columns["event"])}


def sealed_facts(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same, from a sealed line: its source and who charged are of the line, not of the charge. Older lines do not
    say."""
    return {key: value for key, value in body.items() if key not in ("source", "who")}


def source_of(connection: Connection, account: str, mid: str) -> str:
    """Which data a charge is of: as it was charged, or as its owner last said where that moved. Empty: nobody knows."""
    query = (
        select(history.c.body)
        .where(history.c.account == account, history.c.mid == mid, history.c.action.in_((CHARGED, MOVED)))
        .order_by(history.c.seq.desc())
        .limit(1)
    )
    found = connection.execute(query).scalar_one_or_none()
    return "" if found is None else str(json.loads(found).get("source", ""))


def verify(connection: Connection) -> VerifyReport:
    """Recompute everything from the history alone and compare. Reports all problems; raises on none, whatever the
    tables hold: SQLite keeps a value of any type in any column."""
    if connection.dialect.name == "sqlite":
        raw: Any = connection.connection.driver_connection
        raw.text_factory = lambda text: text.decode("utf-8", "replace")
    lines = _readable_entries(connection)
    account_rows = {row.name: row for row in connection.execute(select(accounts))}
    charge_rows = {row.mid: row for row in connection.execute(select(charges))}
    replays = {name: _Replay(name) for name in account_rows}
    problems: list[str] = []
    for line in lines:
        replay = replays.get(line.account)
        if replay is None:
            problems.append(f"history of {line.account!r} line {line.seq}: there is no such account")
        else:
            replay.take(line)
    for mid, charge in charge_rows.items():
        if charge.account not in account_rows:
            problems.append(f"charge {_short(mid)}: its account {charge.account!r} does not exist")
    for name, row in account_rows.items():
        replays[name].finish(row, {mid: charge for mid, charge in charge_rows.items() if charge.account == name})
        problems += replays[name].problems
    heads = {name: row.history_head for name, row in account_rows.items()}
    return VerifyReport(len(account_rows), len(charge_rows), len(lines), heads, tuple(problems))


@dataclass
class _Replay:
    """One account rebuilt line by line."""

    name: str
    account: Account | None = None
    seq: int = 0
    head: str = ""
    states: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: Counter[Any] = field(default_factory=Counter)
    unchecked: bool = False
    filtered: bool = False
    problems: list[str] = field(default_factory=list)

    def take(self, line: HistoryEntry) -> None:
        if not self._follows(line):
            self._report(f"line {line.seq}: the chain is broken here (a line was edited, removed or added by hand)")
        self.seq, self.head = line.seq if isinstance(line.seq, int) else self.seq + 1, line.hash
        try:
            self._apply(line)
        except Exception as error:  # whatever a person wrote there is a finding, never an end of the check
            self._report(f"line {line.seq}: unreadable ({type(error).__name__})")

    def _follows(self, line: HistoryEntry) -> bool:
        try:
            return (line.seq, line.previous, line.hash) == (self.seq + 1, self.head, line.expected_hash())
        except Exception:
            return False  # what cannot be hashed was not sealed

    def finish(self, row: Any, charge_rows: dict[str, Any]) -> None:
        for check in (self._check_cap, lambda: self._check_row(row), lambda: self._check_charges(charge_rows)):
            try:
                check()
            except Exception as error:
                self._report(f"its rows cannot be read ({type(error).__name__})")

    def _check_row(self, row: Any) -> None:
        if (self.seq, self.head) != (row.history_seq, row.history_head):
            self._report("the account's row names another last line than the history has")
        terms = (Relation(row.relation), Unit(row.entity, row.max_rows), Budget(row.epsilon, row.delta))
        if self.account is None or terms != (self.account.relation, self.account.unit, self.account.cap):
            self._report("relation, unit or cap differ from the history")
        if not self.filtered or self.account is None or row.filter != _filter_text(self.account):
            self._report("the filter differs from the history")

    def _check_charges(self, charge_rows: dict[str, Any]) -> None:
        for mid in sorted(set(charge_rows) ^ set(self.states), key=_short):
            where = "the history" if mid in charge_rows else "the charges"
            self._report(f"charge {_short(mid)} is missing from {where}")
        for mid in sorted(set(charge_rows) & set(self.states), key=_short):
            charge = charge_rows[mid]
            if (charge.state, charge.measurement_sha256) != self.states[mid]:
                self._report(f"charge {_short(mid)} is {charge.state}, the history says {self.states[mid][0]}")
            if not _is_sealed(charge, self.facts.get(mid)):
                self._report(f"charge {_short(mid)} differs from what the history sealed")

    def _apply(self, line: HistoryEntry) -> None:
        body = line.body
        if line.action == OPENED:
            if self.account is not None:
                self._report(f"line {line.seq}: opened a second time")
            self.account = Account(
                self.name, Relation(body["relation"]), Unit(body["entity"], body["max_rows"]), _budget(body)
            )
            if "filter" in body:
                self._take_filter(body)
        elif line.action == FILTERED and self.account is not None:
            self._check_cap()
            if self.filtered:
                self._report(f"line {line.seq}: given a filter a second time")
            self._take_filter(body)
        elif line.action == KEY:
            if not (isinstance(body["id"], str) and isinstance(body["public"], str)):
                self._report(f"line {line.seq}: the key that signs from here on is unreadable")
        elif line.action == CAP_CHANGED and self.account is not None:
            self._check_cap()
            self.account = replace(self.account, cap=_budget(body))
        elif line.action == CHARGED:
            named = measurement_id(body["account"], body["spec_hash"], body["snapshot"], body["stage"], body["attempt"])
            if named != line.mid or line.mid in self.states:
                self._report(f"line {line.seq}: charge {_short(line.mid)} is a duplicate or not named by its contents")
            self.states[line.mid], self.facts[line.mid] = (State.CHARGED.value, None), sealed_facts(body)
            self.events[from_json(body["event"])] += 1
            self.unchecked = True
        elif line.action in (MEASURED, BURNT):
            if self.states.get(line.mid) != (State.CHARGED.value, None):
                self._report(f"line {line.seq}: charge {_short(line.mid)} was not waiting for a measurement")
            final = State.MEASURED if line.action == MEASURED else State.BURNT
            self.states[line.mid] = (final.value, body["sha256"] if final is State.MEASURED else None)
        elif line.action == MOVED:
            if line.mid not in self.states:
                self._report(f"line {line.seq}: the source of charge {line.mid[:12]} moved before it was charged")
        elif line.action == PUBLISHED:
            self._take_publication(line)
        elif line.action not in (APPROVED, RESTORED):
            self._report(f"line {line.seq}: unknown action {line.action!r}")

    def _take_publication(self, line: HistoryEntry) -> None:
        body = line.body
        if any(self.states.get(mid, ("",))[0] != State.MEASURED.value for mid in body["mids"]) or not body["mids"]:
            self._report(f"line {line.seq}: {body['release_id']!r} was published without a measured charge")

    def _check_cap(self) -> None:
        """Loss only grows, so the last charge under each cap is the one to check."""
        if not self.unchecked:
            return
        self.unchecked = False
        if self.account is None or not self._within_cap(self.account):
            self._report(f"line {self.seq}: the charges so far exceed the cap then in force")

    def _within_cap(self, account: Account) -> bool:
        if self.filtered:
            return within(charged_loss(tuple(self.events.items()), account), account.cap)
        repeated = [SelfComposed(event, count) for event, count in self.events.items()]
        return within(composed_loss(repeated, float(account.cap.delta), account.relation), account.cap)

    def _take_filter(self, body: dict[str, Any]) -> None:
        assert self.account is not None
        self.account, self.filtered = replace(self.account, filter=filters.from_json(body["filter"])), True

    def _report(self, problem: str) -> None:
        self.problems.append(f"account {self.name!r}: {problem}")


def _readable_entries(connection: Connection) -> list[HistoryEntry]:
    """As `entries`, with an empty body where a line's cannot be read: its hash then tells."""
    query = select(history).order_by(history.c.account, history.c.seq)
    return [
        HistoryEntry(row.account, row.seq, row.at, row.action, row.mid, _body(row.body), row.previous, row.hash)
        for row in connection.execute(query)
    ]


def _body(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_sealed(charge: Any, facts: dict[str, Any] | None) -> bool:
    try:
        return charge_facts(charge._mapping) == facts
    except (ValueError, TypeError, RecursionError):
        return False


def _short(mid: Any) -> str:
    return str(mid)[:12]


def _filter_text(account: Account) -> str:
    return canonical_json(filters.to_json(account.filter))


def _budget(body: dict[str, Any]) -> Budget:
    return Budget(Decimal(body["epsilon"]), Decimal(body["delta"]))
