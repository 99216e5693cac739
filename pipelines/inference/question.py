"""The language of questions: one measure, of which groups, of which rows, compared or not. Read by lark.

    count where ward = A and age >= 60
    share(readmitted) by sex
    mean(charge) by ward where age between 60 and 80
    quantile(stay, 0.9)
    mean(income) by sex difference from Male

Words of the language may be written in either case. Names and values are bare or in quotes of any kind: where a name
is expected it is a name, where a value is, a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import LarkError, UnexpectedInput

from understudy.pipelines.errors import SpecError

MOST_LETTERS = 2000
EXAMPLE = "ask as in `mean(charge) by ward where age >= 60` (docs/asking.md)"
Operator = Literal["=", "!=", "<", "<=", ">", ">="]
MeasureKind = Literal["count", "share", "mean", "sum", "quantile"]

_GRAMMAR = r"""
    start: measure clause*
    measure: "count"i                                   -> count
           | "share"i "(" condition ")"                 -> share
           | "share"i                                   -> shares
           | ("mean"i | "avg"i | "average"i) "(" name ")" -> mean
           | "sum"i "(" name ")"                        -> sum
           | "median"i "(" name ")"                     -> median
           | ("quantile"i | "percentile"i) "(" name "," value ")" -> quantile
    ?clause: "by"i name ("," name)*                     -> by
           | "where"i condition                         -> where
           | "difference"i ["from"i value]              -> difference
           | "ratio"i ["to"i value]                     -> ratio
           | "over"i "time"i                            -> over_time

    ?condition: conjunction | condition "or"i conjunction -> or_
    ?conjunction: negation | conjunction "and"i negation  -> and_
    ?negation: atom | "not"i negation                     -> not_
    ?atom: "(" condition ")"
         | name                                         -> truth
         | name OPERATOR value                          -> compare
         | name "in"i "(" value ("," value)* ")"        -> one_of
         | name "not"i "in"i "(" value ("," value)* ")" -> none_of
         | name "between"i value "and"i value           -> between
         | name "is"i "null"i                           -> is_null
         | name "is"i "not"i "null"i                    -> is_not_null

    name: NAME | QUOTED
    value: BARE | QUOTED
    OPERATOR: "<=" | ">=" | "!=" | "<>" | "==" | "=" | "<" | ">"
    NAME: /[^\W\d][\w.\-]*/i
    BARE: /[^\s,()'"`=<>!]+/i
    QUOTED: /"[^"]*"|'[^']*'|`[^`]*`/
    %ignore /\s+/
"""


@dataclass(frozen=True)
class Compare:
    column: str
    operator: Operator
    value: str


@dataclass(frozen=True)
class IsNull:
    column: str


@dataclass(frozen=True)
class Truth:
    """A column of yes and no by itself."""

    column: str


@dataclass(frozen=True)
class Not:
    of: Condition


@dataclass(frozen=True)
class All:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Any_:
    parts: tuple[Condition, ...]


Condition = Compare | IsNull | Truth | Not | All | Any_


@dataclass(frozen=True)
class Measure:
    """`condition` is what a share is of; none: of the rows, how many are in each group. `level` is of a quantile."""

    kind: MeasureKind
    column: str | None = None
    condition: Condition | None = None
    level: float = 0.5


@dataclass(frozen=True)
class Contrast:
    """Groups of the last `by` column against one of them: the one that is named, else the first."""

    kind: Literal["difference", "ratio"]
    against: str | None = None


@dataclass(frozen=True)
class Question:
    text: str
    measure: Measure
    by: tuple[str, ...] = ()
    where: Condition | None = None
    contrast: Contrast | None = None
    over_time: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that it is about, each once."""
        found = [self.measure.column] if self.measure.column is not None else []
        found += [*self.by, *names_in(self.measure.condition), *names_in(self.where)]
        return tuple(dict.fromkeys(found))


def names_in(condition: Condition | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(piece.column for piece in pieces(condition)))


def pieces(condition: Condition | None) -> list[Compare | IsNull | Truth]:
    """The conditions on single columns that it is made of."""
    match condition:
        case None:
            return []
        case Not(of):
            return pieces(of)
        case All(parts) | Any_(parts):
            return [piece for part in parts for piece in pieces(part)]
        case _:
            return [condition]


