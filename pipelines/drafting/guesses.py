"""What a column's name lets one suppose. Everything here is a guess of a stranger who saw the name and nothing else,
and is marked as one in the draft: a wrong guess costs accuracy, never privacy.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from understudy.pipelines.drafting.facts import ColumnFacts, Kind

Body = dict[str, Any]
_ANY: Collection[Kind] = ("unknown", "text", "integer", "number")
_WORDS: Collection[Kind] = ("unknown", "text")
_DAYS: Collection[Kind] = ("unknown", "text", "date", "datetime")
_TRUTHS: Collection[Kind] = ("unknown", "text", "integer", "boolean")

PEOPLE = (
    "patient|person|people|customer|client|user|member|employee|worker|student|pupil|subject|participant|respondent|"
    "citizen|resident|household|subscriber|passenger|driver|donor|tenant|buyer|visitor|guest|insured|borrower|voter|"
    "beneficiary|individual"
)
_ID = r"(id|ids|uuid|guid|key|nr|nbr|ref|pk|sk|hash)"
_NUMBERED = rf"({_ID}|no|num|number|code)"
_SORTS = r"(type|status|category|group|class|kind|source|disposition|level|grade|reason|method|channel|segment)"

_DIRECT = re.compile(
    r"(^|_)(e?mail|phone|mobile|telephone|fax|ssn|passport|iban|bic|password|token|secret|ip|mac|imei|url|website|"
    r"(first|last|middle|full|maiden|user|sur|family|given)_?name|surname|street|address|signature|licen[cs]e|plate|"
    r"credit_card|card_number|cookie|device_id|national_id|tax_id|nino|photo|avatar)(_|$)|^name$"
)
_FREE_TEXT = re.compile(r"(^|_)(notes?|comments?|remarks?|description|message|body|free_?text|narrative|summary)$")
_SPELLINGS = ["F", "M", "Female", "Male", "female", "male"]


@dataclass(frozen=True)
class Guess:
    body: Body
    because: str


@dataclass(frozen=True)
class _Rule:
    name: re.Pattern[str]
    kinds: Collection[Kind]
    body: Callable[[ColumnFacts, dt.date], Body]
    because: str


def plain_name(name: str) -> str:
    """`hoursPerWeek`, `hours-per-week` and `Hours per week` are one name; so are `Paid?` and `is paid`, `VAT %` and
    `vat_percent`."""
    told = f"is {name}" if name.rstrip().endswith("?") else name
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", told.replace("%", " percent"))
    return re.sub(r"[^a-z0-9]+", "_", split.lower()).strip("_")


def is_direct(name: str) -> bool:
    """Whether it sounds like what finds a person without any other column."""
    return _DIRECT.search(plain_name(name)) is not None


def is_free_text(name: str) -> bool:
    return _FREE_TEXT.search(plain_name(name)) is not None


def is_id(name: str) -> bool:
    """Whether it sounds like a key. `admission_type_id` sounds like a sort of admission."""
    found = plain_name(name)
    if re.search(rf"(^|_)({PEOPLE})_{_NUMBERED}$", found):
        return True
    return re.search(rf"(^|_){_ID}$", found) is not None and re.search(rf"(^|_){_SORTS}_{_ID}$", found) is None


def is_of_a_person(name: str) -> bool:
    """Whether it sounds like whose row it is."""
    return re.fullmatch(rf"(\w+_)?({PEOPLE})s?(_{_NUMBERED})?", plain_name(name)) is not None


def guess(column: ColumnFacts, today: dt.date) -> Guess | None:
    name = plain_name(column.name)
    for rule in _RULES:
        if column.kind in rule.kinds and rule.name.search(name):
            return Guess(rule.body(column, today), rule.because)
    return None


def supposed_days(column: ColumnFacts, today: dt.date) -> Body:
    """A date or moment of which nothing is said: the last ten years, this one included."""
    return _days(column, dt.date(today.year - 10, 1, 1), dt.date(today.year, 12, 31), "quarter")


def _days(column: ColumnFacts, first: dt.date, last: dt.date, bins: str) -> Body:
    moments = column.kind == "datetime" or (
        column.kind != "date"
        and re.search(r"(_at|_ts|timestamp|datetime|(^|_)time)$", plain_name(column.name)) is not None
    )
    if not moments:
        return {"type": "date", "min": first, "max": last, "bins": bins}
    low, high = (dt.datetime(day.year, day.month, day.day) for day in (first, last + dt.timedelta(days=1)))
    return {"type": "datetime", "min": low, "max": high, "bins": bins}


def _numbers(low: float, high: float, bins: int | None = None, log: bool = False, decimals: int | None = None) -> Any:
    """Whole numbers where the column holds such, or might and the bounds are whole ones of a count."""

    def body(column: ColumnFacts, today: dt.date) -> Body:
        whole = column.kind == "integer" or (column.kind in _WORDS and decimals is None)
        made: Body = {"type": "integer" if whole else "number", "min": low, "max": high}
        if bins is not None:
            made["bins"] = bins
        if log:
            made["scale"] = "log"
        places = column.decimals if column.decimals is not None else decimals
        return made if whole or places is None else made | {"decimals": places}

    return body


def _listed(*values: str | int) -> Any:
    return lambda column, today: {"type": "category", "values": list(values), "other": True}


def _sexes(column: ColumnFacts, today: dt.date) -> Body:
    values = [0, 1, 2] if column.kind == "integer" else _SPELLINGS
    return {"type": "category", "values": list(values), "other": True}


def _years(column: ColumnFacts, today: dt.date) -> Body:
    return {"type": "integer", "min": 1990, "max": today.year + 1}


def _birth(column: ColumnFacts, today: dt.date) -> Body:
    if column.kind in ("integer", "number") or "year" in plain_name(column.name):
        return {"type": "integer", "min": 1900, "max": today.year, "bins": 32}
    return _days(column, dt.date(1900, 1, 1), dt.date(today.year, 12, 31), "year")


def _rule(name: str, kinds: Collection[Kind], body: Any, because: str) -> _Rule:
    return _Rule(re.compile(name), kinds, body, because)


_RULES = (
    _rule(r"(^|_)(birth|born|dob|birthday)", (*_DAYS, "integer"), _birth, "born since 1900"),
    _rule(r"(^|_)age(_years|_at_\w+)?$", _ANY, _numbers(0, 120, 24), "0 to 120 years, in groups of five"),
    _rule(r"(^|_)(sex|gender)(_|$)", (*_WORDS, "integer"), _sexes, "usual spellings; which ones does the table have?"),
    _rule(r"(^|_)(zip|zip_?code|post_?code|postal_?code|plz)$", _ANY, _numbers(0, 99_999, 100),
          "five digits, kept as regions of a thousand codes"),
    _rule(r"(^|_)lat(itude)?$", _ANY, _numbers(-90, 90, 36, decimals=4), "degrees"),
    _rule(r"(^|_)(lon|lng|long|longitude)$", _ANY, _numbers(-180, 180, 36, decimals=4), "degrees"),
    _rule(r"(^|_)year$", _ANY, _years, "years since 1990"),
    _rule(r"(^|_)month$", ("unknown", "integer"), _numbers(1, 12), "1 to 12"),
    _rule(r"(^|_)(weekday|dow|day_of_week)$", ("unknown", "integer"), _numbers(0, 7), "0 to 7"),
    _rule(r"(^|_)hour(_of_day)?$", ("unknown", "integer"), _numbers(0, 23), "0 to 23"),
    _rule(r"(^|_)(hours_per_week|weekly_hours|hours_worked)$", _ANY, _numbers(0, 100, 20), "0 to 100"),
    _rule(r"(^|_)(percent|pct|percentage)$", _ANY, _numbers(0, 100, 20, decimals=2), "0 to 100"),
    _rule(r"(^|_)(ratio|share|fraction|prob|probability)$", _ANY, _numbers(0, 1, 20, decimals=3), "0 to 1"),
    _rule(r"(^|_)(rating|stars)$", _ANY, _numbers(1, 5), "1 to 5"),
    _rule(r"(^|_)height(_cm)?$", _ANY, _numbers(30, 250, 22, decimals=1), "centimetres"),
    _rule(r"(^|_)weight(_kg)?$", _ANY, _numbers(0, 300, 30, decimals=1), "kilogrammes"),
    _rule(r"(^|_)bmi$", _ANY, _numbers(10, 80, 28, decimals=1), "10 to 80"),
    _rule(r"(^|_)systolic(_bp)?$", _ANY, _numbers(50, 260, 21), "mmHg"),
    _rule(r"(^|_)diastolic(_bp)?$", _ANY, _numbers(30, 160, 26), "mmHg"),
    _rule(r"(^|_)(heart_rate|pulse|bpm)$", _ANY, _numbers(20, 250, 23), "beats a minute"),
    _rule(r"^(is|has|was|had|can|did)_|_(flag|yn|ind)$", _TRUTHS, lambda column, today: {"type": "boolean"},
          "yes or no"),
    _rule(r"^(number|num|count|cnt|n|nb|qty|quantity)(_|$)|_(count|cnt|qty|quantity|num)$|"
          r"^(children|dependents|visits|orders|items|persons)$", _ANY, _numbers(0, 10_000, 32, log=True), "a count"),
    _rule(r"(^|_)(price|amount|cost|costs|charge|charges|fee|fees|salary|wage|wages|revenue|payment|premium|"
          r"gain|loss|spend|discount|tax|turnover|paid)(_usd|_eur|_gbp)?$", _ANY,
          _numbers(0, 1_000_000, 32, log=True, decimals=2), "money, 0 to a million"),
    _rule(r"(^|_)income$", ("integer", "number"),  # in words it is often a class, such as <=50K
          _numbers(0, 1_000_000, 32, log=True, decimals=2), "money, 0 to a million"),
    _rule(r"(^|_)(duration|minutes|seconds|days|weeks|los|length_of_stay|tenure)$|^time_in_", _ANY,
          _numbers(0, 10_000, 32, log=True), "a length of time"),
    _rule(r"(^|_)(date|day|datetime|timestamp|time|ts|on|at)$|^(date|datetime|timestamp)_", _DAYS, supposed_days,
          "the last ten years"),
)  # fmt: skip
