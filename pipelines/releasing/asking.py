"""A published release, opened to be asked: its measurements where it carries them, its rows where it does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import pyarrow as pa

from understudy.pipelines.counting.released import counts_entities, released_entities
from understudy.pipelines.inference.answers import LEVEL, Answers
from understudy.pipelines.inference.asking import Asked
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.regression import Regression
from understudy.pipelines.inference.residuals import residuals_of
from understudy.pipelines.inference.verdict import Verdict, verdict_of
from understudy.pipelines.publishing.manifest import Manifest, ReleaseFile
from understudy.pipelines.publishing.measured import Measured, read_measured
from understudy.pipelines.publishing.verifying import stored_release

CHOSEN = "which tables were measured was chosen by looking at noisy ones, which the intervals do not know of"


ENTITIES = (
    "entities were counted, not rows: each counts once, and its rows weigh alike, so that a count is of entities and a "
    "mean or share is over them"
)


class PublishedRelease:
    """A release at its place. Every file that is used is checked against the manifest; who signed that, `understudy
    verify` says."""

    def __init__(self, place: str) -> None:
        self._stored = stored_release(place)

    @property
    def manifest(self) -> Manifest:
        return self._stored.manifest

    @cached_property
    def table(self) -> pa.Table:
        """The published rows."""
        return self._stored.table()

    def estimate(self, question: str, level: float = LEVEL) -> Answers:
        """The answer with its intervals (docs/asking.md): `mean(charge) by ward where age >= 60`."""
        return self._asked.answer(question, level)

    def ols(self, formula: str, level: float = LEVEL) -> Regression:
        """Least squares, `charge ~ age + sex + ward`, with standard errors that know the noise."""
        return self._asked.fit(formula, level)

    @cached_property
    def verdict(self) -> Verdict | None:
        """What the copy is good for; None where it carries no measurements."""
        told, of = self._asked.told, self.manifest.counted
        return None if told is None else verdict_of(told.residuals, [column.name for column in told.columns], of)

    @cached_property
    def _asked(self) -> Asked:
        return asked_of(read_measured(self._stored.trusted), self.manifest, lambda: self.table)


def asked_files(files: tuple[ReleaseFile, ...], manifest: Manifest, table: pa.Table) -> Asked:
    """A release that was made here and is not published yet."""
    contents = {file.path: file.content for file in files}
    return asked_of(read_measured(contents.get), manifest, lambda: table)


def asked_of(measured: Measured | None, manifest: Manifest, rows: Callable[[], pa.Table]) -> Asked:
    if measured is None:
        why = "it carries no measurements"
        counted = manifest.method == "privpgd"
        more = "it was published by an earlier version" if counted else f"{manifest.method} measures no counts"
        return Asked(None, rows, f"{why}: {more}")
    notes = (CHOSEN,) if manifest.spec.get("method", {}).get("marginals") in ("adaptive", "auto") else ()
    if counts_entities(measured.measurement):
        return _of_entities(measured, rows, notes)
    told = Told(residuals_of(measured.measurement), measured.columns, measured.max_rows)
    return Asked(told, rows, notes=notes)


def _of_entities(measured: Measured, rows: Callable[[], pa.Table], notes: tuple[str, ...]) -> Asked:
    """An entity's rows are one of whatever is counted, so that they add nothing to what sampling leaves unknown."""
    counted = released_entities(measured.measurement)
    told = Told(residuals_of(measured.measurement), measured.columns[: counted.level])
    return Asked(told, rows, notes=(ENTITIES, *notes), number_of_rows=max(1.0, counted.rows))
