"""The ledger as a page: what every account promises, what it has spent on what, and whether its history is whole.

A ledger holds public values only, so the page may be shown to whoever may know that the releases exist.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.events import Event, describe
from understudy.pipelines.privacy.ledger.ledger import Balance, Charge, Ledger, Publication, State
from understudy.pipelines.privacy.ledger.names import is_period_account
from understudy.pipelines.privacy.ledger.records import VerifyReport, charged_loss
from understudy.pipelines.privacy.stating import at_most, left_text, spent_text
from understudy.pipelines.publishing.pages.charts import step_chart
from understudy.pipelines.publishing.pages.page import Html, Section, code, listed, mark, page, paragraph, table
from understudy.pipelines.publishing.signing import PublicKey

MOST_CHARGES = 200
FORECAST = 1000
"""Beyond so many more releases nobody needs a number."""


@dataclass(frozen=True)
class AccountStory:
    """An account, its newest charges, oldest first, with what it had spent after each, and what was published."""

    balance: Balance
    charges: tuple[tuple[Charge, float], ...]
    publications: tuple[Publication, ...]
    keys: tuple[str, ...]
    more: int | None
    """Releases like the last one that still fit; None before the first."""


def account_story(ledger: Ledger, name: str) -> AccountStory:
    balance, charges = ledger.balance(name), ledger.charges(name)
    counted: Counter[Event] = Counter()
    spent = []
    for place, charge in enumerate(charges):
        counted[charge.event] += 1
        if place >= len(charges) - MOST_CHARGES:
            spent.append((charge, charged_loss(tuple(counted.items()), balance.account).epsilon))
    more = balance.remaining(charges[-1].event, FORECAST) if charges else None
    return AccountStory(balance, tuple(spent), ledger.publications(name), _key_ids(ledger, name), more)


def ledger_page(ledger: Ledger, now: dt.datetime, where: bool = True) -> str:
    """All accounts; those of single periods, which a series opens by itself, come after the others. `where` the ledger
    lies is told to whoever runs it, and not to others."""
    accounts = sorted(ledger.accounts(), key=lambda account: (is_period_account(account.name), account.name))
    stories = [account_story(ledger, account.name) for account in accounts]
    report = ledger.verify()
    place = f"{escape(ledger.where)}, " if where else ""
    return page(
        "Privacy ledger",
        Html(f"{place}ledger {code(ledger.id)}, as of {escape(now.isoformat(timespec='seconds'))}"),
        [
            (f"{len(stories):,}", "accounts"),
            (f"{sum(story.balance.charges for story in stories):,}", "charges"),
            (f"{sum(story.balance.burnt for story in stories):,}", "burnt"),
            ("whole" if report.ok else "BROKEN", "history"),
        ],
        paragraph(
            "An account is the budget of one sensitive dataset. What its filter counts of all charges, measured or "
            "burnt, stays within the cap however later releases are chosen."
        ),
        [_overview(stories), _chain(report), *(_account(story) for story in stories)],
    )


def _overview(stories: Sequence[AccountStory]) -> Section:
    heads = ("account", "protects", "spent", "cap", "left", "delta", "more like the last", "state")
    rows = (
        (
            story.balance.account.name,
            str(story.balance.account.unit),
            spent_text(story.balance.spent.epsilon),
            str(story.balance.account.cap.epsilon),
            left_text(story.balance.left),
            str(story.balance.account.cap.delta),
            _forecast(story.more),
            mark("over its cap", "no") if story.balance.overdrawn else mark("within its cap", "yes"),
        )
        for story in stories
    )
    body = table(heads, rows, "accounts") if stories else paragraph("There are no accounts yet.")
    return Section("Accounts", body, "Epsilon at the cap's delta; never a sum of epsilons.")


def _chain(report: VerifyReport) -> Section:
    if report.ok:
        told = "Every line of the history follows from the one before, and gives the accounts and charges as they are."
        return Section("History", Html(paragraph(told)))
    lines = "".join(f"<li>{escape(problem)}</li>" for problem in report.problems)
    return Section("History", Html(f"<p>{mark('It was changed or cut:', 'no')}</p><ul>{lines}</ul>"))


def _account(story: AccountStory) -> Section:
    account = story.balance.account
    held = (
        f"Filter {account.filter.name}: {account.filter.theorem}. Relation {account.relation.value}. Cap epsilon "
        f"{account.cap.epsilon} at delta {account.cap.delta}. Newest entry of the history: "
    )
    keys = ", ".join(code(key) for key in story.keys) or "none yet"
    signed = f"<p>Keys that signed its releases, as {code('understudy keys show')} names them: {keys}.</p>"
    body = Html(f"<p>{escape(held)}{code(story.balance.history_head[:16])}</p>{signed}{_ahead(story)}")
    if not story.charges:
        return Section(account.name, Html(body + paragraph("Nothing was charged yet.")))
    days, spent = [charge.created_at[:10] for charge, _ in story.charges], [spent for _, spent in story.charges]
    chart = step_chart(days, spent, float(account.cap.epsilon), f"epsilon spent by {account.name} over time")
    return Section(account.name, Html(body + chart + _charges(story) + _published(story)))


def _ahead(story: AccountStory) -> str:
    """Forecast and burnt charges, in words."""
    lines = [f"Releases like the last that still fit: {_forecast(story.more)}."] if story.charges else []
    burnt = [charge for charge, _ in story.charges if charge.state is State.BURNT]
    lines += [
        f"Burnt: {charge.release}, snapshot {charge.snapshot}, {charge.created_at[:10]}. Its budget stays spent, and "
        f"nothing was measured. {charge.reason or ''}"
        for charge in burnt
    ]
    return listed(lines) if lines else ""


def _key_ids(ledger: Ledger, name: str) -> tuple[str, ...]:
    """As people compare them; what is no key in a ledger that somebody changed is told by the chain."""
    found = []
    for _, pem in ledger.keys(name):
        with suppress(SpecError):
            found.append(PublicKey.from_pem(pem, "the ledger's key").id[:16])
    return tuple(dict.fromkeys(found))


def _charges(story: AccountStory) -> Html:
    states = {State.MEASURED: ("measured", "yes"), State.BURNT: ("burnt", "no"), State.CHARGED: ("in doubt", "open")}
    rows = (
        (
            charge.created_at[:19],
            charge.release,
            charge.snapshot,
            charge.stage,
            describe(charge.event),
            at_most(spent),
            mark(*states[charge.state]),
            charge.reason or "",
            code(charge.mid[:12]),
        )
        for charge, spent in reversed(story.charges)
    )
    heads = ("when", "release", "snapshot", "stage", "event", "spent then", "state", "reason", "charge")
    hidden = story.balance.charges - len(story.charges)
    more = paragraph(f"{hidden:,} older charges are in `understudy ledger export`.") if hidden else ""
    return Html(
        f"<h3>Charges</h3>{table(heads, rows, f'charges of {story.balance.account.name}', sortable=True)}{more}"
    )


def _published(story: AccountStory) -> Html:
    if not story.publications:
        return Html("<h3>Published</h3>" + paragraph("Nothing yet."))
    rows = ((one.at[:19], one.release_id, code(one.manifest_sha256)) for one in reversed(story.publications))
    name = f"releases of {story.balance.account.name}"
    return Html(f"<h3>Published</h3>{table(('when', 'release', 'manifest (SHA-256)'), rows, name)}")


def _forecast(more: int | None) -> str:
    if more is None:
        return "nothing was charged yet"
    return f"more than {FORECAST:,}" if more >= FORECAST else f"{more:,}"
