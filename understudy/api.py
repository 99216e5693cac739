"""`synthesize`: a private table in, a release out, without an orchestrator.

    from understudy import synthesize

    release = synthesize(frame, {
        "name": "visits",
        "snapshot": "2026-10",
        "privacy": {"account": "clinic", "epsilon": 1.0, "delta": 1e-6},
        "columns": {"age": {"type": "integer", "min": 0, "max": 110},
                    "sex": {"type": "category", "values": ["F", "M", "X"]}},
    })
    release.table, release.sample(1000), release.save("releases/")

The same ledger, the same single draw and the same stored measurement as a scheduled release: fitting the same spec and
snapshot again finds what was paid for and spends nothing, *whatever rows are passed*, since the snapshot is what names
the data. Give changed data a new snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import SpecError, ValidationFailed
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import load_spec, spec_of

Table = Any
"""A pandas or Polars DataFrame, an Arrow table, or anything that speaks the Arrow PyCapsule interface."""


class Synthesizer:
    """The fit/sample habit: `Synthesizer(spec).fit(table).sample(1000)`.

    `spec` is a mapping, a file or a `ReleaseSpec`. A mapping may leave out `source` (give `snapshot` at the top) and
    `publish`. The account must be open, or `cap=(epsilon, delta)` opens it with the spec's relation and unit and the
    filter that the spec's method needs (gdp where it can hold the release, else renyi at the order best for it).
    """

    def __init__(
        self,
        spec: ReleaseSpec | Mapping[str, Any] | str | Path,
        *,
        cap: tuple[float | str, float | str] | None = None,
        home: str | Path | None = None,
        ledger: str | None = None,
    ) -> None:
        self.spec = _read_spec(spec)
        self._cap = cap
        self._workspace = _workspace(home, ledger)
        self._fitted: _Fitted | None = None

    def fit(self, table: Table, *, pay_again: bool = False) -> Synthesizer:
        """Measure the table under the spec's budget, once; a repeated fit of the snapshot spends nothing."""
        from understudy.pipelines.counting.counting import LocalTable
        from understudy.pipelines.methods.registry import method_named
        from understudy.pipelines.privacy.ledger.spend import Purchases
        from understudy.pipelines.privacy.ledger.store import MeasurementStore
        from understudy.pipelines.releasing.approving import approve, remembering, stored_measurement
        from understudy.pipelines.releasing.payments import charges_known, payments_since
        from understudy.pipelines.releasing.rolling import declared_steps, enter_series
        from understudy.pipelines.sources.base import check_columns
        from understudy.pipelines.sources.memory import ArrowSource
        from understudy.pipelines.sources.period import of_period
        from understudy.pipelines.table.domain import TableDomain

        domain, method = TableDomain.of(self.spec), method_named(self.spec.method.name)
        plan = method.plan(self.spec, domain)
        ledger, store = self._ledger(), MeasurementStore(self._workspace.measurements)
        self._open_account(ledger, plan)
        known = charges_known(ledger, self.spec)
        spec = enter_series(ledger, store, self.spec, plan, pay_again)
        plan = replace(plan, steps=(*plan.steps, *declared_steps(self.spec)))
        approval = approve(ledger, spec, plan, pay_again=pay_again)
        measured = stored_measurement(ledger, store, approval)
        reused = measured is not None
        if measured is None:
            source = of_period(ArrowSource(_arrow(table)), spec)
            check_columns(source.schema(), spec)
            key = sha256(f"contribution:{spec.hash}".encode()).digest()
            private = LocalTable(source, domain, spec.privacy.protected_unit, key)
            requests = {request.stage: request for request in approval.requests}
            purchases = Purchases(ledger, store, lambda charge: requests[charge.stage])
            sold = remembering(purchases, spec) if len(plan.charges) == 1 else purchases
            measured = method.measure(private, spec, plan, sold)
        self._fitted = _Fitted(spec, plan, approval, measured, reused, payments_since(ledger, self.spec, known))
        return self

    def sample(self, rows: int | None = None) -> pa.Table:
        """A synthetic table of `rows` rows (by default the noisy number of rows). Free, any number of times."""
        fitted = self._require_fit()
        from understudy.pipelines.methods.registry import method_named
        from understudy.pipelines.table.domain import TableDomain

        spec = fitted.spec
        method = method_named(spec.method.name)
        return method.generate(
            fitted.measured, spec, TableDomain.of(spec), rows or spec.publish.rows, lambda done, steps, note: None
        )

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
        from understudy.pipelines.releasing.preparing import prepare_release
        from understudy.publishing_checks import failures_of

        fitted = self._require_fit()
        table = self.sample(rows)
        agreements, failures = failures_of(table, fitted.measured, fitted.spec, rows or fitted.spec.publish.rows)
        if failures:
            raise ValidationFailed(
                f"the synthetic table breaks its contract: {'; '.join(failures[:10])}",
                "the paid measurement is kept: sample again, or change `generate` in the spec",
            )
        prepared = prepare_release(
            table, fitted.measured, agreements, fitted.spec, fitted.plan, fitted.approval, self._ledger()
        )
        return Release(self, prepared)

    def _require_fit(self) -> _Fitted:
        if self._fitted is None:
            raise SpecError("nothing was fitted yet", "call fit(table) first")
        return self._fitted

    def _ledger(self) -> Any:
        from understudy.pipelines.privacy.ledger.ledger import Ledger

        return Ledger(self._workspace.ledger_url)

    def _open_account(self, ledger: Any, plan: Any) -> None:
        """An account that is open keeps its filter: what that cannot hold is refused when the plan is approved."""
        from understudy.pipelines.privacy.filters import needed_filter
        from understudy.pipelines.privacy.relation import Budget

        if self._cap is None:
            return
        privacy = self.spec.privacy
        cap = Budget(*(Decimal(str(amount)) for amount in self._cap))
        known = any(account.name == privacy.account for account in ledger.accounts())
        rule = None if known else needed_filter([c.event for c in plan.charges], cap, privacy.relation)
        ledger.open_account(privacy.account, privacy.relation, privacy.protected_unit, cap, "opened from Python", rule)


