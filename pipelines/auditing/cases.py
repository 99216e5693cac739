"""Releases that are attacked where nobody names a spec: every method and mode, both relations, rows and people.

A new method, mode or kind of release is added to `CASES`, or to `OPEN` if it buys its columns first: every attack then
takes it up, and `moves` refuses noise that it has no measure for. Releases of several tables are `TREES`.
"""

from __future__ import annotations

from functools import lru_cache

from understudy.pipelines.auditing.replay import Subject
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec

_SPEC = """
name: audited
source: {{uri: made.parquet, snapshot: "1"}}
privacy: {{account: audit, epsilon: {epsilon}, delta: 1e-6{privacy}}}
columns:
{columns}
method: {{name: {method}}}
publish: {{to: releases/}}
"""
_TREE = """
name: audited
source: {{uri: made, snapshot: "1"}}
privacy: {{account: audit, epsilon: {epsilon}, delta: 1e-6{privacy}}}
tables:
  people:
    key: person
    columns:
      sex: {{type: category, values: [f, m], other: true}}
      born: {{type: date, min: 1930-01-01, max: 2026-12-31, bins: 4, nullable: true}}
  visits:
    key: visit
    parent: {{table: people, by: person}}
    max_rows: {visits}
    columns:
      ward: {{type: category, values: [a, b], nullable: true}}
      day: {{type: date, min: 2026-01-01, max: 2026-12-31, bins: quarter}}
      paid: {{type: number, min: 0, max: 100, bins: 4}}
  drugs:
    parent: {{table: visits, by: visit}}
    max_rows: 2
    columns:
      drug: {{type: category, values: [x, y], other: true}}
publish: {{to: releases/}}
"""
_NUMBERS = """
  length: {type: number, min: 0, max: 10, bins: 4}
  width: {type: number, min: -5, max: 5, bins: 3, nullable: true}
"""
_TABLE = (
    _NUMBERS
    + """
  petals: {type: integer, min: 0, max: 40, bins: 4}
  seen: {type: date, min: 2026-01-01, max: 2026-12-31, bins: month, nullable: true}
  wild: {type: boolean, nullable: true}
  kind: {type: category, values: [rose, daisy], other: true}
"""
)
_LABELLED = _NUMBERS + "  kind: {type: category, values: [rose, daisy], other: true}\n"
_PICTURES = """
  kind: {type: category, values: [dot, bar], other: true}
  image: {type: tensor, shape: [3, 3], min: 0, max: 255}
"""
_REPLACED, _PEOPLE = ", relation: replace_one", ", unit: {entity: who, max_rows: 3}"
_KEPT = ", unit: {entity: who, max_rows: 3, columns: [kind], order_by: seen}"
_KEPT_WHERE_OPEN = ", unit: {entity: who, max_rows: 3, columns: [wild]}"
_KERNEL = "kernel, label: kind, rows: 60, frequencies: 20"
_MIXING = "mixing, label: kind, rows: 60, records: 20, order: 4"
_STATISTICS = ", statistics: {s: {where: {kind: [rose]}, use: keep}, t: {where: {length: {max: 3}}, use: hide}}"
_ADAPTIVE = "privpgd, marginals: adaptive, rounds: 1"

CASES: dict[str, tuple[str, str, str]] = {
    "privpgd": ("privpgd", "", _TABLE),
    "privpgd, three columns": ("privpgd", "", _LABELLED),
    "privpgd, replaced": ("privpgd", _REPLACED, _TABLE),
    "privpgd, people": ("privpgd", _PEOPLE, _TABLE),
    "privpgd, people replaced": ("privpgd", _PEOPLE + _REPLACED, _TABLE),
    "privpgd, people kept": ("privpgd", _KEPT, _TABLE),
    "privpgd, triples": ("privpgd, marginals: all-3way", "", _LABELLED),
    "privpgd, auto": ("privpgd, marginals: auto", _PEOPLE, _TABLE),
    "privpgd, auto replaced": ("privpgd, marginals: auto", _REPLACED, _TABLE),
    "privpgd, statistics": ("privpgd" + _STATISTICS, _REPLACED, _TABLE),
    "privpgd, quality": ("privpgd", ", quality: 0.02" + _PEOPLE, _TABLE),
    "privpgd, opendp": ("privpgd", ", noise: opendp" + _REPLACED, _TABLE),
    "privpgd, adaptive": (_ADAPTIVE, "", _LABELLED),
    "privpgd, adaptive people replaced": (_ADAPTIVE, _PEOPLE + _REPLACED, _LABELLED),
    "gaussian": ("gaussian", "", _TABLE),
    "gaussian, replaced by class": ("gaussian, label: kind", _REPLACED, _TABLE),
    "gaussian, people": ("gaussian", _PEOPLE, _TABLE),
    "gaussian, fixed centre": ("gaussian, centre: fixed", "", _TABLE),
    "gaussian, fixed centre replaced": ("gaussian, centre: fixed", _REPLACED, _TABLE),
    "gaussian, fixed centre people replaced": ("gaussian, centre: fixed", _PEOPLE + _REPLACED, _TABLE),
    "gaussian, copula": ("gaussian, mode: copula", "", _TABLE),
    "gaussian, copula people replaced": ("gaussian, mode: copula", _PEOPLE + _REPLACED, _TABLE),
    "gaussian, sampling noise": ("gaussian, mode: sampling-noise, rows: 9, batches: 2", "", _NUMBERS),
    "gaussian, sampling noise replaced": ("gaussian, mode: sampling-noise, rows: 9", _REPLACED, _NUMBERS),
    "kernel": (_KERNEL, "", _PICTURES),
    "kernel, replaced": (_KERNEL, _REPLACED, _LABELLED),
    "kernel, people": (_KERNEL, _PEOPLE, _PICTURES),
    "kernel, steps": (_KERNEL + ", release: steps, rate: 0.1, steps: 7", "", _PICTURES),
    "mixing": (_MIXING, "", _LABELLED),
    "mixing, fixed size": (_MIXING + ", sampler: fixed", "", _LABELLED),
    "mixing, bought scales": (_MIXING + ", scale: bought", "", _LABELLED),
    "mixing, at once": (
        _MIXING + ", class_sizes: {rose: 30, daisy: 30, other: 1}, centre: bounds",
        "",
        _LABELLED,
    ),
}


