"""A draft: every column decided by what is declared, else guessed from its name, else left open, and marked as such."""

from __future__ import annotations

import datetime as dt
import difflib
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts
from understudy.pipelines.drafting.guesses import (
    Body,
    guess,
    is_direct,
    is_free_text,
    is_id,
    is_of_a_person,
    plain_name,
    supposed_days,
)
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.open import AUTO, DISCOVER
from understudy.pipelines.spec.public import MAX_BINS
from understudy.pipelines.spec.source import CSV_SUFFIXES

Standing = Literal["declared", "guess", "open", "left out"]
SEVERAL_ROWS = 4
"""Rows of an entity that are kept, if nobody says otherwise and it may have several."""

METHOD = {"name": "privpgd", "marginals": "auto"}
"""Of new specs. What a spec that says nothing means stays as it was: docs/decisions.md."""

NULL_WORDS = ("?", "NA", "N/A", "NULL", "null", "NaN", "nan")
_LEFT_OUT: Body = {"type": "text", "action": "drop"}
_KEY: Body = {"type": "identifier", "action": "drop"}
_ORDERED = ("integer", "number", "date", "datetime")


@dataclass(frozen=True)
class DraftedColumn:
    """One line of the draft: what stands there, on whose word, and why."""

    name: str
    body: Body
    standing: Standing
    why: str
    comment: str = ""

    @property
    def modelled(self) -> bool:
        return self.body["type"] not in ("identifier", "text")


@dataclass(frozen=True)
class Choices:
    """What no catalogue knows. `entity` None: a row is a person's only one."""

    entity: str | None
    max_rows: int
    epsilon: Decimal
    delta: Decimal
    account: str


@dataclass(frozen=True)
class Draft:
    name: str
    facts: TableFacts
    choices: Choices
    columns: tuple[DraftedColumn, ...]
    snapshot: str

    @property
    def orders(self) -> list[tuple[str, str]]:
        """Those orders that a rule of the spec can say: of two modelled columns of one type."""
        types = {column.name: column.body["type"] for column in self.columns}
        return [
            (first, second)
            for first, second in self.facts.orders
            if types.get(first) in _ORDERED and types.get(first) == types.get(second)
        ]

    def standing(self, standing: Standing) -> list[str]:
        return [column.name for column in self.columns if column.standing == standing]

    @property
    def dialect(self) -> dict[str, Any]:
        """How a CSV source is written, as far as it can be guessed: words that usually mean that nothing is there."""
        mark = {} if self.facts.delimiter == "," else {"delimiter": self.facts.delimiter}
        return {**mark, "nulls": list(NULL_WORDS)} if self.facts.uri.lower().endswith(CSV_SUFFIXES) else mark

    def tree(self) -> dict[str, Any]:
        """The spec that the draft says, as plain values."""
        unit = {"entity": self.choices.entity, "max_rows": self.choices.max_rows} if self.choices.entity else None
        source = {"uri": self.facts.uri, "table": self.facts.table, "snapshot": self.snapshot}
        dialect = {"csv": self.dialect} if self.dialect else {}
        rules = [{"order": list(pair)} for pair in self.orders]
        return {
            "name": self.name,
            "source": {key: value for key, value in source.items() if value is not None} | dialect,
            "privacy": {
                "account": self.choices.account,
                **({"unit": unit} if unit else {}),
                "epsilon": self.choices.epsilon,
                "delta": self.choices.delta,
            },
            "columns": {column.name: column.body for column in self.columns},
            "method": dict(METHOD),
            **({"generate": {"rules": rules}} if rules else {}),
            "publish": {"to": "releases"},
        }


def draft_table(facts: TableFacts, name: str, choices: Choices, today: dt.date) -> Draft:
    if choices.entity is not None:
        _require_column(facts, choices.entity)
    if not facts.columns:
        raise SpecError(f"{facts.origin} lists no columns", "name another table")
    columns = tuple(
        draft_column(column, choices.entity, plain_name(facts.table or name), today) for column in facts.columns
    )
    return Draft(name, facts, choices, _nameable(_bought_together(columns, facts)), today.isoformat())