@dataclass(frozen=True)
class _Fitted:
    spec: ReleaseSpec
    plan: Any
    approval: Any
    measured: Measurement = field(repr=False)
    reused: bool
    payments: tuple[Any, ...]


@dataclass(frozen=True)
class Release:
    """A synthetic table and what may be said about it."""

    synthesizer: Synthesizer = field(repr=False)
    prepared: Any = field(repr=False)

    @property
    def table(self) -> pa.Table:
        return self.prepared.table

    @property
    def manifest(self) -> Any:
        return self.prepared.manifest

    @property
    def card(self) -> str:
        """One self-contained HTML page."""
        return str(self.prepared.card)

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def sample(self, rows: int | None = None) -> pa.Table:
        """Further rows from the same measurement, for free."""
        return self.synthesizer.sample(rows)

    def save(self, to: str | Path, base: str | Path = ".") -> str:
        """Publish as a scheduled release would: atomically, into a directory, a database or an object store."""
        from understudy.pipelines.publishing.targets.base import open_target

        spec = self.synthesizer.spec
        publish = type(spec.publish).model_validate({**spec.publish.model_dump(), "to": str(to)})
        target = open_target(spec.model_copy(update={"publish": publish}), Path(base).absolute())
        return target.publish(self.prepared).location


def synthesize(
    table: Table,
    spec: ReleaseSpec | Mapping[str, Any] | str | Path,
    *,
    rows: int | None = None,
    cap: tuple[float | str, float | str] | None = None,
    home: str | Path | None = None,
    ledger: str | None = None,
) -> Release:
    """A differentially private synthetic copy of `table`, under `spec`, paid for by its account."""
    return Synthesizer(spec, cap=cap, home=home, ledger=ledger).fit(table).release(rows)


def _read_spec(spec: ReleaseSpec | Mapping[str, Any] | str | Path) -> ReleaseSpec:
    if isinstance(spec, ReleaseSpec):
        return spec
    if isinstance(spec, str | Path):
        return load_spec(Path(spec))
    tree = {**spec}
    if "snapshot" in tree:
        tree["source"] = {"uri": "memory", "snapshot": tree.pop("snapshot")}
    return spec_of({"publish": {"to": "releases"}, **tree})


def _workspace(home: str | Path | None, ledger: str | None) -> Any:
    import os

    from understudy.pipelines.releasing.workspace import HOME, LEDGER, Workspace

    given = {HOME: str(home)} if home is not None else {}
    if ledger is not None:
        given[LEDGER] = ledger
    elif home is not None:
        given[LEDGER] = ""  # a home of its own has a ledger of its own
    return Workspace.from_environment({**os.environ, **given})


def _arrow(table: Table) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if type(table).__module__.split(".")[0] == "pandas":
        return pa.Table.from_pandas(table, preserve_index=False)
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    raise SpecError(f"a {type(table).__name__} is not a table", "pass a pandas or Polars DataFrame or a pyarrow Table")
