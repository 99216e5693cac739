"""The clinic of tests/trees.py by hand: rows as dictionaries, attributed, bounded and counted one by one, with hashlib.

Written from the definitions, not from the code: docs/proofs/trees.md.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import struct
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.trees import domains_of
from understudy.pipelines.counting.tree.views import View
from understudy.pipelines.spec.model import ReleaseSpec

KEY = b"a public key of tests"
Rows = dict[str, list[dict[str, Any]]]
FIRST_DAY = dt.date(2020, 1, 1)

ids = st.sampled_from([None, "1", "2", "3", " 2", "03", "4"])
patients = st.fixed_dictionaries(
    {"patient_id": ids, "sex": st.sampled_from(["f", "m"]), "age": st.sampled_from([0, 30, 60, 99])}
)
visits = st.fixed_dictionaries(
    {
        "patient_id": ids,
        "visit_id": st.sampled_from([None, "a", "b", "c", "d", "e"]),
        "ward": st.sampled_from(["a", "b", None]),
        "visited_on": st.sampled_from(["2020-01-05", "2020-01-09", "2020-07-01", "2021-05-05"]),
    }
)
drugs = st.fixed_dictionaries(
    {
        "visit_id": st.sampled_from([None, "a", "b", "c", "d", "e", "nobody's"]),
        "drug": st.sampled_from(["x", "y", "z"]),
    }
)
clinics: st.SearchStrategy[Rows] = st.fixed_dictionaries(
    {
        "patients": st.lists(patients, max_size=6),
        "visits": st.lists(visits, max_size=14),
        "drugs": st.lists(drugs, max_size=16),
    }
)
"""Shared ids, repeated keys, orphans, nulls, rows over every bound, and equal rows: all of them are common."""

NAMES = {
    "patients": ["patient_id", "sex", "age"],
    "visits": ["patient_id", "visit_id", "ward", "visited_on"],
    "drugs": ["visit_id", "drug"],
}


def arrow(rows: list[dict[str, Any]], table: str) -> pa.Table:
    types = {"age": pa.int64()}
    names = NAMES[table]
    return pa.table({name: pa.array([row[name] for row in rows], types.get(name, pa.string())) for name in names})


@dataclass(eq=False)
class Row:
    """One row: its codes, keys and value that orders; then what became of it."""

    codes: tuple[int, ...]
    order: float | None
    own: str | None
    names: str | None
    raw: dict[str, Any]
    parent: Row | None = None
    kept: bool = False
    below: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    @property
    def root(self) -> Row:
        return self if self.parent is None else self.parent.root

    def rank(self, with_key: bool) -> tuple[int, int]:
        told = bytes(self.codes) + (struct.pack("<d", self.order) if self.order is not None else b"")
        if with_key:
            told += b"\0" + bytes(16) if self.own is None else b"\1" + struct.pack("<QQ", *key_hash(self.own))
        return hashed(told, "tree row")


def hashed(told: bytes, purpose: str) -> tuple[int, int]:
    subkey = hashlib.blake2b(purpose.encode(), key=hashlib.sha256(KEY).digest(), digest_size=32).digest()
    found = hashlib.blake2s(told, key=subkey, digest_size=16).digest()
    return int.from_bytes(found[:8], "little"), int.from_bytes(found[8:], "little")


def spelled(text: str | None) -> str | None:
    if text is None:
        return None
    return str(int(text)) if text.strip().isdigit() else text.strip()


def key_hash(key: str) -> tuple[int, int]:
    return hashed(key.encode(), "entity")


def read(rows: Rows) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {"patients": [], "visits": [], "drugs": []}
    for raw in rows["patients"]:
        codes = ("fm".index(raw["sex"]), raw["age"] // 25)
        found["patients"].append(Row(codes, None, spelled(raw["patient_id"]), None, raw))
    for raw in rows["visits"]:
        ward = 3 if raw["ward"] is None else "abc".index(raw["ward"])
        day = min(dt.date.fromisoformat(raw["visited_on"]), dt.date(2020, 12, 31))
        value = float((day - dt.date(1970, 1, 1)).days)
        codes = (ward, (day.month - 1) // 3)
        found["visits"].append(Row(codes, value, spelled(raw["visit_id"]), spelled(raw["patient_id"]), raw))
    for raw in rows["drugs"]:
        found["drugs"].append(Row(({"x": 0, "y": 1}.get(raw["drug"], 2),), None, None, spelled(raw["visit_id"]), raw))
    return found


def attributed(rows: Rows, spec: ReleaseSpec) -> dict[str, list[Row]]:
    """Every row with its parent, as long as that was kept, and whether it is kept itself; those of nobody are gone."""
    tree = spec.tree
    assert tree is not None
    found = read(rows)
    bearers: dict[str, dict[str, list[Row]]] = {}
    for table in tree.tables:
        with_key = bool(tree.children(table.name))
        here = found[table.name]
        if table.parent is None:
            here = [row for row in here if row.own is not None]
            for key in {row.own for row in here}:
                min((row for row in here if row.own == key), key=lambda row: row.rank(True)).kept = True
        else:
            for row in here:
                row.parent = owner(bearers[table.parent].get(row.names or "", []), with_key=True)
            here = [row for row in here if row.parent is not None and row.parent.kept]
            by_parent: dict[Row, list[Row]] = defaultdict(list)
            for row in here:
                assert row.parent is not None
                by_parent[row.parent].append(row)
            for parent, its in by_parent.items():
                its.sort(key=lambda row: row.rank(with_key))
                for row in its[: table.max_rows]:
                    row.kept = True
                kept = [row for row in its if row.kept]
                parent.below[table.name] = sorted(kept, key=lambda row: (row.order or 0.0, row.rank(with_key)))
        found[table.name] = here
        bearers[table.name] = defaultdict(list)
        for row in here:
            if row.own is not None and with_key:
                bearers[table.name][row.own].append(row)
    return found


def owner(several: list[Row], with_key: bool) -> Row | None:
    def key(row: Row) -> Any:
        if row.parent is None:
            return not row.kept, (0, 0), (0, 0), 0
        above = key_hash(row.parent.own or "")
        place = row.parent.below[_table_of(row)].index(row) if row.kept else 0
        return False, row.rank(with_key), above, (not row.kept, place)

    return min(several, key=key) if several else None


def _table_of(row: Row) -> str:
    return "visits" if "ward" in row.raw else "drugs"


def ticks(rows: Rows, spec: ReleaseSpec, view: View, whole: int) -> Counter[tuple[int, ...]]:
    """Ticks of every cell of a view over all its columns."""
    found = [row for row in attributed(rows, spec)[view.table] if row.kept]
    seen = [(row, None) for row in found] if view.kind == "rows" else _pairs(found, view.table)
    each = Counter(row.root for row, _ in seen)
    told: Counter[tuple[int, ...]] = Counter()
    for row, before in seen:
        told[tuple(_code(row, before, column, view) for column in view.columns)] += whole // each[row.root]
    return told


def _pairs(found: list[Row], table: str) -> list[tuple[Row, Row]]:
    pairs = []
    for parent in {row.parent for row in found if row.parent is not None}:
        its = parent.below[table]
        pairs += [(its[i], its[i - 1]) for i in range(1, len(its))]
    return pairs


def _code(row: Row, before: Row | None, column: Any, view: View) -> int:
    match column.role:
        case "own":
            return row.codes[column.column]
        case "before":
            assert before is not None
            return before.codes[column.column]
        case "above":
            above = row.parent
            while above is not None and _name_of(above) != column.table:
                above = above.parent
            assert above is not None
            return above.codes[column.column]
        case "number":
            return len(row.below[column.table])
        case "siblings":
            assert row.parent is not None
            return len(row.parent.below[view.table]) - 1
        case "place":
            assert row.parent is not None
            return int(row.parent.below[view.table][0] is not row)
        case _:
            assert before is not None
            gap = (row.order or 0.0) - (before.order or 0.0)
            return next(i for i, edge in enumerate(column.edges[1:]) if gap < edge or edge == column.edges[-1])


def _name_of(row: Row) -> str:
    return "patients" if "sex" in row.raw else _table_of(row)


def without_root(rows: Rows, spec: ReleaseSpec, key: str) -> Rows:
    """The neighbour: without a root and all rows attributed to it, kept or not."""
    theirs: set[int] = set()
    for table in attributed(rows, spec).values():
        theirs |= {id(row.raw) for row in table if row.root.own == key}
    theirs |= {id(raw) for raw in rows["patients"] if spelled(raw["patient_id"]) == key}
    return {name: [raw for raw in table if id(raw) not in theirs] for name, table in rows.items()}


def sizes_of(spec: ReleaseSpec) -> dict[str, tuple[int, ...]]:
    return {name: domain.sizes for name, domain in domains_of(spec).items()}