def _bought_together(columns: tuple[DraftedColumn, ...], facts: TableFacts) -> tuple[DraftedColumn, ...]:
    """Where something has to be bought anyway, so is what only a name suggests of a column whose type nobody knows:
    `age` may hold 42 or [40-50), and a wrong guess loses the column."""
    if all(column.standing != "open" for column in columns):
        return columns
    unknown = {column.name for column in facts.columns if column.kind == "unknown"}
    return tuple(
        replace(
            column,
            body={"type": DISCOVER},
            standing="open",
            why=f"its name suggests {column.why}; bought with the rest",
        )
        if column.standing == "guess" and column.modelled and column.name in unknown
        else column
        for column in columns
    )


def likely_entities(facts: TableFacts) -> list[str]:
    """Columns that may say whose row it is, the likeliest first."""
    by_reference = [column.name for column in facts.columns if column.references and is_of_a_person(column.references)]
    named = [column.name for column in facts.columns if is_of_a_person(column.name)]
    return list(dict.fromkeys([*by_reference, *named]))


def rows_of(facts: TableFacts, entity: str | None) -> int:
    """How many rows of an entity to keep, if nobody says: one where the catalogue promises that it has no more."""
    alone = any(column.unique or column.primary for column in facts.columns if column.name == entity)
    return 1 if entity is None or alone else SEVERAL_ROWS


def draft_column(column: ColumnFacts, entity: str | None, table: str, today: dt.date) -> DraftedColumn:
    body, standing, why = _decided(column, entity, table, today)
    unknown = body["type"] == DISCOVER and column.nullable is None  # then it is found out with the rest
    if body["type"] not in ("identifier", "text") and column.nullable is not False and not unknown:
        body = {**body, "nullable": True}
    return DraftedColumn(column.name, body, standing, why, column.comment)


def _decided(column: ColumnFacts, entity: str | None, table: str, today: dt.date) -> tuple[Body, Standing, str]:
    if column.name == entity:
        return _KEY, "left out", "says whose row it is; never published"
    if column.kind == "other":
        return _LEFT_OUT, "left out", f"{column.type_name or 'its type'} is not copied"
    if _sayable(column.values):
        listed: Body = {"type": "category", "values": list(column.values)}
        return listed if column.enforced else {**listed, "other": True}, "declared", _by(column)
    if (key := _as_key(column, table)) is not None:
        return key
    if column.kind == "boolean":
        return {"type": "boolean"}, "declared", "its type"
    if column.low is not None and column.high is not None and (body := _bounded(column)) is not None:
        return body, "declared", _by(column)
    supposed = guess(column, today)
    if supposed is not None:
        return _within(column, supposed.body), "guess", supposed.because
    if column.kind in ("date", "datetime"):
        return _within(column, supposed_days(column, today)), "guess", "the last ten years"
    return _discovered(column), "open", "nothing is known; bought with a part of the budget, once"


def _sayable(values: tuple[str | int, ...]) -> bool:
    """Whether a spec can list them: it strips blanks, and fills in what stands in double braces."""
    texts = {str(value).strip() for value in values}
    return 0 < len(values) <= MAX_BINS and len(texts) == len(values) and not any("{{" in text for text in texts)


