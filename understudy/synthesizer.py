"""The fit/sample habit over the ledger's single draw: what is measured once is sampled for free."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.drafted import Drafted
from understudy.notebook import Measured, OtherDataWarning, bar, say
from understudy.pipelines.errors import LedgerError, SpecError
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.spec.lists import with_lists
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import load_spec, spec_of
from understudy.pipelines.spec.tables import with_tables
from understudy.released import Release

if TYPE_CHECKING:
    from understudy.pipelines.releasing.approving import Approval
    from understudy.pipelines.releasing.books import Books
    from understudy.pipelines.releasing.domains import Known
    from understudy.pipelines.releasing.plan_page import PlanTold
    from understudy.pipelines.releasing.planning import Planned
    from understudy.pipelines.releasing.workspace import Workspace
    from understudy.pipelines.table.synthetic_tree import Made

ASSUMED_ROWS = 100_000
_MEASURED = Measured()

Table = Any
"""A pandas or Polars DataFrame, an Arrow table, or anything that speaks the Arrow PyCapsule interface."""


class Synthesizer:
    """The fit/sample habit: `Synthesizer(spec).fit(table).sample(1000)`.

    `spec` is a mapping, a file or a `ReleaseSpec`. A mapping may leave out `source` (give `snapshot` at the top) and
    `publish`. The account must be open, or `cap=(epsilon, delta)` opens it with the spec's relation and unit and the
    filter that the spec's method needs (gdp where it can hold the release, else renyi at the order best for it).
    `progress` shows bars; by default in a notebook alone.
    """

    def __init__(
        self,
        spec: ReleaseSpec | Mapping[str, Any] | str | Path,
        *,
        cap: tuple[float | str, float | str] | None = None,
        home: str | Path | None = None,
        ledger: str | None = None,
        progress: bool | None = None,
    ) -> None:
        self.spec = _read_spec(spec)
        self._progress = progress
        self._cap = cap
        self._workspace = workspace_of(home, ledger)
        self._books: Books | None = None
        self._fitted: _Fitted | None = None

    @staticmethod
    def draft(
        table: Table,
        *,
        name: str = "table",
        entity: str | None = None,
        max_rows: int | None = None,
        epsilon: float | str = 1,
        delta: float | str = "1e-6",
        account: str | None = None,
        public_categories: Collection[str] = (),
    ) -> Drafted:
        """A spec drafted from the types of the table's columns; not one value is looked at.

        Categories of a categorical column are data, too. Name the columns whose categories are public knowledge as
        `public_categories`; all others stay open, as does what neither type nor name tells.
        """
        import datetime as dt

        from understudy.pipelines.drafting.draft import Choices, draft_table, rows_of
        from understudy.pipelines.drafting.frames import frame_facts

        facts = frame_facts(table, public_categories)
        rows = max_rows or rows_of(facts, entity)
        choices = Choices(entity, rows, Decimal(str(epsilon)), Decimal(str(delta)), account or name)
        return Drafted(draft_table(facts, name, choices, dt.date.today()))

    def fit(self, table: Table, *, pay_again: bool = False, rediscover: bool = False) -> Synthesizer:
        """Measure the table under the spec's budget, once; a repeated fit of the snapshot spends nothing.

        What the spec leaves open is bought first, once for all snapshots; `rediscover` buys it anew. A snapshot that
        is paid for is not looked at again, which is said; another table than was measured here is warned of.
        """
        from understudy.pipelines.discovery.asking import open_columns
        from understudy.pipelines.releasing.approving import approve, stored_measurement
        from understudy.pipelines.releasing.domains import without_discovery
        from understudy.pipelines.releasing.keys import key_for
        from understudy.pipelines.releasing.payments import charges_known, payments_since
        from understudy.pipelines.releasing.planning import enter_period, plan_release
        from understudy.pipelines.releasing.versions import means_the_table, named_so_before, no_versions

        books = self._open()
        if means_the_table(self.spec) and not named_so_before(self.spec, books.ledger):
            raise no_versions("a table passed from Python has none")
        planned = None if open_columns(self.spec) else plan_release(without_discovery(self.spec))
        self._open_account(books, planned)
        known = charges_known(books.ledger, self.spec)
        if planned is None:
            planned = self._known(table, books, pay_again, rediscover).planned()
        if self.spec.rolling is not None:
            planned = enter_period(planned, books, pay_again)
        approval = approve(books.ledger, planned.spec, planned.plan, pay_again=pay_again)
        measured = stored_measurement(books.ledger, books.store, approval)
        reused = measured is not None
        if measured is None:
            key_for(books, planned.spec.privacy.account)  # or refuse before anything is paid
            with bar("measuring", self._progress):
                measured = self._measure(table, planned, approval, books)
        payments = payments_since(books.ledger, self.spec, known)
        self._fitted = _Fitted(planned, approval, measured, reused, payments)
        self._tell(table, (books.ledger.where, *approval.mids))
        return self

    def _tell(self, table: Table, charges: tuple[str, ...]) -> None:
        """What was spent, also where that is nothing; and that a table was not looked at, if another one was measured
        here. Tables are told apart as objects: what is in them is nobody's business here. Charges are those of one
        ledger: another one may know the same ids, of another table."""
        if not self._require_fit().reused:
            _MEASURED.remember(charges, table)
        elif _MEASURED.is_another(charges, table):
            warnings.warn(
                f"snapshot {self.spec.source.snapshot!r} of {self.spec.name!r} is paid for, from another table than "
                "this one, which was not looked at: give changed data a new snapshot",
                OtherDataWarning,
                stacklevel=3,
            )
        say(self._spent_sentence)

    @property
    def _spent_sentence(self) -> str:
        from understudy.displaying import spent_sentence

        fitted = self._require_fit()
        return spent_sentence(fitted.payments, fitted.reused, fitted.planned.spec.privacy.account)

    def plan(self, rows: int = ASSUMED_ROWS) -> PlanTold:
        """What a fit would spend, its noise, and how good a copy of so many rows would be. Reads no row; printed or
        shown in a notebook it says so in words, `plan.page` is the page that a data steward approves."""
        from understudy.pipelines.discovery.asking import open_columns
        from understudy.pipelines.releasing.discovering import before_buying
        from understudy.pipelines.releasing.domains import known_domain, without_discovery
        from understudy.pipelines.releasing.plan_page import PlanTold
        from understudy.pipelines.releasing.planning import plan_release
        from understudy.pipelines.releasing.standing import standing

        books = self._open()
        if open_columns(self.spec):
            known = known_domain(self.spec, books)
            planned = known.planned() if known is not None else before_buying(self.spec, books)
        else:
            planned = plan_release(without_discovery(self.spec))
        try:
            lines = tuple(standing(books.ledger, planned.spec, planned.plan))
        except (LedgerError, SpecError) as missing:
            lines = (missing.problem,)
        return PlanTold(planned.spec, planned.plan, rows, "assumed", lines)

    def _measure(self, table: Table, planned: Planned, approval: Approval, books: Books) -> Measurement:
        """`table` is a mapping of tables where the spec has several."""
        from understudy.pipelines.releasing import measuring

        if planned.spec.tree is not None:
            with closing(measuring.given_tree(table, planned.spec)) as tables:
                return measuring.measure(measuring.counted_tree(tables, planned), planned, approval, books)
        with closing(measuring.given_source(table, planned.spec)) as source:
            return measuring.measure(measuring.counted_here(source, planned), planned, approval, books)

    def _known(self, table: Table, books: Books, pay_again: bool, rediscover: bool) -> Known:
        """The spec with what is known, or is bought now, of its open columns."""
        from understudy.pipelines.releasing.discovering import Terms, buy_domain, require_affordable
        from understudy.pipelines.releasing.domains import known_domain
        from understudy.pipelines.releasing.keys import key_for
        from understudy.pipelines.releasing.measuring import given_source, given_tree

        known = known_domain(self.spec, books, rediscover)
        if known is not None:
            return known
        terms = Terms(pay_again=pay_again, rediscover=rediscover)
        price = require_affordable(self.spec, books, terms)
        key_for(books, self.spec.privacy.account)  # or refuse before anything is paid
        given = given_source if self.spec.tables is None else given_tree
        return buy_domain(self.spec, price, lambda assumed: closing(given(table, assumed)), books, terms)

    def sample(self, rows: int | None = None) -> Any:
        """A synthetic table of `rows` rows (by default the noisy number of rows). Free, any number of times.

        Of several tables, a mapping by name; `rows` are then those of the root.
        """
        from understudy.pipelines.table.synthetic_tree import tables_of

        found = {name: one.table for name, one in tables_of(self._generate(rows)).items()}
        return found.get("", found)

    @property
    def known_spec(self) -> ReleaseSpec:
        """The spec of the last fit with what was discovered in the place of what it leaves open."""
        return self._require_fit().planned.spec

    @property
    def reused(self) -> bool:
        """Whether the last fit found a measurement that was paid for before, and so did not look at its table."""
        return self._require_fit().reused

    @property
    def spent(self) -> tuple[Any, ...]:
        """What the last fit was charged: a `Payment` for each account that paid, none if it was paid for before."""
        return self._require_fit().payments

    def release(self, rows: int | None = None) -> Release:
        """A sample that was checked against its contract, with its manifest and card."""
        from understudy.pipelines.releasing.checking import require_sound
        from understudy.pipelines.releasing.preparing import prepare_release

        fitted, synthetic = self._require_fit(), self._generate(rows)
        agreements = require_sound(synthetic, fitted.measured, fitted.planned, rows)
        ledger = self._open().ledger
        prepared = prepare_release(synthetic, fitted.measured, agreements, fitted.planned, fitted.approval, ledger)
        return Release(self, prepared)

    def _generate(self, rows: int | None) -> Made:
        from understudy.pipelines.releasing.generating import generate_rows

        fitted = self._require_fit()
        with bar("generating", self._progress) as progress:
            return generate_rows(fitted.measured, fitted.planned, self._workspace.generators, rows, progress)

    def _require_fit(self) -> _Fitted:
        if self._fitted is None:
            raise SpecError("nothing was fitted yet", "call fit(table) first")
        return self._fitted

    def _open(self) -> Books:
        """Once."""
        if self._books is None:
            from understudy.pipelines.releasing.books import Books

            self._books = Books.open(self._workspace)
        return self._books

    def _open_account(self, books: Books, planned: Planned | None) -> None:
        """An account that is open keeps its filter: what that cannot hold is refused when the plan is approved."""
        from understudy.pipelines.privacy.ledger.memory import require_remembered
        from understudy.pipelines.privacy.relation import Budget
        from understudy.pipelines.releasing.discovering import suitable_filter

        if self._cap is None:
            return
        privacy, ledger = self.spec.privacy, books.ledger
        cap = Budget(*(Decimal(str(amount)) for amount in self._cap))
        require_remembered(ledger, books.store, privacy.account)
        known = any(account.name == privacy.account for account in ledger.accounts())
        rule = None if known else suitable_filter(self.spec, cap, planned)
        ledger.open_account(privacy.account, privacy.relation, privacy.protected_unit, cap, "opened from Python", rule)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_books": None}  # an open ledger stays in its process


@dataclass(frozen=True)
class _Fitted:
    planned: Planned
    approval: Approval
    measured: Measurement = field(repr=False)
    reused: bool
    payments: tuple[Any, ...]


def _read_spec(spec: ReleaseSpec | Mapping[str, Any] | str | Path) -> ReleaseSpec:
    if isinstance(spec, ReleaseSpec):
        return spec
    if isinstance(spec, str | Path):
        return load_spec(Path(spec))
    tree = {**spec}
    if "snapshot" in tree:
        tree["source"] = {"uri": "memory", "snapshot": tree.pop("snapshot")}
    return spec_of(with_tables(with_lists({"publish": {"to": "releases"}, **tree}, Path()), Path()))


def workspace_of(home: str | Path | None, ledger: str | None) -> Workspace:
    import os

    from understudy.pipelines.releasing.workspace import HOME, LEDGER, STORE, Workspace

    given = {HOME: str(home)} if home is not None else {}
    if ledger is not None:
        given[LEDGER] = ledger
    elif home is not None:
        given[LEDGER] = given[STORE] = ""  # a home of its own has a ledger of its own, and a store
    return Workspace.from_environment({**os.environ, **given})
