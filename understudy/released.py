"""A release in Python: its rows, what may be said about it, and where it goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from understudy.frames import as_pandas, as_polars, in_duckdb
from understudy.pipelines.errors import SpecError

if TYPE_CHECKING:
    from understudy.pipelines.inference.answers import Answers
    from understudy.pipelines.inference.asking import Asked
    from understudy.pipelines.inference.asking_trees import AskedTree
    from understudy.pipelines.inference.profiled import Regression
    from understudy.pipelines.inference.verdict import Verdict
    from understudy.synthesizer import Synthesizer


@dataclass(frozen=True)
class Release:
    """A synthetic table and what may be said about it."""

    synthesizer: Synthesizer = field(repr=False)
    prepared: Any = field(repr=False)

    @property
    def table(self) -> pa.Table:
        """The synthetic rows; of several tables they are in `tables`. Standard errors that are computed from them leave
        out the noise: ask `estimate`, `ols` or `logit` for those (docs/asking.md)."""
        if self.manifest.tables:
            raise SpecError("the release has several tables", "take them from `tables`, by name")
        return self.prepared.table

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The rows by table; a table that is alone has the release's name."""
        return {name or self.manifest.name: rows.table() for name, rows in self.prepared.tables.items()}

    @property
    def manifest(self) -> Any:
        return self.prepared.manifest

    @property
    def card(self) -> str:
        """One self-contained HTML page."""
        return str(self.prepared.card)

    def to_pandas(self) -> Any:
        """As a frame, in which whole numbers stay whole where some are null; of several tables, frames by name."""
        if self.manifest.tables:
            return {name: as_pandas(table) for name, table in self.tables.items()}
        return as_pandas(self.table)

    def to_polars(self) -> Any:
        """As a Polars frame, which needs the extra `polars`; of several tables, frames by name."""
        if self.manifest.tables:
            return {name: as_polars(table) for name, table in self.tables.items()}
        return as_polars(self.table)

    def duckdb(self, connection: Any = None) -> Any:
        """A DuckDB connection in which each table has its name: `release.duckdb().sql('FROM visits')`."""
        return in_duckdb(self.tables, connection)

    def _repr_html_(self) -> str:
        from understudy.displaying import release_fragment

        return release_fragment(self.manifest, self.tables, self.synthesizer._spent_sentence)

    def estimate(self, question: str, level: float = 0.95) -> Answers:
        """What was measured says of a question, with intervals: `mean(charge) by ward where age >= 60`. Free."""
        return self._asked.answer(question, level)

    def ols(self, formula: str, level: float = 0.95) -> Regression:
        """Least squares from what was measured, `charge ~ age + sex + ward`, with errors that know the noise. Free."""
        return self._asked.fit(formula, level)

    def logit(self, formula: str, level: float = 0.95) -> Regression:
        """Logistic regression of yes and no, `readmitted ~ age + sex + ward`, with intervals that know the noise.
        Free."""
        return self._asked.fit_logistic(formula, level)

    @property
    def verdict(self) -> Verdict | None:
        """What the copy is good for, from signal and noise: `.grade`, `.sentence`, `.pair("sex", "income")`. None where
        the method measures no tables of counts."""
        from understudy.pipelines.releasing.judging import verdict_of_measured

        fitted = self.synthesizer._require_fit()
        return verdict_of_measured(fitted.measured, fitted.planned)

    @cached_property
    def _asked(self) -> Asked | AskedTree:
        from understudy.pipelines.releasing.asking import asked_files

        return asked_files(self.prepared.measured, self.manifest, lambda: self.tables)

    def sample(self, rows: int | None = None) -> pa.Table:
        """Further rows from the same measurement, for free."""
        return self.synthesizer.sample(rows)

    def save(self, to: str | Path, base: str | Path = ".") -> str:
        """Publish as a scheduled release would: atomically, into a directory, a database or an object store."""
        from understudy.pipelines.publishing.targets.base import open_target
        from understudy.pipelines.releasing.keys import signed
        from understudy.pipelines.releasing.recording import publish_recorded, require_ledger_knows

        spec = self.synthesizer.spec
        publish = type(spec.publish).model_validate({**spec.publish.model_dump(), "to": str(to)})
        target = open_target(spec.model_copy(update={"publish": publish}), Path(base).absolute())
        books, account = self.synthesizer._open(), self.manifest.account.name
        require_ledger_knows(books.ledger, target, self.manifest.name, account)
        mids = [charged.mid for charged in self.manifest.guarantee.events]
        return publish_recorded(target, signed(self.prepared, books), books.ledger, account, mids).location