_OPEN = """
  kind: {type: category, values: discover}
  what: {type: discover}
  paid: {type: number, min: discover, max: discover, bins: auto, spikes: discover}
  wild: {type: boolean, nullable: true}
"""
OPEN: dict[str, tuple[str, str, str]] = {
    "discovery": ("privpgd", "", _OPEN),
    "discovery, replaced": ("privpgd", _REPLACED, _OPEN),
    "discovery, people": ("privpgd", _PEOPLE, _OPEN),
    "discovery, people replaced": ("privpgd", _PEOPLE + _REPLACED, _OPEN),
    "discovery, people kept": ("privpgd", _KEPT_WHERE_OPEN, _OPEN),
}
"""Releases that first buy what their columns can hold."""

OPEN_TREES: dict[str, str] = {"tree, discovery": "tree", "tree, discovery replaced": "tree, replaced"}
"""Trees of `TREES` of which a column of every table is left open."""
_LEFT_OPEN = {
    "values: [f, m], other: true": "values: discover",
    "min: 0, max: 100, bins: 4": "min: discover, max: discover, bins: auto",
    "type: category, values: [x, y], other: true": "type: discover",
}

TREES: dict[str, tuple[str, int, str]] = {
    "tree": ("", 3, ""),
    "tree, replaced": (_REPLACED, 3, ""),
    "tree, in order": ("", 3, "day"),
    "tree, in order replaced": (_REPLACED, 3, "day"),
    "tree, many visits": ("", 12, ""),
}
"""Releases of several tables: what follows in `privacy`, visits a person at the most, and what orders them."""

ALARMED = ("privpgd, three columns", "gaussian, fixed centre", "kernel", "mixing")
"""One of each method, for the attacks that people fear."""

PRINCIPAL = ("privpgd, three columns", "gaussian, fixed centre", "kernel", "mixing", "tree")
"""One of each mechanism whose worst case is told apart as often as is asked for; the others a fiftieth as often."""


@lru_cache(maxsize=64)
def planned_case(name: str, epsilon: str = "2") -> Planned:
    return plan_release(parse_spec(_tree(name, epsilon)) if name in TREES else _spec(*CASES[name], epsilon))


def open_case(name: str, epsilon: str = "2") -> ReleaseSpec:
    return parse_spec(_open_tree(name, epsilon)) if name in OPEN_TREES else _spec(*OPEN[name], epsilon)


def subjects(epsilon: str) -> dict[str, Subject]:
    """All of them, by name."""
    found: dict[str, Subject] = {name: planned_case(name, epsilon) for name in (*CASES, *TREES)}
    return found | {name: open_case(name, epsilon) for name in (*OPEN, *OPEN_TREES)}


def many_values(count: int, epsilon: str) -> Planned:
    """A column of so many values, for a canary in each."""
    words = ", ".join(f"v{place}" for place in range(count))
    columns = f"\n  word: {{type: category, values: [{words}]}}\n  wild: {{type: boolean}}\n"
    return plan_release(_spec("privpgd", "", columns, epsilon))


def _spec(method: str, privacy: str, columns: str, epsilon: str) -> ReleaseSpec:
    return parse_spec(_SPEC.format(method=method, privacy=privacy, columns=columns, epsilon=epsilon))


def _tree(name: str, epsilon: str) -> str:
    privacy, visits, order = TREES[name]
    text = _TREE.format(epsilon=epsilon, privacy=privacy, visits=visits)
    return text.replace("max_rows: 3\n", f"max_rows: 3\n    order_by: {order}\n") if order else text


def _open_tree(name: str, epsilon: str) -> str:
    text = _tree(OPEN_TREES[name], epsilon)
    for declared, left_open in _LEFT_OPEN.items():
        text = text.replace(declared, left_open)
    return text
