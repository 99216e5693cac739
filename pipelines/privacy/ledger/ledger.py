"""The ledger: who may spend how much, who has spent what, and the two transactions that make a release
exactly-once.

T1 (`charge`). In one transaction that holds the account: if the mid is new, the account is whole (its history, terms
  and charges agree: `checking`) and all events of the account, in
  every state, stay with this one within the cap by the account's filter (`privacy.filters`), insert it as
  CHARGED in the caller's name. A
  caller may draw noise only if the charge that `charge` returns is CHARGED and held by the caller's own
  holder.
T2 (`record_measurement`). `UPDATE ... WHERE state = 'CHARGED' AND holder = <who charged>`. If that
  changed no row, the caller was burnt meanwhile: it must publish nothing.
`burn` is the same fence towards BURNT. Nothing ever leaves MEASURED or BURNT, nothing is deleted, nothing is
refunded.

Invariants: at most one charge for each mid; what the filter counts of all charges is within the cap whenever
one is accepted, however the charges were chosen; every change appends one sealed line to the account's
history in the same transaction (`ledger_history`). Every unit of work recognises its own earlier success, so a
commit whose answer was lost can be run again. No decision here depends on a clock; times are for the reader,
and the lease (`spend`) only decides how long to wait.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.errors import LedgerError, SpecError
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.events import Event, to_json
from understudy.pipelines.privacy.filters import GDP, EventCounts, Filter
from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger import publications, rows
from understudy.pipelines.privacy.ledger.checking import Checked, Checkpoints, require_whole
from understudy.pipelines.privacy.ledger.database import Database
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.holder import Holder
from understudy.pipelines.privacy.ledger.names import period_account, require_account_name
from understudy.pipelines.privacy.ledger.publications import Publication
from understudy.pipelines.privacy.ledger.records import (
    Account,
    Balance,
    Charge,
    ChargeRequest,
    HistoryEntry,
    State,
    VerifyReport,
    charged_loss,
)
from understudy.pipelines.privacy.ledger.schema import MIGRATIONS, accounts, charges, history, schema
from understudy.pipelines.privacy.ledger.who import Who
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

__all__ = [
    "Account",
    "Balance",
    "Charge",
    "ChargeRequest",
    "HistoryEntry",
    "Holder",
    "Ledger",
    "Publication",
    "State",
    "VerifyReport",
    "Who",
]

LEASE_SECONDS = 60.0


class Ledger:
    """Opens (and if need be creates or migrates) the ledger at a sqlite:/// or postgresql+psycopg:// URL."""

    def __init__(
        self,
        url: str,
        busy_seconds: float = 60.0,
        patience_seconds: float = 10.0,
        who: Who | None = None,
        checked: Path | None = None,
    ) -> None:
        """`checked` is where to remember how far accounts were verified, if not beside SQLite's file."""
        self._database = Database(url, busy_seconds, patience_seconds)
        self.where = self._database.where
        self.who = who or Who.here()
        self.id = self._database.read(lambda c: str(c.execute(select(schema.c.ledger_id)).scalar_one()))
        self._checkpoints = Checkpoints(checked or self._database.beside, self.id)

    def acting_for(self, who: Who) -> Ledger:
        """The same ledger, whose lines say that it was `who`."""
        same = copy(self)
        same.who = who
        return same

    # Accounts

    def open_account(
        self, name: str, relation: Relation, unit: Unit, cap: Budget, reason: str = "", filter: Filter | None = None
    ) -> Account:
        """Without a `filter` an account that is open keeps its own, and a new one gets gdp."""
        if all(account.name != name for account in self.accounts()):  # what is open keeps whatever name it has
            require_account_name(name)
        return self._open_account(Account(name, relation, unit, cap, filter or GDP), reason, filter is not None)

    def open_period_account(self, parent: str, series: str, label: str, cap: Budget) -> Account:
        """The account of one period of a disjoint series, on its parent's terms; for `releasing.rolling` alone."""
        terms = self.account(parent)
        name = period_account(parent, series, label)
        reason = f"one period of a disjoint series of {parent}"
        return self._open_account(Account(name, terms.relation, terms.unit, cap, terms.filter), reason, True)

    def _open_account(self, wanted: Account, reason: str, with_filter: bool) -> Account:
        name = wanted.name
        _require_room(wanted)

        def work(connection: Connection) -> Account:
            found = rows.find_account(connection, name, lock=True)
            if found is None:
                rows.insert_account(connection, wanted, reason, self.who)
                return wanted
            if found != (wanted if with_filter else replace(wanted, filter=found.filter)):
                raise SpecError(
                    f"Account {name!r} is already open with {rows.describe_terms(found)}; "
                    f"asked for {rows.describe_terms(wanted)}.",
                    "Use the account as it is, change its cap with `understudy ledger cap` and a reason, or "
                    "open another account. Relation, unit and filter of an account never change.",
                )
            return found

        return self._database.write(work)

    def change_cap(self, name: str, cap: Budget, reason: str) -> Account:
        """Lowering a cap below what is spent is allowed: it closes the account to further charges."""
        if not reason.strip():
            raise SpecError("A cap changes only for a recorded reason.", "Say why, in words, with --reason.")

        def work(connection: Connection) -> Account:
            found = rows.get_account(connection, name, lock=True)
            if found.cap == cap:
                return found
            _require_more_than_own_delta(replace(found, cap=cap))
            connection.execute(
                update(accounts).where(accounts.c.name == name).values(epsilon=str(cap.epsilon), delta=str(cap.delta))
            )
            body = {**rows.cap_facts(cap), "was": rows.cap_facts(found.cap), "reason": reason}
            ledger_history.append(connection, name, ledger_history.CAP_CHANGED, "", body, self.who)
            return replace(found, cap=cap)

        return self._database.write(work)

    def account(self, name: str) -> Account:
        return self._database.read(lambda connection: rows.get_account(connection, name))

    def accounts(self) -> list[Account]:
        query = select(accounts).order_by(accounts.c.name)
        return self._database.read(lambda connection: [rows.to_account(row) for row in connection.execute(query)])

    def balance(self, name: str) -> Balance:
        def work(connection: Connection) -> tuple[Account, EventCounts, dict[str, int], str]:
            by_state = select(charges.c.state, func.count()).where(charges.c.account == name).group_by(charges.c.state)
            head = select(accounts.c.history_head).where(accounts.c.name == name)
            account = rows.get_account(connection, name)
            states = {state: int(count) for state, count in connection.execute(by_state)}
            return (
                account,
                rows.event_counts(connection, name),
                states,
                str(connection.execute(head).scalar_one()),
            )

        account, events, states, head = self._database.read(work)
        burnt = states.get(State.BURNT, 0)
        return Balance(account, charged_loss(events, account), sum(states.values()), burnt, head, events)

    # Whose signatures its releases carry

    def record_key(self, account: str, key_id: str, public: str) -> None:
        """Seal the public key that signs the account's releases from here on; once a key."""
        if any(known == public for _, known in self.keys(account)):
            return

        def work(connection: Connection) -> None:
            rows.get_account(connection, account, lock=True)
            if all(known != public for _, known in rows.keys(connection, account)):
                body = {"id": key_id, "public": public}
                ledger_history.append(connection, account, ledger_history.KEY, "", body, self.who)

        self._database.write(work)

    def keys(self, account: str) -> list[tuple[int, str]]:
        """The public keys of the account's releases, oldest first, each with the line of the history that names it."""
        return self._database.read(lambda connection: rows.keys(connection, account))

    # Before any private read

    def check(self, requests: Sequence[ChargeRequest], pay_again: bool = False) -> Loss:
        """Step 0. Returns what the account will have spent once all the requests are paid; changes nothing."""
        if not requests or len({request.account for request in requests}) != 1:
            raise ValueError("check takes the requests of one release, which all name one account")

        known = self._checkpoints.load(requests[0].account)

        def work(connection: Connection) -> tuple[Account, EventCounts, list[Event]]:
            account = rows.get_account(connection, requests[0].account)
            require_whole(connection, account.name, known, self.where)
            unpaid = []
            for request in requests:
                rows.require_same_terms(account, request)
                latest = rows.latest_attempt(connection, request)
                if latest is not None:
                    rows.require_same_source(connection, request, latest)
                if latest is None or (latest.state is State.BURNT and pay_again):
                    unpaid.append(request.event)
                elif latest.state is State.BURNT:
                    raise rows.burnt_error(latest)
            return account, rows.event_counts(connection, account.name), unpaid

        account, events, unpaid = self._database.read(work)
        return rows.affordable(account, events, unpaid, requests[0].release)

    def attempt_for(self, request: ChargeRequest, pay_again: bool = False) -> int:
        """Which attempt a run means: the latest made, or the next one if that is burnt and it is to be paid
        again."""
        latest = self._database.read(lambda connection: rows.latest_attempt(connection, request))
        if latest is None:
            return 0
        return latest.attempt + (1 if pay_again and latest.state is State.BURNT else 0)

    def require_same_source(self, request: ChargeRequest) -> None:
        """Refuse a charge that was made for other data than the request is for."""

        def work(connection: Connection) -> None:
            if (found := rows.find_charge(connection, request.mid)) is not None:
                rows.require_same_source(connection, request, found)

        self._database.read(work)

    def move_source(self, mids: Sequence[str], source: str, reason: str) -> list[str]:
        """The owner's word that the data of these charges is the same, and is now known as `source`."""
        if not reason.strip():
            raise SpecError("A source moves only for a recorded reason.", "Say why, in words, with --reason.")

        def work(connection: Connection) -> list[str]:
            known = []
            for charge in (rows.get_charge(connection, mid) for mid in mids):
                rows.get_account(connection, charge.account, lock=True)
                known.append(ledger_history.source_of(connection, charge.account, charge.mid))
                if known[-1] != source:
                    body = {"source": source, "was": known[-1], "reason": reason}
                    ledger_history.append(connection, charge.account, ledger_history.MOVED, charge.mid, body, self.who)
            return known

        return self._database.write(work)

    # Look-ups

    def find(self, mid: str) -> Charge | None:
        return self._database.read(lambda connection: rows.find_charge(connection, mid))

    def unknown(self, mids: Iterable[str]) -> list[str]:
        """Those that no charge was ever made for."""
        known = self._database.read(lambda c: set(c.execute(select(charges.c.mid)).scalars()))
        return [mid for mid in mids if mid not in known]

    def resolve(self, prefix: str) -> str:
        """The mid that starts with `prefix`, as people type it."""
        query = select(charges.c.mid).where(charges.c.mid.startswith(prefix, autoescape=True)).limit(2)
        found = self._database.read(lambda connection: list(connection.execute(query).scalars()))
        if len(found) != 1 or len(prefix) < 6:
            what = "more than one charge, or has too few digits" if found else "no charge"
            raise SpecError(
                f"{prefix!r} names {what}.",
                "Give at least 6 digits of the charge's id; `understudy ledger history` lists them.",
            )
        return str(found[0])

    def charges(self, account: str) -> list[Charge]:
        return self._charges_where(charges.c.account == account)

    def charges_of(self, account: str, release: str, snapshot: str) -> list[Charge]:
        """What a release has bought of a snapshot, under whichever spec: a resume compares the spec
        hashes."""
        return self._charges_where(
            charges.c.account == account, charges.c.release == release, charges.c.snapshot == snapshot
        )

    def _charges_where(self, *conditions: Any) -> list[Charge]:
        query = select(charges).where(*conditions).order_by(charges.c.created_at, charges.c.mid)
        return self._database.read(lambda connection: [rows.to_charge(row) for row in connection.execute(query)])

    # The protocol

    def charge(self, request: ChargeRequest, holder: Holder, lease_seconds: float = LEASE_SECONDS) -> Charge:
        """T1. Returns the charge as it now stands, whoever made it; see the module for who may draw."""
        known = self._checkpoints.load(request.account)

        def work(connection: Connection) -> tuple[Charge, Checked]:
            account = rows.get_account(connection, request.account, lock=True)
            found = rows.find_charge(connection, request.mid)
            whole = known if found is not None else require_whole(connection, account.name, known, self.where)
            rows.require_same_terms(account, request)
            if found is not None:
                rows.require_same_source(connection, request, found)
                return found, known
            rows.require_previous_burnt(connection, request)
            rows.require_one_measurement(connection, request)
            rows.affordable(account, rows.event_counts(connection, account.name), [request.event], request.release)
            line = self._insert_charge(connection, request, holder, lease_seconds)
            fault_point("inside_t1")
            return rows.get_charge(connection, request.mid), whole.after([line])

        charge, checked = self._database.write(work)
        if checked is not known:
            self._checkpoints.save(request.account, checked)
        return charge

    def record_measurement(self, mid: str, sha256: str, holder: Holder) -> Charge:
        """T2, for the holder that charged. Raises ChargeBurnt if the charge was burnt meanwhile."""
        body = {"sha256": sha256}
        charge = self._settle(mid, holder, State.MEASURED, ledger_history.MEASURED, body, measurement_sha256=sha256)
        if charge.state is State.MEASURED and charge.measurement_sha256 == sha256:
            return charge
        if charge.state is State.BURNT:
            raise rows.burnt_error(charge)
        raise LedgerError(
            f"Charge {mid[:12]} ({charge.stage}) is {charge.state} by {charge.holder}; "
            "this run's result was not taken.",
            "Nothing was published from it. Run the release again: it will use what the ledger holds.",
        )

    def burn(self, mid: str, reason: str, holder: Holder | None = None) -> Charge:
        """Give a charge up: its budget stays spent and it is never drawn. `holder` burns only that attempt's
        charge."""
        if not reason.strip():
            raise SpecError("A charge is burnt only for a recorded reason.", "Say why, in words, with --reason.")
        charge = self._settle(mid, holder, State.BURNT, ledger_history.BURNT, {"reason": reason}, reason=reason)
        if charge.state is State.MEASURED and holder is None:
            raise SpecError(
                f"Charge {mid[:12]} ({charge.stage}) has its measurement; there is nothing to burn.",
                "Releases may use it for free.",
            )
        return charge

    def extend_lease(self, mid: str, holder: Holder, lease_seconds: float = LEASE_SECONDS) -> bool:
        """Heartbeat. The lease never moves back, whatever the clock does."""
        until = self._database.now + lease_seconds
        longer = (
            update(charges)
            .where(charges.c.mid == mid, charges.c.state == State.CHARGED.value)
            .where(charges.c.holder_token == holder.token, charges.c.lease_until < until)
            .values(lease_until=until)
        )
        return self._database.write(lambda connection: connection.execute(longer).rowcount == 1)

    def lease_expired(self, charge: Charge) -> bool:
        return self._database.read(lambda c: bool(c.execute(select(self._database.now > charge.lease_until)).scalar()))

    def _settle(
        self, mid: str, holder: Holder | None, state: State, action: str, body: dict[str, Any], **columns: Any
    ) -> Charge:
        """Move CHARGED to a final state behind the row-count fence; returns the charge as it stands
        afterwards."""

        def work(connection: Connection) -> Charge:
            account = connection.execute(select(charges.c.account).where(charges.c.mid == mid)).scalar_one_or_none()
            if account is None:
                raise SpecError(
                    f"The ledger {self.where} has no charge {mid[:12]!r}.", "See `understudy ledger history`."
                )
            rows.get_account(connection, account, lock=True)
            fenced = update(charges).where(charges.c.mid == mid, charges.c.state == State.CHARGED.value)
            if holder is not None:
                fenced = fenced.where(charges.c.holder_token == holder.token)
            if connection.execute(fenced.values(state=state.value, **columns)).rowcount == 1:
                ledger_history.append(connection, account, action, mid, body, self.who)
                if state is State.MEASURED:
                    fault_point("inside_t2")
            return rows.get_charge(connection, mid)

        return self._database.write(work, patient=True)

    def _insert_charge(
        self, connection: Connection, request: ChargeRequest, holder: Holder, lease: float
    ) -> HistoryEntry:
        values = {
            "mid": request.mid,
            "account": request.account,
            "release": request.release,
            "stage": request.stage,
            "snapshot": request.snapshot,
            "spec_hash": request.spec_hash,
            "attempt": request.attempt,
            "event": canonical_json(to_json(request.event)),
            "state": State.CHARGED.value,
            "flow_run": request.flow_run,
            "holder_token": holder.token,
            "holder_place": holder.place,
            "holder_pid": holder.pid,
            "holder_started": holder.started,
            "created_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "reason": "",
        }
        connection.execute(insert(charges).values(**values, lease_until=self._database.now + lease))
        body = ledger_history.charge_facts(values)
        if request.source:
            body["source"] = request.source
        who = self.who.in_run(request.flow_run)
        return ledger_history.append(connection, request.account, ledger_history.CHARGED, request.mid, body, who)

    # What became of it

    def record_publication(
        self, account: str, mids: Sequence[str], release_id: str, manifest_sha256: str, who: Who | None = None
    ) -> Publication:
        """Remember that a target accepted this manifest. Recording it again changes nothing."""

        def work(connection: Connection) -> Publication:
            rows.get_account(connection, account, lock=True)
            return publications.record(connection, account, tuple(mids), release_id, manifest_sha256, who or self.who)

        return self._database.write(work)

    def publications(self, account: str) -> tuple[Publication, ...]:
        """Every manifest that was published for charges of the account, oldest first."""
        return self._database.read(lambda connection: publications.publications(connection, account))

    def record_approval(self, account: str, release: str, snapshot: str, how: str, who: Who | None = None) -> None:
        """Remember a person's yes to a publication, and who gave it."""

        def work(connection: Connection) -> None:
            rows.get_account(connection, account, lock=True)
            body = {"release": release, "snapshot": snapshot, "how": how}
            ledger_history.append(connection, account, ledger_history.APPROVED, "", body, who or self.who)

        self._database.write(work)

    # Inspection

    def remembers(self, account: str, head: str) -> bool:
        """Whether the account's history has, or had, this line at its end."""
        query = select(history.c.seq).where(history.c.account == account, history.c.hash == head).limit(1)
        return self._database.read(lambda connection: connection.execute(query).first() is not None)

    def history(self, account: str | None = None) -> list[HistoryEntry]:
        return self._database.read(lambda connection: ledger_history.entries(connection, account))

    def verify(self) -> VerifyReport:
        return self._database.read(ledger_history.verify)

    def export(self) -> dict[str, Any]:
        """Everything, as plain JSON. Public values only: the ledger never holds anything else."""

        def work(connection: Connection) -> dict[str, Any]:
            found = connection.execute(select(charges).order_by(charges.c.created_at, charges.c.mid))
            return {
                "ledger": self.id,
                "schema": len(MIGRATIONS),
                "accounts": [
                    {**row._mapping, "filter": json.loads(row.filter)} for row in connection.execute(select(accounts))
                ],
                "charges": [{**row._mapping, "event": json.loads(row.event)} for row in found],
                "history": [asdict(entry) for entry in ledger_history.entries(connection)],
            }

        return self._database.read(work)


def _require_more_than_own_delta(account: Account) -> None:
    if account.filter.own_delta >= account.cap.delta:
        raise SpecError(
            f"Account {account.name!r} sets {account.filter.own_delta} of its delta aside for events with a delta of "
            f"their own, and its cap's delta is {account.cap.delta}.",
            "Set less aside with --own-delta, or give a larger --delta.",
        )


def _require_room(account: Account) -> None:
    """A cap that leaves nothing by the account's filter is a slip: say so now, not at the first release."""
    _require_more_than_own_delta(account)
    if account.filter.limit(account.cap) <= 0:
        raise SpecError(
            f"A cap of epsilon {account.cap.epsilon} at delta {account.cap.delta} leaves nothing for filter "
            f"{account.filter.name}.",
            "Give a larger epsilon or delta, another --order, or the filter gdp.",
        )
