"""A question over time: the same one asked of every period, and what changed from one to the next, with intervals.

Releases have independent noise, so the change between two periods is put together from both intervals, as they are
before they are cut to what is possible: a count that noise would make negative is uncertain all the same. That of the
population decides whether there is news: a population that does not change shows a change in 5 of 100 looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from understudy.pipelines.inference.answers import Answer, Answers, Uncut, told
from understudy.pipelines.inference.intervals import Interval, of_difference
from understudy.pipelines.inference.question import Question

PERIOD, AGAINST = "period", "against"


@dataclass(frozen=True)
class Change:
    """From one period to the next, of one group. `answer` has both periods among its groups."""

    answer: Answer

    @property
    def shows(self) -> bool:
        """Whether it is more than noise and sampling explain."""
        wide = self.answer.population
        return wide is not None and not wide.low <= 0 <= wide.high

    def sentence(self) -> str:
        group = self.answer.group
        named = [f"{name} {value}" for name, value in group.items() if name not in (PERIOD, AGAINST)]
        what = f"from {group[AGAINST]} to {group[PERIOD]}" + (f", {', '.join(named)}" if named else "")
        wide = self.answer.population
        if self.answer.estimate is None or wide is None:
            return f"{what}: a change cannot be told."
        span = f"{told(wide.low)} to {told(wide.high)}"
        news = "a change" if self.shows else "no change beyond noise and sampling"
        return f"{what}: {news} ({told(self.answer.estimate)}, interval {span})."


@dataclass(frozen=True)
class Trend:
    """Answers by period, the oldest first, and the changes between them."""

    question: Question
    periods: tuple[tuple[str, Answers], ...]
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(
            Change(_changed(before, after, earlier, later))
            for (earlier, old), (later, new) in pairwise(self.periods)
            for before, after in _same_groups(old, new)
        )

    def to_json(self) -> dict[str, Any]:
        answers = [
            {PERIOD: period, **answer.to_json(), "sentence": answers.sentence(answer)}
            for period, answers in self.periods
            for answer in answers
        ]
        changes = [
            {**change.answer.to_json(), "shows": change.shows, "sentence": change.sentence()} for change in self.changes
        ]
        notes = [*self.notes, *dict.fromkeys(note for _, answers in self.periods for note in answers.notes)]
        return {"question": self.question.text, "answers": answers, "changes": changes, "notes": notes}

    def lines(self) -> list[str]:
        found = [f"{period}: {answers.sentence(answer)}" for period, answers in self.periods for answer in answers]
        notes = [*self.notes, *dict.fromkeys(note for _, answers in self.periods for note in answers.notes)]
        return found + [change.sentence() for change in self.changes] + [f"   ! {note}" for note in notes]


def _same_groups(old: Answers, new: Answers) -> Sequence[tuple[Answer, Answer]]:
    known = {tuple(answer.group.items()): answer for answer in old}
    pairs = ((known.get(tuple(answer.group.items())), answer) for answer in new)
    return [(before, after) for before, after in pairs if before is not None]


def _changed(before: Answer, after: Answer, earlier: str, later: str) -> Answer:
    group = {**after.group, PERIOD: later, AGAINST: earlier}
    if before.estimate is None or after.estimate is None:
        return Answer(group, None)
    new, old = (each.uncut or Uncut(each.estimate or 0.0, each.interval, each.population) for each in (after, before))
    return Answer(
        group,
        new.value - old.value,
        _difference(new.value, new.interval, old.value, old.interval),
        _difference(new.value, new.population, old.value, old.population),
        reason=after.reason or before.reason,
    )


def _difference(one: float, first: Interval | None, other: float, second: Interval | None) -> Interval | None:
    return None if first is None or second is None else of_difference(one, first, other, second, 0.0)
