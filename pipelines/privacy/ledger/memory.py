"""Whatever remembers outvotes a ledger that does not.

A ledger that was deleted, emptied, swapped or restored from an old copy looks like an honest one with less spent. The
store of measurements remembers which ledger paid for each of them, and for which account: a ledger that does not know
a measurement of the account is not the one that paid for it, and nothing is charged to it.
"""

from __future__ import annotations

from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.privacy.ledger.shelves import StoreAway
from understudy.pipelines.privacy.ledger.store import MeasurementStore


def require_remembered(ledger: Ledger, store: MeasurementStore, account: str, mid: str = "") -> None:
    """Refuse if the store holds measurements of the account, or of its periods, that the ledger never charged.

    `mid` is what is about to be bought: whoever's it is, a measurement of it must not be there yet.
    """
    forgotten = [m for m in ledger.unknown(store.mids()) if m == mid or parent_of(_account_of(store, m)) == account]
    if not forgotten:
        return
    others = {_ledger_of(store, forgotten_mid) for forgotten_mid in forgotten} - {ledger.id, ""}
    why = (
        "another ledger paid for them, so this one was made anew, emptied or put in its place"
        if others
        else "this ledger is older than they are: it was restored from a copy"
    )
    raise LedgerError(
        f"The ledger {ledger.where} does not know {len(forgotten)} measurement(s) of account {account!r} that "
        f"{store.where} holds: {why}. What they cost would be forgotten. Nothing was charged.",
        "Restore the newest backup of the ledger, or name the ledger that paid for them in UNDERSTUDY_LEDGER. If they "
        "were of other data that only share the name, use another account name, or another UNDERSTUDY_HOME.",
    )


def _account_of(store: MeasurementStore, mid: str) -> str:
    return _fact(store, mid, "account")


def _ledger_of(store: MeasurementStore, mid: str) -> str:
    return _fact(store, mid, "ledger")


def _fact(store: MeasurementStore, mid: str, name: str) -> str:
    try:
        return str(store.charge_facts(mid)[name])
    except StoreAway:
        raise  # whose it is cannot be asked now, so nothing is known and nothing may be charged
    except (LedgerError, KeyError, TypeError):
        return ""  # unreadable: `load` refuses it where it matters
