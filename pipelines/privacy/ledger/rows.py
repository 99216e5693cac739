"""Rows to records and back, and the checks made on them inside a transaction. Every function takes the
connection."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, func, insert, select

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.errors import BudgetRefused, ChargeBurnt, LedgerError, SpecError
from understudy.pipelines.privacy import filters
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.events import Event, from_json
from understudy.pipelines.privacy.filters import EventCounts
from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger.holder import Holder
from understudy.pipelines.privacy.ledger.names import is_period_account, parent_of
from understudy.pipelines.privacy.ledger.records import (
    Account,
    Charge,
    ChargeRequest,
    State,
    charged_loss,
    loss_of,
    within,
)
from understudy.pipelines.privacy.ledger.schema import accounts, charges, history
from understudy.pipelines.privacy.ledger.who import Who
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.privacy.stating import at_most


def to_account(row: Any) -> Account:
    try:
        unit, cap = Unit(row.entity, row.max_rows), Budget(row.epsilon, row.delta)
        return Account(row.name, Relation(row.relation), unit, cap, filters.from_json(json.loads(row.filter)))
    except Exception as error:  # SQLite keeps anything anywhere
        kind = type(error).__name__
    raise LedgerError(
        f"The ledger does not verify: of account {row.name!r}, its row cannot be read ({kind}). Nothing was charged.",
        "Stop releasing from it and find out who changed it: `understudy ledger verify` says all that is wrong. Then "
        "restore the newest backup of ledger and measurements.",
    )


def find_account(connection: Connection, name: str, lock: bool = False) -> Account | None:
    """`lock` holds the account until the transaction ends. SQLite's writers already hold the whole
    database."""
    query = select(accounts).where(accounts.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return None if row is None else to_account(row)


def get_account(connection: Connection, name: str, lock: bool = False) -> Account:
    found = find_account(connection, name, lock)
    if found is not None:
        return found
    known = [row.name for row in connection.execute(select(accounts.c.name).order_by(accounts.c.name))]
    raise SpecError(
        f"The ledger has no account {name!r}; it has {', '.join(known) if known else 'none yet'}.",
        f"Open it: understudy ledger open {name} --epsilon E --delta D, with the spec's relation and unit "
        "(--relation, --entity, --max-rows)",
    )


def insert_account(connection: Connection, account: Account, reason: str, who: Who | None = None) -> None:
    terms = {
        "relation": account.relation.value,
        "entity": account.unit.entity,
        "max_rows": account.unit.max_rows,
        **cap_facts(account.cap),
    }
    rule = filters.to_json(account.filter)
    values = {**terms, "filter": canonical_json(rule), "history_seq": 0, "history_head": ""}
    connection.execute(insert(accounts).values(name=account.name, **values))
    body = {**terms, "filter": rule, "reason": reason}
    ledger_history.append(connection, account.name, ledger_history.OPENED, "", body, who)


def cap_facts(cap: Budget) -> dict[str, str]:
    return {"epsilon": str(cap.epsilon), "delta": str(cap.delta)}


def describe_terms(account: Account) -> str:
    cap = account.cap
    return (
        f"{account.relation.value}, unit {account.unit}, cap epsilon {cap.epsilon} at delta {cap.delta}, "
        f"filter {account.filter.name}"
    )


def keys(connection: Connection, account: str) -> list[tuple[int, str]]:
    """Each public key that the account's history names, with its line."""
    named = (history.c.account == account, history.c.action == ledger_history.KEY)
    found = connection.execute(select(history.c.seq, history.c.body).where(*named).order_by(history.c.seq))
    return [(int(row.seq), str(json.loads(row.body).get("public"))) for row in found]


def find_charge(connection: Connection, mid: str) -> Charge | None:
    row = connection.execute(select(charges).where(charges.c.mid == mid)).one_or_none()
    return None if row is None else to_charge(row)


def get_charge(connection: Connection, mid: str) -> Charge:
    return to_charge(connection.execute(select(charges).where(charges.c.mid == mid)).one())


