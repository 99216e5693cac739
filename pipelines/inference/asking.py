"""One door for questions: measurements answer where they can, the published rows elsewhere, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import LEVEL, Answers
from understudy.pipelines.inference.estimating import Told, estimate, unknown
from understudy.pipelines.inference.features import FROM_ROWS, parse_formula
from understudy.pipelines.inference.from_rows import answer_from_rows
from understudy.pipelines.inference.logistic import logit
from understudy.pipelines.inference.profiled import Regression
from understudy.pipelines.inference.question import Question, parse_question
from understudy.pipelines.inference.regression import ols
from understudy.pipelines.inference.sums import NotMeasured
from understudy.pipelines.table.coding.encode import encode_column


@dataclass(frozen=True, eq=False)
class Asked:
    """A release as questions see it. `told` is None where it carries no measurements, and `why` says why."""

    told: Told | None
    rows: Callable[[], pa.Table] = field(repr=False)
    why: str = ""
    notes: tuple[str, ...] = ()
    number_of_rows: float | None = None
    """As it was measured, where the measurements count something else."""

    def fit(self, formula: str, level: float = LEVEL) -> Regression:
        """Least squares from measured pairs."""
        return self._fitted(lambda told: ols(told, formula, level))

    def fit_logistic(self, formula: str, level: float = LEVEL) -> Regression:
        """Logistic regression from measured pairs, and the published rows for what is not of pairs."""
        return self._fitted(lambda told: logit(told, formula, self._codes(told, formula), level))

    def _fitted(self, fitted: Callable[[Told], Regression]) -> Regression:
        problem = self.why
        if self.told is not None:
            try:
                return replace(fitted(self.told), notes=self.notes)
            except NotMeasured as missing:
                names = [self.told.columns[place].name for place in missing.columns]
                problem = f"{listed(names)} were not measured together"
        raise SpecError(f"no standard errors can be given: {problem}", FROM_ROWS)

    def _codes(self, told: Told, formula: str) -> dict[int, npt.NDArray[np.int64]]:
        """Of the published rows, by the columns that explain; those that were not measured are told of elsewhere."""
        places = [told.places[name] for name in parse_formula(formula)[1] if name in told.places]
        rows = self.rows()
        return {
            place: encode_column(rows.column(told.columns[place].name), told.columns[place]).astype(np.int64)
            for place in places
        }

    def answer(self, question: str | Question, level: float = LEVEL) -> Answers:
        asked = parse_question(question) if isinstance(question, str) else question
        require_single(asked, level)
        reason = self.why
        if self.told is not None:
            others = unknown(self.told, asked)
            if not others:
                try:
                    return Answers(asked, estimate(asked, self.told, level), self.notes, level)
                except NotMeasured as missing:
                    names = [self.told.columns[place].name for place in missing.columns]
                    reason = f"{listed(names)} were not measured together"
            else:
                reason = f"{listed(others)} {'was' if len(others) == 1 else 'were'} not measured"
        columns = {} if self.told is None else {column.name: column for column in self.told.columns}
        total = self.number_of_rows
        if total is None and self.told is not None:
            total = max(1.0, self.told.residuals.total)
        answers = answer_from_rows(asked, self.rows(), columns, reason, total)
        note = "the published rows answer, which say nothing of how far off they are"
        notes = (note,) if self.number_of_rows is not None else (*self.notes, note)
        return Answers(asked, answers, notes, level, "rows")


def require_single(question: Question, level: float) -> None:
    """SpecError if it is no question to one release, or no interval has that level."""
    if not 0.5 <= level < 1:
        raise SpecError(f"no interval has the level {level:g}", "choose one from 0.5 to below 1, such as 0.95")
    if question.over_time:
        raise SpecError("a question over time is about all releases of a name", "name the folder that holds them")


def listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
