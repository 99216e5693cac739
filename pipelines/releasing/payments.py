"""What a run spent: the charges it made, account by account, and what they cost there.

The period of a disjoint series is charged to its own account, and the account the spec names pays for the series. So
the one that was charged is not always the one the spec names, and what was drawn is told apart from what was paid for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from understudy.pipelines.privacy.accounting import Loss, composed_loss
from understudy.pipelines.privacy.ledger.ledger import Account, Balance, Charge, Ledger
from understudy.pipelines.privacy.ledger.names import SEPARATOR, is_period_account, parent_of
from understudy.pipelines.privacy.stating import at_most, spent_text
from understudy.pipelines.releasing.rolling import STAGE
from understudy.pipelines.spec.model import ReleaseSpec


@dataclass(frozen=True)
class Payment:
    """Charges of one run to one account, and their loss by themselves at that account's delta."""

    account: str
    charges: tuple[Charge, ...]
    cost: Loss

    @property
    def drawn(self) -> tuple[str, ...]:
        """The stages whose noise was drawn; paying for a series draws none."""
        return tuple(charge.stage for charge in self.charges if charge.stage != STAGE)

    @property
    def sentence(self) -> str:
        epsilon, delta = spent_text(self.cost.epsilon), at_most(self.cost.delta, 6)
        cost = f"epsilon {epsilon} at delta {delta} ({self.cost.accountant})"
        if not self.drawn:
            times = "" if len(self.charges) == 1 else f", {len(self.charges)} copies"
            return f"{cost}, charged to {self.account} for every period of its series{times}; nothing drawn"
        stages = ", ".join(self.drawn[:3]) + (f" and {len(self.drawn) - 3} more" if len(self.drawn) > 3 else "")
        paid = f", which {parent_of(self.account)} paid for" if is_period_account(self.account) else ""
        return f"{cost}, charged to {self.account}{paid}; drawn: {stages}"


def charges_known(ledger: Ledger, spec: ReleaseSpec) -> frozenset[str]:
    """Every charge of the spec's account, and of the periods it pays for."""
    return frozenset(charge.mid for account in _paying(ledger, spec) for charge in ledger.charges(account.name))


def payments_since(ledger: Ledger, spec: ReleaseSpec, known: frozenset[str]) -> tuple[Payment, ...]:
    """What the release was charged since `known` was asked for, by account; what was drawn comes first."""
    found = [charge for account in _paying(ledger, spec) for charge in ledger.charges(account.name)]
    return payments_of(ledger, [c for c in found if c.mid not in known and c.release == spec.name])


def payments_of(ledger: Ledger, charges: Iterable[Charge]) -> tuple[Payment, ...]:
    by_account: dict[str, list[Charge]] = {}
    for charge in charges:
        by_account.setdefault(charge.account, []).append(charge)
    found = []
    for name, made in by_account.items():
        account = ledger.account(name)
        cost = composed_loss([charge.event for charge in made], float(account.cap.delta), account.relation)
        found.append(Payment(name, tuple(made), cost))
    return tuple(sorted(found, key=lambda payment: (not payment.drawn, payment.account)))


def balances_of(ledger: Ledger, account: str) -> list[Balance]:
    """Of the account that is charged, and of the one that pays for its period, if that is another."""
    return [ledger.balance(name) for name in dict.fromkeys((account, parent_of(account)))]


def _paying(ledger: Ledger, spec: ReleaseSpec) -> list[Account]:
    name = parent_of(spec.privacy.account)
    return [a for a in ledger.accounts() if a.name == name or a.name.startswith(name + SEPARATOR)]
