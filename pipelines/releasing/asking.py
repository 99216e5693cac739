"""A published release, opened to be asked: its measurements where it carries them, its rows where it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from understudy.pipelines.counting.released import counts_entities, released_entities
from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.inference.answers import LEVEL, Answers
from understudy.pipelines.inference.asking import Asked
from understudy.pipelines.inference.asking_trees import AskedTree
from understudy.pipelines.inference.profiled import Regression
from understudy.pipelines.inference.question import Question, parse_question
from understudy.pipelines.inference.tree_verdict import tree_verdict
from understudy.pipelines.inference.tree_views import ToldTree, told_tree
from understudy.pipelines.inference.trends import Trend
from understudy.pipelines.inference.verdict import Verdict, measured_verdict
from understudy.pipelines.methods.tree.released import released_tree
from understudy.pipelines.publishing.manifest import Manifest, ReleaseFile
from understudy.pipelines.publishing.measured import Measured, read_measured, told_of
from understudy.pipelines.publishing.measured_tree import MeasuredTree, read_measured_tree
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.verifying import stored_release
from understudy.pipelines.spec.tree import ROWS

CHOSEN = "which tables were measured was chosen by looking at noisy ones, which the intervals do not know of"


ENTITIES = (
    "entities were counted, not rows: each counts once, and its rows weigh alike, so that a count is of entities and a "
    "mean or share is over them"
)


class PublishedRelease:
    """A release at its place. Every file that is used is checked against the manifest; who signed that, `understudy
    verify` says."""

    def __init__(self, place: str | StoredRelease) -> None:
        self._stored = stored_release(place) if isinstance(place, str) else place

    @property
    def manifest(self) -> Manifest:
        return self._stored.manifest

    @cached_property
    def table(self) -> pa.Table:
        """The published rows. Standard errors that are computed from them leave out the noise: ask `estimate`, `ols` or
        `logit` for those (docs/asking.md)."""
        return self._stored.table()

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """The published rows by table; a table that is alone has the empty name."""
        return self._stored.tables()

    def estimate(self, question: str, level: float = LEVEL) -> Answers:
        """The answer with its intervals (docs/asking.md): `mean(charge) by ward where age >= 60`."""
        return self.answer(parse_question(question), level)

    def answer(self, question: Question, level: float = LEVEL) -> Answers:
        return self._asked.answer(question, level)

    def ols(self, formula: str, level: float = LEVEL) -> Regression:
        """Least squares, `charge ~ age + sex + ward`, with standard errors that know the noise."""
        return self._asked.fit(formula, level)

    def logit(self, formula: str, level: float = LEVEL) -> Regression:
        """Logistic regression, `readmitted ~ age + sex + ward`, with intervals that know the noise (docs/asking.md)."""
        return self._asked.fit_logistic(formula, level)

    @cached_property
    def verdict(self) -> Verdict | None:
        """What the copy is good for; None where it carries no measurements."""
        if self._tree is not None:
            return tree_verdict(told_of_tree(self._tree, self.manifest))
        measured = self._measured
        names = () if measured is None else [column.name for column in measured.columns]
        return None if measured is None else measured_verdict(measured.measurement, names)

    @cached_property
    def _measured(self) -> Measured | None:
        return read_measured(self._stored.trusted)

    @cached_property
    def _tree(self) -> MeasuredTree | None:
        return read_measured_tree(self._stored.trusted)

    @cached_property
    def _asked(self) -> Asked | AskedTree:
        if self._tree is not None:
            return AskedTree(told_of_tree(self._tree, self.manifest), lambda: self.tables)
        return asked_of(self._measured, self.manifest, lambda: self.table)


def ask_over_time(place: str, question: Question, level: float = LEVEL) -> Trend:
    """The question, asked of every release of a name, by snapshot: `place` is the folder that holds them, one of them,
    or the table that each of them replaced in turn: what they measured stays beside it."""
    single, found, notes = replace(question, over_time=False), {}, []
    for release in _releases(place):
        snapshot = release.manifest.snapshot
        try:
            found[snapshot] = release.answer(single, level)  # of one snapshot, the newest
        except PublishError as missing:
            notes.append(f"{snapshot} is left out: {missing.problem}")
    return Trend(question, tuple(sorted(found.items())), tuple(notes))


def _releases(place: str) -> list[PublishedRelease]:
    """The oldest first."""
    stored = stored_release(place)
    if stored.directory is None:
        every = sorted((*stored.earlier(), stored), key=lambda each: each.manifest.created_at)
        return [PublishedRelease(each) for each in every]
    path = place.rstrip("/")
    folder = path.rpartition("/")[0] if path.endswith(f"/{stored.directory}") else path
    return [PublishedRelease(f"{folder}/{name}") for name in sorted(stored.dated, key=lambda name: stored.dated[name])]


def asked_files(
    files: tuple[ReleaseFile, ...], manifest: Manifest, tables: Callable[[], Mapping[str, pa.Table]]
) -> Asked | AskedTree:
    """A release that was made here and is not published yet."""
    contents = {file.path: file.content for file in files}
    tree = read_measured_tree(contents.get)
    if tree is not None:
        return AskedTree(told_of_tree(tree, manifest), tables)
    return asked_of(read_measured(contents.get), manifest, lambda: next(iter(tables().values())))


def told_of_tree(measured: MeasuredTree, manifest: Manifest) -> ToldTree:
    published = [f"{fact.name}.{column}" for fact in manifest.tables for column in fact.columns]
    if measured.tree.is_implied:
        known = {name for domain in measured.domains.values() for name in domain.names}
        published = [f"{ROWS}.{column}" for column in manifest.columns if column not in known]
    released, ticks = released_tree(measured.measurement), int(measured.measurement.facts["ticks"])
    return told_tree(released, measured.tree, measured.domains, ticks, published)


def asked_of(measured: Measured | None, manifest: Manifest, rows: Callable[[], pa.Table]) -> Asked:
    if measured is None and manifest.tables:
        raise SpecError("the release carries no measurements to answer from", "ask a newer release of these tables")
    if measured is None:
        why = "it carries no measurements"
        counted = manifest.method == "privpgd"
        more = "it was published by an earlier version" if counted else f"{manifest.method} measures no counts"
        return Asked(None, rows, f"{why}: {more}")
    told = told_of(measured)
    # The triples of `auto` are not among them: their noise is drawn after they were chosen.
    notes = (CHOSEN,) if manifest.spec.get("method", {}).get("marginals") == "adaptive" else ()
    if counts_entities(measured.measurement):
        entities = released_entities(measured.measurement)
        return Asked(told, rows, notes=(ENTITIES, *notes), number_of_rows=max(1.0, entities.rows))
    return Asked(told, rows, notes=notes)
