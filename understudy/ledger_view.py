"""The ledger for people who work in Python: balances to look at, and its page. It cannot be changed from here."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from understudy.pipelines.privacy.stating import left_text, spent_text
from understudy.pipelines.publishing.pages.fragment import fragment
from understudy.pipelines.publishing.pages.page import Html, table

if TYPE_CHECKING:
    from understudy.pipelines.privacy.ledger.ledger import Balance

HEADS = ("account", "protects", "spent", "cap", "left", "delta", "charges", "burnt")


@dataclass(frozen=True)
class LedgerView:
    """`balances` by account; printed or shown in a notebook, a table."""

    ledger: Any = field(repr=False)

    @property
    def balances(self) -> dict[str, Balance]:
        return {account.name: self.ledger.balance(account.name) for account in self.ledger.accounts()}

    @property
    def page(self) -> str:
        """What `understudy ledger report` writes."""
        from understudy.pipelines.releasing.ledger_report import ledger_page

        return ledger_page(self.ledger, dt.datetime.now(dt.UTC))

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                name,
                str(balance.account.unit),
                spent_text(balance.spent.epsilon),
                str(balance.account.cap.epsilon),
                left_text(balance.left),
                str(balance.account.cap.delta),
                str(balance.charges),
                str(balance.burnt),
            )
            for name, balance in self.balances.items()
        ]

    def __str__(self) -> str:
        return "\n".join("\t".join(row) for row in [HEADS, *self._rows()])

    def _repr_html_(self) -> str:
        rows = self._rows()
        body = table(HEADS, rows, "accounts") if rows else Html("<p>No account is open yet.</p>")
        where = Html(f"<p>{escape(self.ledger.where)}</p>")
        return fragment("Privacy ledger", [(f"{len(rows):,}", "accounts")], Html(where + body))
