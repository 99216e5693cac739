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

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.errors import LedgerError, SpecError
from understudy.pipelines.privacy.events import to_json
from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger import publications, rows
from understudy.pipelines.privacy.ledger.accounts import Accounts
from understudy.pipelines.privacy.ledger.checking import Checked, require_whole
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.holder import Holder
from understudy.pipelines.privacy.ledger.publications import Publication
from understudy.pipelines.privacy.ledger.records import (
    Account,
    Balance,
    Charge,
    ChargeRequest,
    HistoryEntry,
    State,
    VerifyReport,
)
from understudy.pipelines.privacy.ledger.schema import charges
from understudy.pipelines.privacy.ledger.who import Who

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


class Ledger(Accounts):
    """Opens (and if need be creates or migrates) the ledger at a sqlite:/// or postgresql+psycopg:// URL."""

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

    def record_approval(self, account: str, release: str, snapshot: str, how: str, who: Who | None = None) -> None:
        """Remember a person's yes to a publication, and who gave it."""

        def work(connection: Connection) -> None:
            rows.get_account(connection, account, lock=True)
            body = {"release": release, "snapshot": snapshot, "how": how}
            ledger_history.append(connection, account, ledger_history.APPROVED, "", body, who or self.who)

        self._database.write(work)
