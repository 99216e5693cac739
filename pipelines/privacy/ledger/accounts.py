"""Accounts: opened on terms of which only the cap ever changes; what the owner says of them, each for a reason.

Every change appends one sealed line to the account's history in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, update

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.filters import GDP, Filter
from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger import rows
from understudy.pipelines.privacy.ledger.names import period_account, require_account_name
from understudy.pipelines.privacy.ledger.reading import LedgerReader
from understudy.pipelines.privacy.ledger.records import Account
from understudy.pipelines.privacy.ledger.schema import accounts
from understudy.pipelines.privacy.relation import Budget, Relation, Unit


class Accounts(LedgerReader):
    """The ledger as its owner keeps it; the protocol of charges is `Ledger`'s."""

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
