"""The ledger's commands: thin, printed for people."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal, InvalidOperation
from pathlib import Path

import click

from understudy.cli.ledger_copy import ledger_to_read
from understudy.cli.tables import print_table
from understudy.cli.writing import write_page
from understudy.pipelines.errors import LedgerError, SpecError, UnderstudyError
from understudy.pipelines.privacy.filters import (
    Filter,
    GaussianFilter,
    RenyiFilter,
    Unholdable,
    best_order,
    own_delta_of,
)
from understudy.pipelines.privacy.ledger.ledger import Balance, Ledger
from understudy.pipelines.privacy.ledger.memory import require_remembered
from understudy.pipelines.privacy.ledger.names import is_period_account, parent_of
from understudy.pipelines.privacy.ledger.who import told
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.privacy.stating import at_most, left_text, spent_text
from understudy.pipelines.releasing.stores import store_of
from understudy.pipelines.releasing.workspace import Workspace

CURRENCIES = (1e-4, 1e-5, 1e-6, 1e-8, 1e-10)


def connected() -> Ledger:
    return Ledger(Workspace.from_environment().ledger_url)


def open_account(
    name: str,
    epsilon: str,
    delta: str,
    relation: str,
    entity: str | None,
    max_rows: int,
    kind: str = "gdp",
    order: float | None = None,
    own_delta: str = "0",
) -> None:
    try:
        unit = Unit(entity, max_rows)
    except ValueError as error:
        raise SpecError(f"the unit is impossible: {error}", "give --entity with --max-rows, or neither") from None
    ledger = connected()
    cap = budget_from(epsilon, delta)
    rule = _filter_from(kind, order, own_delta, cap, Relation(relation))
    require_remembered(ledger, store_of(Workspace.from_environment()), name)
    account = ledger.open_account(name, Relation(relation), unit, cap, filter=rule)
    click.echo(
        f"Account {account.name} in {ledger.where}: epsilon at most {account.cap.epsilon} at delta "
        f"{account.cap.delta}, protecting {account.unit} ({account.relation.value})."
    )
    click.echo(f"The cap is held by filter {account.filter.name}: {account.filter.theorem}.")


def _filter_from(kind: str, order: float | None, own_delta: str, cap: Budget, relation: Relation) -> Filter:
    try:
        aside = Decimal(own_delta)
    except InvalidOperation:
        aside = Decimal(-1)
    if not 0 <= aside < cap.delta:
        raise SpecError(
            f"--own-delta {own_delta} is not between 0 and the cap's delta {cap.delta}",
            "set aside only a part, such as a tenth",
        )
    if kind == "gdp":
        if order is not None:
            raise SpecError("the filter gdp has no order", "leave --order out, or say --filter renyi")
        return GaussianFilter(aside)
    try:
        return RenyiFilter(best_order(cap, relation, aside=aside) if order is None else order, aside)
    except ValueError as error:
        problem = str(error)
    raise SpecError(f"the filter is impossible: {problem}", "give an --order above 1, or a larger cap")


def budget_from(epsilon: str, delta: str) -> Budget:
    try:
        return Budget(Decimal(epsilon), Decimal(delta))
    except (InvalidOperation, ValueError) as error:
        problem = str(error) if isinstance(error, ValueError) else f"{epsilon!r} or {delta!r} is not a number"
        raise SpecError(f"the cap is impossible: {problem}", "give for example --epsilon 3 --delta 1e-6") from None


def show(name: str | None) -> None:
    with ledger_to_read() as ledger:
        accounts = [ledger.account(name)] if name else ledger.accounts()
        if not accounts:
            click.echo(
                f"{ledger.where} has no accounts yet. Open one: understudy ledger open NAME --epsilon 3 --delta 1e-6"
            )
            return
        balances = [ledger.balance(account.name) for account in accounts]
    print_balances(balances)
    for balance in balances:
        if balance.overdrawn:
            click.echo(f"{balance.account.name} is over its cap by its filter and takes no more releases")
    if name:
        _print_filter(balances[0])


def report(to: Path) -> None:
    from understudy.pipelines.releasing.ledger_report import ledger_page

    with ledger_to_read() as ledger:
        text = ledger_page(ledger, dt.datetime.now(dt.UTC))
    write_page(to, text, "--to")


def _print_filter(balance: Balance) -> None:
    """The cap and what is spent in the filter's own unit, and the cap at other deltas: free to say, never added up."""
    account, rule = balance.account, balance.account.filter
    click.echo(f"\nfilter {rule.name}: {rule.theorem}")
    limit = rule.limit(account.cap)
    try:
        counted = rule.counted(balance.events, account.relation)
    except Unholdable:
        click.echo("   its charges have no measure by this filter")
    else:
        click.echo(f"   counted {rule.unit_text(counted)} of {rule.unit_text(limit)}")
    if limit > 0:
        aside = float(rule.own_delta)
        said = [f"{at_most(rule.epsilon(limit, delta))} at {at_most(delta + aside)}" for delta in CURRENCIES]
        click.echo(f"   the cap is also epsilon {', '.join(said)}")
    if rule.own_delta:
        used = own_delta_of(balance.events)
        click.echo(f"   set aside for events with a delta of their own: {used} used of {rule.own_delta}")