def worded(condition: Condition) -> str:
    """As it might have been asked."""
    match condition:
        case Not(of):
            return f"not {_inner(of)}"
        case All(parts):
            return " and ".join(_inner(part) for part in parts)
        case Any_(parts):
            return " or ".join(_inner(part) for part in parts)
        case IsNull(column):
            return f"{column} is null"
        case Truth(column):
            return column
        case Compare(column, operator, value):
            return f"{column} {operator} {value}"


def _inner(condition: Condition) -> str:
    return f"({worded(condition)})" if isinstance(condition, All | Any_) else worded(condition)


def parse_question(text: str) -> Question:
    if len(text) > MOST_LETTERS:
        raise SpecError(f"a question has at most {MOST_LETTERS} letters", EXAMPLE)
    try:
        found: Question = _Reader(text).transform(_parser().parse(text))
        return found
    except UnexpectedInput as error:
        rest = text[error.pos_in_stream :][:40] if isinstance(error.pos_in_stream, int) else ""
        place = f"at {rest!r}" if rest else "at its end"
        problem = f"the question is not understood {place}"
    except (LarkError, RecursionError) as error:
        cause = error.__context__ or error
        problem = cause.problem if isinstance(cause, SpecError) else "the question is not understood"
    raise SpecError(problem, EXAMPLE)


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr")


@v_args(inline=True)
class _Reader(Transformer[Token, Any]):
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def start(self, measure: Measure, *clauses: tuple[str, Any]) -> Question:
        given = dict(clauses)
        if len(given) < len(clauses):
            raise SpecError("the question says the same twice", EXAMPLE)
        question = Question(self._text, measure, **given)
        if question.contrast is not None and not question.by:
            raise SpecError("a difference or ratio is between groups: say `by` which column", EXAMPLE)
        if question.contrast is not None and measure.kind == "quantile":
            raise SpecError("quantiles of groups are not compared", "ask for the mean, or for the quantiles by group")
        if measure.kind == "share" and measure.condition is None and not question.by:
            raise SpecError("a share is of a condition, as share(sex = F), or by groups", EXAMPLE)
        return question

    def name(self, token: Token) -> str:
        return _bare(token)

    value = name

    def count(self) -> Measure:
        return Measure("count")

    def share(self, condition: Condition) -> Measure:
        return Measure("share", condition=condition)

    def shares(self) -> Measure:
        return Measure("share")

    def mean(self, name: str) -> Measure:
        return Measure("mean", name)

    def sum(self, name: str) -> Measure:
        return Measure("sum", name)

    def median(self, name: str) -> Measure:
        return Measure("quantile", name)

    def quantile(self, name: str, level: str) -> Measure:
        try:
            number = float(level)
        except ValueError:
            number = -1.0
        if not 0 < number < 1:
            raise SpecError(f"a quantile is at a level between 0 and 1, not {level[:20]}", "as quantile(stay, 0.9)")
        return Measure("quantile", name, level=number)

    def by(self, *names: str) -> tuple[str, Any]:
        return "by", tuple(dict.fromkeys(names))

    def where(self, condition: Condition) -> tuple[str, Any]:
        return "where", condition

    def difference(self, against: str | None) -> tuple[str, Any]:
        return "contrast", Contrast("difference", against)

    def ratio(self, against: str | None) -> tuple[str, Any]:
        return "contrast", Contrast("ratio", against)

    def over_time(self) -> tuple[str, Any]:
        return "over_time", True

    def or_(self, *parts: Condition) -> Condition:
        return Any_(parts)

    def and_(self, *parts: Condition) -> Condition:
        return All(parts)

    def not_(self, part: Condition) -> Condition:
        return Not(part)

    def truth(self, name: str) -> Condition:
        return Truth(name)

    def compare(self, name: str, operator: Token, value: str) -> Condition:
        spelled: Any = {"<>": "!=", "==": "="}.get(str(operator), str(operator))
        return Compare(name, spelled, value)

    def one_of(self, name: str, *values: str) -> Condition:
        return Any_(tuple(Compare(name, "=", value) for value in values))

    def none_of(self, name: str, *values: str) -> Condition:
        return Not(self.one_of(name, *values))

    def between(self, name: str, low: str, high: str) -> Condition:
        return All((Compare(name, ">=", low), Compare(name, "<=", high)))

    def is_null(self, name: str) -> Condition:
        return IsNull(name)

    def is_not_null(self, name: str) -> Condition:
        return Not(IsNull(name))


def _bare(token: Token) -> str:
    return str(token)[1:-1] if token.type == "QUOTED" else str(token)
