"""A draft as YAML: a line a column, with what was declared, guessed or left open beside it.

PyYAML writes every name and value, so that whatever a catalogue holds is read back as it was; comments are cut to one
printable line.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import yaml

from understudy.pipelines.drafting.draft import METHOD, Draft, DraftedColumn
from understudy.pipelines.drafting.trees import DraftedTree
from understudy.pipelines.spec.protection import DiscoverySpec

SCHEMA_FILE = "understudy.schema.json"
FILL_IN = "FILL-IN"
MOST_COMMENT = 110
_MARKS = {"declared": "", "guess": "guess: ", "open": "open: ", "left out": ""}


def written(draft: Draft) -> str:
    """The whole file."""
    return "\n".join(_lines(draft)) + "\n"


def written_tree(draft: DraftedTree) -> str:
    """The whole file of several tables."""
    choices, facts, root = draft.choices, draft.facts, draft.tables[0]
    lines = [
        f"# yaml-language-server: $schema={SCHEMA_FILE}",
        *_remarks(
            f"Drafted from {_one_line(facts.origin)} and the tables that point to it; no row was read.",
            "Everything in this file is public. Correct it by what you know of the tables, never by a look at their",
            "rows: values and bounds that were read off the data give away who is in it.",
            "Check the lines marked `guess`. What is marked `open` is bought, once; say it if you know it.",
            *(f"Left out: {_one_line(each)}" for each in draft.left_out),
        ),
        f"name: {flow(draft.name)}",
        "source:",
        f"  uri: {flow(facts.uri)}",
        f"  snapshot: {flow(draft.snapshot)}  # names this state of the data; another name is another, charged release",
        "privacy:",
        f"  account: {flow(choices.account)}  # the ledger account that pays",
        f"  unit: {flow(root.name)}  # one of these is protected, with everything below it",
        f"  epsilon: {amount_text(choices.epsilon)}  # what this release may cost; smaller is more private and noisier",
        f"  delta: {amount_text(choices.delta)}",
        "tables:",
    ]
    for table in draft.tables:
        lines += [f"  {flow(table.name)}:" + (f"  # {_one_line(table.remark)}" if table.remark else "")]
        lines += [f"    {key}: {flow(said)}{_hint(key)}" for key, said in table.tree().items() if key != "columns"]
        lines += ["    columns:", *(f"    {line}" for column in table.columns for line in _column(column))]
    return "\n".join([*lines, "publish:", "  to: releases"]) + "\n"


def _hint(key: str) -> str:
    guessed = {"max_rows": "of one row of the parent; more are dropped", "order_by": "rows of one parent in order"}
    return f"  # guess: {guessed[key]}" if key in guessed else ""


def open_lines(text: str) -> list[int]:
    """Numbers of the lines that a person has to fill in, counted from 1."""
    return [number for number, line in enumerate(text.splitlines(), 1) if f"uri: {FILL_IN}" in line]


def _lines(draft: Draft) -> list[str]:
    choices, facts = draft.choices, draft.facts
    open_ = draft.standing("open")
    uri = flow(facts.uri) if facts.uri else f"{FILL_IN}  # where the rows are: a file, or a database beside `table`"
    lines = [
        f"# yaml-language-server: $schema={SCHEMA_FILE}",
        *_remarks(
            f"Drafted from {_one_line(facts.origin)}; no row was read.",
            "Everything in this file is public. Correct it by what you know of the table, never by a look at its rows:",
            "values and bounds that were read off the data give away who is in it.",
            "Check the lines marked `guess`. What is marked `open` is bought once, with a part of the budget; say it",
            "instead where you know it.",
            *([_one_line(facts.comment)] if facts.comment else []),
        ),
        f"name: {flow(draft.name)}",
        "source:",
        f"  uri: {uri}",
        *([f"  table: {flow(facts.table)}"] if facts.table else []),
        *_dialect(draft),
        f"  snapshot: {flow(draft.snapshot)}  # names this state of the data; another name is another, charged release",
        "privacy:",
        f"  account: {flow(choices.account)}  # the ledger account that pays",
        *_unit(draft),
        f"  epsilon: {amount_text(choices.epsilon)}  # what this release may cost; smaller is more private and noisier",
        f"  delta: {amount_text(choices.delta)}",
        "  quality: 0.02  # of the budget: tells what could not be read from what is missing",
        *([f"  discovery: {DiscoverySpec().share}  # of the budget, once: what open columns hold"] if open_ else []),
        "columns:",
    ]
    for column in draft.columns:
        lines += _column(column)
    lines.append(f"method: {flow(METHOD)}  # all pairs of columns, and triples that pairs do not explain")
    if draft.orders:
        rules = [{"order": list(pair)} for pair in draft.orders]
        lines += ["generate:", f"  rules: {flow(rules)}  # as the table's CHECKs say"]
    return [*lines, "publish:", "  to: releases"]


def _dialect(draft: Draft) -> list[str]:
    return [f"  csv: {flow(draft.dialect)}  # guess: the header's mark, and words for nothing"] if draft.dialect else []


def _unit(draft: Draft) -> list[str]:
    entity, rows = draft.choices.entity, draft.choices.max_rows
    if entity is None:
        return [
            "  # One row is protected. If a person can have several, say so and by which column:",
            "  # unit: {entity: COLUMN, max_rows: 4}",
        ]
    told = "one row is kept" if rows == 1 else f"at most {rows} rows are kept"
    return [f"  unit: {flow({'entity': entity, 'max_rows': rows})}  # {told} of each, the rest are dropped"]


def _column(column: DraftedColumn) -> list[str]:
    comment = [f"  # {_one_line(column.comment)}"] if _one_line(column.comment) else []
    return [*comment, f"  {flow(column.name)}: {flow(column.body)}  # {_MARKS[column.standing]}{_one_line(column.why)}"]


class _Dumper(yaml.SafeDumper):
    """A moment is written as text, which a spec reads as well: its colons cannot stand in one line without a tag."""


_Dumper.add_representer(dt.datetime, lambda dumper, moment: dumper.represent_str(str(moment)))


def flow(value: Any) -> str:
    """One line of YAML that reads back as the value."""
    text: str = yaml.dump(
        [value], Dumper=_Dumper, default_flow_style=True, width=float("inf"), sort_keys=False, allow_unicode=True
    )
    return text.strip()[1:-1]


def amount_text(amount: Decimal) -> str:
    """1, 0.5 or 1e-6."""
    if amount == int(amount):
        return str(int(amount))
    return f"{amount.normalize():e}" if amount < Decimal("0.001") else f"{amount.normalize():f}"


def _remarks(*sentences: str) -> list[str]:
    return [f"# {sentence}" for sentence in sentences]


def _one_line(text: str) -> str:
    line = re.sub(r"\s+", " ", "".join(letter if letter.isprintable() else " " for letter in text)).strip()
    return line if len(line) <= MOST_COMMENT else line[: MOST_COMMENT - 3] + "..."
