"""Questions to a release of several tables: the view that has their columns answers, else the rows, joined.

What is measured counts roots: each once, its rows alike. What the rows answer counts rows of the lowest table that the
question names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import LEVEL, Answers
from understudy.pipelines.inference.asking import Asked, listed, require_single
from understudy.pipelines.inference.estimating import estimate
from understudy.pipelines.inference.features import FROM_ROWS, parse_formula
from understudy.pipelines.inference.from_rows import answer_from_rows
from understudy.pipelines.inference.profiled import Regression
from understudy.pipelines.inference.question import Question, parse_question
from understudy.pipelines.inference.sums import NotMeasured
from understudy.pipelines.inference.tree_views import IN_ORDER, ToldTree, ToldView
from understudy.pipelines.spec.tree import TreeTable
from understudy.pipelines.table.columns import DomainColumn

Rows = Callable[[], Mapping[str, pa.Table]]


@dataclass(frozen=True, eq=False)
class AskedTree:
    """A release of several tables as questions see it; `rows` are its published tables, by name."""

    told: ToldTree
    rows: Rows
    notes: tuple[str, ...] = ()

    def answer(self, question: str | Question, level: float = LEVEL) -> Answers:
        asked = parse_question(question) if isinstance(question, str) else question
        require_single(asked, level)
        called = self.told.called(asked.names)
        full = list(called.values())
        reason = self._why_not(full) if full else ""
        for view in self.told.views_with(full):
            told = view.told(called)
            try:
                return Answers(asked, estimate(asked, told, level), (*self._counted(view), *self.notes), level)
            except NotMeasured as missing:
                reason = f"{listed([told.columns[place].name for place in missing.columns])} were not measured together"
        table = self.told.table_of(full)
        in_order = any(self.told.roles.get(name) in IN_ORDER for name in full)
        if table is None or in_order:
            what = "no row of the release has them all" if table is None else "rows are not looked at in order"
            raise SpecError(f"{reason}, and {what}", "ask about columns of one table, or of those above it")
        rows = self._joined(table, called)
        domains = {name: column for name, column in self._domain_columns(called).items() if name in rows.column_names}
        answers = answer_from_rows(asked, rows, domains, reason, None)
        note = f"the published rows answer, counting rows of {table}, which say nothing of how far off they are"
        return Answers(asked, answers, (note,), level, "rows")

    def fit(self, formula: str, level: float = LEVEL) -> Regression:
        view, called = self._for(formula)
        asked = Asked(view.told(called), lambda: self._joined(view.table, called))
        return replace(asked.fit(formula, level), notes=(*self._counted(view), *self.notes))

    def fit_logistic(self, formula: str, level: float = LEVEL) -> Regression:
        view, called = self._for(formula)
        if view.table != self.told.tree.root.name:
            raise SpecError(
                f"logit is of {self.told.tree.root.name} alone: published rows of {view.table} do not weigh as they "
                "were measured",
                "ask for shares by group, or for ols",
            )
        asked = Asked(view.told(called), lambda: self._joined(view.table, called))
        return replace(asked.fit_logistic(formula, level), notes=(*self._counted(view), *self.notes))

    def _for(self, formula: str) -> tuple[ToldView, dict[str, str]]:
        wanted, given = parse_formula(formula)
        called = self.told.called(tuple(dict.fromkeys((wanted, *given))))
        for view in self.told.views_with(list(called.values())):
            return view, called
        raise SpecError(f"no standard errors can be given: {self._why_not(list(called.values()))}", FROM_ROWS)

    def _counted(self, view: ToldView) -> tuple[str, ...]:
        root, table = self.told.tree.root, view.table
        who = "entities" if root.implied else root.name
        if view.view.kind == "order":
            rows = f"those of its {table} that follow another one"
        elif table == root.name:
            return (f"{who} were counted",) if root.implied else ()
        else:
            rows = f"its {table}"
        return (
            f"{who} were counted, not {table}: each that has any counts once, and {rows} weigh alike, so that a count "
            f"is of {who} and a mean or share is over them",
        )

    def _why_not(self, full: Sequence[str]) -> str:
        unknown = [name for name in full if name not in self.told.names]
        if unknown:
            return f"{listed(unknown)} {'was' if len(unknown) == 1 else 'were'} not measured"
        return f"{listed(list(full))} were not measured together"

    def _domain_columns(self, called: Mapping[str, str]) -> dict[str, DomainColumn]:
        every = {
            name: column for view in self.told.views for name, column in zip(view.places, view.columns, strict=True)
        }
        return {name: replace(every[full], name=name) for name, full in called.items() if full in every}

    def _joined(self, table: str, called: Mapping[str, str]) -> pa.Table:
        """The rows of a table beside those that they belong to, columns called as they were asked for."""
        tree, tables = self.told.tree, self.rows()
        names = {full: name for name, full in called.items()}
        if tree.is_implied:
            [flat] = tables.values()
            short = {full.partition(".")[2]: name for full, name in names.items()}
            return flat.rename_columns([short.get(name, name) for name in flat.column_names])
        found, at = _prefixed(tables[table], table), tree.table(table)
        for above in (None, *tree.above(table)):
            if above is not None:
                key = f"{at.name}.{at.by}"
                found = found.join(_prefixed(tables[above.name], above.name), key, f"{above.name}.{above.key}")
                at = above
            for child in tree.children(at.name):
                number = f"{child.name}.number"
                if number in names and self.told.roles.get(number) == "number":
                    found = _with_number(
                        found, tables[child.name], child, key if above is not None else f"{at.name}.{at.key}"
                    )
        return found.rename_columns([names.get(name, name) for name in found.column_names])


def _with_number(rows: pa.Table, below: pa.Table, child: TreeTable, key: str) -> pa.Table:
    """Beside each row how many rows of a table lie below it."""
    name = f"{child.name}.number"
    each = below.group_by(str(child.by)).aggregate([([], "count_all")]).rename_columns([key, name])
    counted = rows.join(each, key)
    place = counted.column_names.index(name)
    return counted.set_column(place, name, pc.fill_null(counted.column(name), 0))


def _prefixed(rows: pa.Table, table: str) -> pa.Table:
    return rows.rename_columns([f"{table}.{name}" for name in rows.column_names])
