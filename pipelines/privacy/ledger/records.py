"""What the ledger keeps and answers, as frozen values. No database here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.filters import GDP, EventCounts, Filter, Unholdable, spent
from understudy.pipelines.privacy.ledger.holder import Holder
from understudy.pipelines.privacy.relation import Budget, Relation, Unit


class State(StrEnum):
    """CHARGED becomes MEASURED or BURNT, once; both are final. In every state the charge counts against the
    cap."""

    CHARGED = "CHARGED"
    MEASURED = "MEASURED"
    BURNT = "BURNT"


@dataclass(frozen=True)
class Account:
    """The budget of one sensitive dataset. All its releases share relation, unit and filter, fixed at opening."""

    name: str
    relation: Relation
    unit: Unit
    cap: Budget
    filter: Filter = GDP


@dataclass(frozen=True)
class ChargeRequest:
    """One thing to buy. `mid` names it for ever: asking again for the same `mid` never pays or draws again.

    `attempt` is 0 until a charge was burnt and its owner decided to pay again for the same stage. `source` says which
    data it is of, as `sources.identity` knows it (empty: nobody can tell); a spec's text may name two places with it.
    """

    account: str
    relation: Relation
    unit: Unit
    release: str
    spec_hash: str
    snapshot: str
    stage: str
    event: Event
    flow_run: str = ""
    attempt: int = 0
    source: str = ""

    @property
    def mid(self) -> str:
        return measurement_id(self.account, self.spec_hash, self.snapshot, self.stage, self.attempt)


def measurement_id(account: str, spec_hash: str, snapshot: str, stage: str, attempt: int) -> str:
    """H(spec, snapshot, stage): the snapshot is the accounting period. The event is left out on purpose: a
    newer version that would calibrate its noise differently must find the charge already made, not make a
    second one."""
    return hash_of(
        {
            "account": account,
            "spec": spec_hash,
            "snapshot": snapshot,
            "stage": stage,
            "attempt": attempt,
            "v": 1,
        }
    )


@dataclass(frozen=True)
class Charge:
    mid: str
    account: str
    release: str
    stage: str
    snapshot: str
    spec_hash: str
    attempt: int
    event: Event
    state: State
    measurement_sha256: str | None
    flow_run: str
    holder: Holder
    lease_until: float
    created_at: str
    reason: str


@dataclass(frozen=True)
class Balance:
    """What an account has spent: epsilon at the cap's delta of all that its filter has counted, never a sum of
    epsilons. The theorem is about the cap; this says how far the account has come towards it."""

    account: Account
    spent: Loss
    charges: int
    burnt: int
    history_head: str
    events: EventCounts

    @property
    def left(self) -> Decimal:
        """Cap minus spent, in epsilon. A picture, not a promise: composition lets more fit than this
        suggests."""
        if not math.isfinite(self.spent.epsilon):
            return Decimal(0)
        return max(Decimal(0), self.account.cap.epsilon - Decimal(repr(self.spent.epsilon)))

    @property
    def overdrawn(self) -> bool:
        """Charged under an older rule, or a higher cap, beyond what the filter now allows: it takes no more."""
        return not within(self.spent, self.account.cap)

    def remaining(self, event: Event, most: int = 100_000) -> int:
        """How many more releases of `event` fit under the cap, up to `most`."""

        def fits(count: int) -> bool:
            return within(charged_loss(((event, count), *self.events), self.account), self.account.cap)

        low, high = 0, 1
        while high <= most and fits(high):
            low, high = high, 2 * high
        high = min(high, most + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low


@lru_cache(maxsize=256)
def loss_of(events: EventCounts, account: Account) -> Loss:
    """What the account's filter says of these events; raises `Unholdable` for what it has no theorem for."""
    return spent(account.filter, events, account.cap, account.relation)


def charged_loss(events: EventCounts, account: Account) -> Loss:
    """The same of what is charged already; infinite for an old charge that no filter holds."""
    try:
        return loss_of(events, account)
    except Unholdable:
        return Loss(math.inf, float(account.cap.delta), f"{account.filter.kind} filter")


def within(loss: Loss, cap: Budget) -> bool:
    """In decimals: the shortest text of the rounded-up loss against the cap as it was written."""
    return Decimal(repr(loss.epsilon)) <= cap.epsilon


@dataclass(frozen=True)
class HistoryEntry:
    """One line of an account's history. `hash` covers every other field, `previous` is the hash of the line
    before."""

    account: str
    seq: int
    at: str
    action: str
    mid: str
    body: dict[str, Any]
    previous: str
    hash: str

    def expected_hash(self) -> str:
        return hash_of(
            {
                "account": self.account,
                "seq": self.seq,
                "at": self.at,
                "action": self.action,
                "mid": self.mid,
                "body": self.body,
                "previous": self.previous,
            }
        )


@dataclass(frozen=True)
class VerifyReport:
    """`problems` is empty when the history is whole and agrees with accounts, charges and caps."""

    accounts: int
    charges: int
    entries: int
    heads: dict[str, str]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems
