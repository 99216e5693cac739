"""What an answer says: the estimate, how far off it may be and why, in numbers and in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.pipelines.inference.display import shown
from understudy.pipelines.inference.intervals import Interval
from understudy.pipelines.inference.question import Question, worded

LEVEL = 0.95


@dataclass(frozen=True)
class Uncut:
    """The estimate and its intervals before they are cut to what is possible: what comparisons need."""

    value: float
    interval: Interval | None
    population: Interval | None


@dataclass(frozen=True)
class Answer:
    """`group` names it by the `by` columns. `interval` is for this table, that is for noise alone, `population` for
    what the table was sampled from; `noise_share` is the part of the latter's variance that is noise. `within_bins`
    bounds what the bins themselves may hide, beyond the interval. Without an interval, `reason` says why."""

    group: Mapping[str, Any]
    estimate: float | None
    interval: Interval | None = None
    population: Interval | None = None
    noise_share: float | None = None
    within_bins: float = 0.0
    reason: str = ""
    uncut: Uncut | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        own, wide = self.interval, self.population
        said = {
            "estimate": _finite(self.estimate),
            "low": _finite(own.low if own else None),
            "high": _finite(own.high if own else None),
            "population_low": _finite(wide.low if wide else None),
            "population_high": _finite(wide.high if wide else None),
            "noise_share": _finite(self.noise_share),
            "within_bins": self.within_bins,
            **({"reason": self.reason} if self.reason else {}),
        }
        clash = said.keys() & self.group.keys()  # a column that is called so
        return {**self.group, **said, **({"group": dict(self.group)} if clash else {})}


@dataclass(frozen=True)
class Answers:
    """All groups of one question. `notes` hold for all of them."""

    question: Question
    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()
    level: float = LEVEL
    source: str = field(default="measurements")

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def to_json(self) -> dict[str, Any]:
        listed = [{**each.to_json(), "sentence": self.sentence(each)} for each in self.answers]
        return {
            "question": self.question.text,
            "from": self.source,
            "level": self.level,
            "answers": listed,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join([*(self.sentence(each) for each in self.answers), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        level = f"{self.level:.0%}"
        names = list(dict.fromkeys(name for each in self.answers for name in each.group))
        heads = (
            *names,
            "estimate",
            f"{level} for this table",
            f"{level} for the population",
            "noise, of that",
            "why not",
        )
        rows = (
            (
                *(_called(each.group.get(name)) for name in names),
                "too noisy to tell" if each.estimate is None else told(each.estimate),
                "" if each.interval is None else _span(each.interval),
                "" if each.population is None else _span(each.population),
                "" if each.noise_share is None else f"{each.noise_share:.0%}",
                each.reason,
            )
            for each in self.answers
        )
        return shown(self.question.text, heads, rows, self.notes)

    def sentence(self, answer: Answer) -> str:
        against = answer.group.get("against")
        named = [f"{name} {_called(value)}" for name, value in answer.group.items() if name != "against"]
        of = f" for {', '.join(named)}" if named else ""
        versus = f" against {_called(against)}" if "against" in answer.group else ""
        what = f"{_measure(self.question)}{of}{versus}"
        if answer.estimate is None:
            return f"{what}: too noisy to tell."
        if answer.interval is None:
            return f"{what}: {told(answer.estimate)}, without an interval: {answer.reason}."
        percent = f"{self.level:.0%}"
        text = f"{what}: {told(answer.estimate)} ({percent} interval {_span(answer.interval)} for this table"
        if answer.population is not None:
            text += f", {_span(answer.population)} for the population"
        if answer.noise_share is not None:
            text += f"; {answer.noise_share:.0%} of that uncertainty is noise"
        text += ")"
        if answer.within_bins > 0:
            text += f", and up to {told(answer.within_bins)} either way within bins"
        return text + "."


def told(value: float) -> str:
    """Four digits, and whole numbers in full."""
    if not math.isfinite(value):
        return "any" if math.isinf(value) else "unknown"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _measure(question: Question) -> str:
    measure = question.measure
    kind = f"quantile {measure.level:g}" if measure.kind == "quantile" else measure.kind
    contrast = f"{question.contrast.kind} in the " if question.contrast else ""
    if measure.condition is not None:
        return f"{contrast}{kind} with {worded(measure.condition)}"
    return contrast + (f"{kind} of {measure.column}" if measure.column else kind)


def _called(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _span(interval: Interval) -> str:
    return f"{told(interval.low)} to {told(interval.high)}"


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