def to_charge(row: Any) -> Charge:
    return Charge(
        mid=row.mid,
        account=row.account,
        release=row.release,
        stage=row.stage,
        snapshot=row.snapshot,
        spec_hash=row.spec_hash,
        attempt=row.attempt,
        event=_event(row.event),
        state=State(row.state),
        measurement_sha256=row.measurement_sha256,
        flow_run=row.flow_run,
        holder=Holder(row.holder_token, row.holder_place, row.holder_pid, row.holder_started),
        lease_until=row.lease_until,
        created_at=row.created_at,
        reason=row.reason,
    )


def latest_attempt(connection: Connection, request: ChargeRequest) -> Charge | None:
    """The last attempt at what the request names, whatever attempt the request itself carries."""
    query = (
        select(charges)
        .where(charges.c.account == request.account, charges.c.spec_hash == request.spec_hash)
        .where(charges.c.snapshot == request.snapshot, charges.c.stage == request.stage)
        .order_by(charges.c.attempt.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else to_charge(row)


def event_counts(connection: Connection, account: str) -> EventCounts:
    """All events ever charged, in every state. Grouped and ordered, so that equal spending is an equal
    value."""
    query = (
        select(charges.c.event, func.count())
        .where(charges.c.account == account)
        .group_by(charges.c.event)
        .order_by(charges.c.event)
    )
    return tuple((_event(text), int(count)) for text, count in connection.execute(query))


def require_same_terms(account: Account, request: ChargeRequest) -> None:
    if (request.relation, request.unit) != (account.relation, account.unit):
        raise SpecError(
            f"Release {request.release!r} protects {request.unit} under {request.relation.value}; "
            f"account {account.name!r} protects {account.unit} under {account.relation.value}.",
            "Events compose only under one relation and unit: make the spec's `privacy` agree with the "
            "account, or open another account.",
        )


def require_same_source(connection: Connection, request: ChargeRequest, found: Charge) -> None:
    """A measurement is used for the data it is of, not for whatever the same words name in another place."""
    known = ledger_history.source_of(connection, found.account, found.mid)
    if found.state is State.BURNT or not known or not request.source or known == request.source:
        return
    raise SpecError(
        f"Snapshot {request.snapshot!r} of {request.release!r} was measured from {known}; the spec now names "
        f"{request.source}. Nothing was charged and nothing was read.",
        "If that is other data, say so: give it a `source.id`, a snapshot or a name of its own, and it is measured and "
        "charged by itself. If it is the same data, which moved: understudy ledger moved SPEC --reason ..., and what "
        "was paid for is used.",
    )


def require_previous_burnt(connection: Connection, request: ChargeRequest) -> None:
    """Paying again is for burnt charges: anything else has, or may still get, a measurement that is free to
    use."""
    latest = latest_attempt(connection, request)
    expected = 0 if latest is None else latest.attempt + 1
    if request.attempt != expected or (latest is not None and latest.state is not State.BURNT):
        raise SpecError(
            f"Attempt {request.attempt} at stage {request.stage!r} of {request.release!r} is not the next one to pay.",
            "Run the release without --pay-again: the ledger finds the attempt that counts.",
        )


def require_one_measurement(connection: Connection, request: ChargeRequest) -> None:
    """A period of a disjoint series is measured once: its parent paid for that, whatever source a second came from."""
    if not is_period_account(request.account):
        return
    others = select(charges.c.mid).where(charges.c.account == request.account, charges.c.spec_hash != request.spec_hash)
    if connection.execute(others.limit(1)).first() is not None:
        raise measured_otherwise(request.account, request.snapshot)


def measured_otherwise(account: str, snapshot: str) -> SpecError:
    return SpecError(
        f"{snapshot!r} was measured before for this disjoint series, from another source or under another spec, and a "
        f"period is measured once: that is all {parent_of(account)!r} paid for. Nothing was charged.",
        "Undo the edit to use what was measured, for free; or release without `rolling`, under a snapshot of its own, "
        f"and {parent_of(account)!r} pays for a further measurement.",
    )


def affordable(account: Account, spent: EventCounts, asked: Iterable[Event], release: str) -> Loss:
    """What the account has spent by its filter once `asked` is added; SpecError for what the filter cannot hold,
    BudgetRefused for what does not fit."""
    more = tuple((event, 1) for event in asked)
    before = charged_loss(spent, account)
    if more and not within(before, account.cap):
        raise _overdrawn(account, before)
    try:
        after = loss_of((*spent, *more), account)
    except filters.Unholdable as error:
        problem = str(error)
    except ValueError as error:
        raise SpecError(
            f"Release {release!r} cannot be accounted for in account {account.name!r}: {error}.",
            "Change the method's options, or use an account with the other relation.",
        ) from error
    else:
        if more and not within(after, account.cap):
            raise _refused(account, spent, more, before, after, release)
        return after
    raise SpecError(
        f"Account {account.name!r} (filter {account.filter.name}) cannot hold {release!r}: {problem}.",
        _what_to_do(account, more) + " Nothing was read or charged.",
    )


def _overdrawn(account: Account, before: Loss) -> BudgetRefused:
    return BudgetRefused(
        f"Account {account.name!r} takes no more releases: by its filter ({account.filter.theorem}) epsilon "
        f"{at_most(before.epsilon, 6)} is spent of {account.cap.epsilon} at delta {account.cap.delta}. It was charged "
        "under an older rule or a higher cap.",
        "What was released stays valid and is free to use. For more, have the data's owner raise the cap with "
        "`understudy ledger cap` and a reason. Nothing was charged.",
    )


def _refused(
    account: Account, spent: EventCounts, more: EventCounts, before: Loss, after: Loss, release: str
) -> BudgetRefused:
    cap, name = account.cap, account.name
    own = filters.own_delta_of((*spent, *more))
    if own > account.filter.own_delta:
        return BudgetRefused(
            f"Account {name!r} cannot pay for {release!r}: deltas that events have of their own would add up to {own}, "
            f"and {account.filter.own_delta} of the cap's delta was set aside for them.",
            "Lower that delta in the spec, or open an account with a larger --own-delta. Nothing was charged.",
        )
    alone = loss_of(more, account)
    return BudgetRefused(
        f"Account {name!r} cannot pay for {release!r}: spent epsilon {at_most(before.epsilon, 6)} of "
        f"{cap.epsilon} at delta {cap.delta}; the release costs {at_most(alone.epsilon, 6)} by itself and would "
        f"bring the total to {at_most(after.epsilon, 6)} ({account.filter.theorem}).",
        "Lower the release's epsilon, or have the data's owner raise the cap with `understudy ledger cap` "
        "and a reason. Nothing was charged.",
    )


def _what_to_do(account: Account, more: EventCounts) -> str:
    """The account that could hold it, as a command."""
    own = filters.own_delta_of(more)
    try:
        rule = filters.needed_filter([event for event, _ in more], account.cap, account.relation)
    except filters.Unholdable as error:
        return f"No filter can: {error}. Change the method's options."
    order = f" --order {rule.order:g}" if isinstance(rule, filters.RenyiFilter) else ""
    aside = f" --own-delta {own}" if own else ""
    return (
        f"Open another account for it: understudy ledger open NAME --filter {rule.kind}{order}{aside} --epsilon "
        f"{account.cap.epsilon} --delta {account.cap.delta}; its cap counts beside this one's. Or choose a "
        "method or options that release with Gaussian noise."
    )


def burnt_error(charge: Charge) -> ChargeBurnt:
    return ChargeBurnt(
        f"The charge for stage {charge.stage!r} of {charge.release!r}, snapshot {charge.snapshot!r}, is "
        f"burnt ({charge.reason}): its budget is spent, its noise was not kept and is never drawn again.",
        "To release this snapshot all the same, pay a second time: understudy release --pay-again.",
    )


@lru_cache(maxsize=4096)
def _event(text: str) -> Event:
    return from_json(json.loads(text))
