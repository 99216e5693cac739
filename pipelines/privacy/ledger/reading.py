"""An open ledger, read: balances, what a release would cost, look-ups, inspection. Nothing here changes a row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, func, select

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.filters import EventCounts
from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger import publications, rows
from understudy.pipelines.privacy.ledger.checking import Checkpoints, require_whole
from understudy.pipelines.privacy.ledger.database import Database
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


class LedgerReader:
    """The ledger at a sqlite:/// or postgresql+psycopg:// URL; opening creates or migrates it if need be."""

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

    def acting_for(self, who: Who) -> Self:
        """The same ledger, whose lines say that it was `who`."""
        same = copy(self)
        same.who = who
        return same

    # Accounts

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

    def lease_expired(self, charge: Charge) -> bool:
        return self._database.read(lambda c: bool(c.execute(select(self._database.now > charge.lease_until)).scalar()))

    def publications(self, account: str) -> tuple[Publication, ...]:
        """Every manifest that was published for charges of the account, oldest first."""
        return self._database.read(lambda connection: publications.publications(connection, account))

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