def _as_key(column: ColumnFacts, table: str) -> tuple[Body, Standing, str] | None:
    """Keys and what finds a person directly: never modelled."""
    if column.primary:
        return {"type": "identifier", "action": "surrogate"}, "declared", "the primary key: fresh ids are published"
    if column.references:
        return _KEY, "declared", f"points to {column.references}"
    if column.unique:
        return _KEY, "declared", "unique: it would tell rows apart"
    if column.says in ("direct", "id"):
        return (_LEFT_OUT if column.says == "direct" else _KEY), "declared", "its contract says that it finds a person"
    if column.kind in ("date", "datetime", "boolean"):
        return None
    if is_direct(column.name):
        return _LEFT_OUT, "guess", "would find a person; left out"
    if is_free_text(column.name) and column.kind in ("unknown", "text"):
        return _LEFT_OUT, "guess", "free text; left out"
    if is_id(column.name) and (column.low is None or column.high is None):
        own = plain_name(column.name) in ("id", "uuid", f"{table}_id", f"{table.removesuffix('s')}_id")
        action = "surrogate" if own else "drop"
        return {"type": "identifier", "action": action}, "guess", "a key" + (": fresh ids are published" if own else "")
    return None


def _bounded(column: ColumnFacts) -> Body | None:
    low, high = column.low, column.high
    if isinstance(low, dt.date) and isinstance(high, dt.date):
        moments = isinstance(low, dt.datetime) or isinstance(high, dt.datetime) or column.kind == "datetime"
        if moments:
            low, high = _moment(low), _moment(high)
        years = high.year - low.year
        bins = "month" if years < 3 else "quarter" if years < 15 else "year"
        return (
            {"type": "datetime" if moments else "date", "min": low, "max": high, "bins": bins} if low < high else None
        )
    if isinstance(low, dt.date) or isinstance(high, dt.date) or low is None or high is None or low > high:
        return None
    whole = column.kind == "integer" or (
        column.kind in ("unknown", "text") and isinstance(low, int) and isinstance(high, int)
    )
    if whole:
        return {"type": "integer", "min": int(low), "max": int(high)}
    if low == high:
        return None
    body: Body = {"type": "number", "min": low, "max": high}
    return body if column.decimals is None else {**body, "decimals": min(column.decimals, 12)}


def _within(column: ColumnFacts, body: Body) -> Body:
    """A guess, held to the one bound that is declared."""
    if "min" not in body:
        return body
    low = column.low if column.low is not None else body["min"]
    high = column.high if column.high is not None else body["max"]
    try:
        narrowed = _bounded(replace(column, low=low, high=high))
    except TypeError:  # a number beside a date
        narrowed = None
    if narrowed is None or narrowed["type"] != body["type"]:
        return body
    return {**body, "min": narrowed["min"], "max": narrowed["max"]}


def _moment(day: dt.date) -> dt.datetime:
    return day if isinstance(day, dt.datetime) else dt.datetime(day.year, day.month, day.day)


def _by(column: ColumnFacts) -> str:
    return ", ".join(dict.fromkeys(column.declared_by)) or "its type"


def _discovered(column: ColumnFacts) -> Body:
    """What is left to be bought: as little as the catalogue leaves open."""
    match column.kind:
        case "integer" | "number" as kind:
            low, high = (
                DISCOVER if end is None or isinstance(end, dt.date) else end for end in (column.low, column.high)
            )
            return {"type": kind, "min": low, "max": high, "bins": AUTO, "spikes": DISCOVER}
        case "text":
            return {"type": "category", "values": DISCOVER}
    return {"type": DISCOVER}


def _nameable(columns: tuple[DraftedColumn, ...]) -> tuple[DraftedColumn, ...]:
    """Without names that a spec cannot say, or say twice."""
    found: dict[str, DraftedColumn] = {}
    for column in columns:
        if column.name and len(column.name) <= 200 and column.name.isprintable():
            found.setdefault(column.name, column)
    return tuple(found.values())


def _require_column(facts: TableFacts, entity: str) -> None:
    names = [column.name for column in facts.columns]
    if entity not in names:
        near = difflib.get_close_matches(entity, names, n=3, cutoff=0.5)
        raise SpecError(
            f"the table has no column {entity!r}" + (f" (nearest: {', '.join(near)})" if near else ""),
            "name the column that says whose row it is as --entity, or say --entity none",
        )