def print_balances(balances: list[Balance]) -> None:
    print_table(
        ("account", "protects", "relation", "filter", "spent", "cap", "left", "delta", "charges", "burnt"),
        [
            (
                balance.account.name,
                str(balance.account.unit),
                balance.account.relation.value,
                balance.account.filter.kind,
                spent_text(balance.spent.epsilon),
                str(balance.account.cap.epsilon),
                left_text(balance.left),
                str(balance.account.cap.delta),
                str(balance.charges),
                str(balance.burnt),
            )
            for balance in balances
        ],
        right=("spent", "cap", "left", "charges", "burnt"),
    )


def history(name: str) -> None:
    with ledger_to_read() as ledger:
        ledger.account(name)
        print_table(
            ("#", "at", "what", "charge", "who", "details", "hash"),
            [
                (
                    str(entry.seq),
                    entry.at,
                    entry.action,
                    entry.mid[:12],
                    _who(entry.body),
                    _details(entry.body),
                    entry.hash[:12],
                )
                for entry in ledger.history(name)
            ],
        )


def _details(body: dict[str, object]) -> str:
    what = ("release", "release_id", "snapshot", "stage", "source", "epsilon", "delta", "filter", "how", "reason")
    return ", ".join(f"{key} {str(body[key])[:40]}" for key in (*what, "sha256", "manifest_sha256") if body.get(key))


def _who(body: dict[str, object]) -> str:
    who = body.get("who")
    return told(who) if isinstance(who, dict) else ""  # lines of older versions do not say


def verify() -> None:
    with ledger_to_read() as ledger:
        try:
            report = ledger.verify()
        except UnderstudyError:
            raise
        except Exception as error:  # whatever stands in the tables, a person who verifies wants a verdict
            kind = type(error).__name__
        else:
            kind = ""
    if kind:
        raise LedgerError(
            f"the ledger {ledger.where} does not verify: it holds what Understudy never writes ({kind})",
            "stop releasing from it, restore it from a backup, and find out who changed it",
        )
    if not report.ok:
        raise LedgerError(
            f"the ledger {ledger.where} does not verify:\n  " + "\n  ".join(report.problems),
            "stop releasing from it, restore it from a backup, and find out who changed it",
        )
    click.echo(
        f"{ledger.where}: {report.entries} entries, {report.charges} charges, {report.accounts} accounts: whole."
    )


def change_cap(name: str, epsilon: str, delta: str, reason: str) -> None:
    if is_period_account(name):
        raise SpecError(
            f"the cap of {name} is what {parent_of(name)} paid for its period; it is not set by hand",
            "pay for a further copy with `understudy release --pay-again`, or close the series' own account",
        )
    ledger = connected()
    account = ledger.change_cap(name, budget_from(epsilon, delta), reason)
    click.echo(f"Account {account.name} now has the cap epsilon {account.cap.epsilon} at delta {account.cap.delta}.")


def burn(charge: str, reason: str) -> None:
    ledger = connected()
    matches = [c.mid for a in ledger.accounts() for c in ledger.charges(a.name) if c.mid.startswith(charge)]
    if len(matches) != 1:
        raise SpecError(
            f"{charge!r} names {len(matches)} charges",
            "give more of its id, as `understudy ledger export` prints it",
        )
    burnt = ledger.burn(matches[0], reason)
    click.echo(f"Charge {burnt.mid[:12]} of {burnt.account} is burnt: its budget stays spent.")


def export() -> None:
    with ledger_to_read() as ledger:
        click.echo(json.dumps(ledger.export(), indent=2, default=_junk))


def _junk(value: object) -> str:
    """SQLite keeps a value of any type in any column; an export shows what is there."""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else f"a {type(value).__name__}"
