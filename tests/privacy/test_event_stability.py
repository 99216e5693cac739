"""Events are for ever: every kind reads and writes the JSON it was first written with, and costs no more than it did.

Golden trees live in events.json; never change a line there (docs/proofs/events.md). For a new kind, run this file as a
script with the tree on standard input: it prints the entry to add.
"""

from __future__ import annotations

import json
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

from understudy.pipelines.privacy import events
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import from_json, to_json
from understudy.pipelines.privacy.relation import Relation

GOLDEN = Path(__file__).with_name("events.json")
DELTA = 1e-5


def golden() -> list[dict[str, Any]]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def epsilons(tree: dict[str, Any]) -> dict[str, float]:
    """By relation, of those under which the event has a meaning."""
    found = {}
    for relation in Relation:
        try:
            found[relation.value] = composed_loss([from_json(tree)], DELTA, relation).epsilon
        except ValueError:
            continue
    return found


@pytest.mark.parametrize("entry", golden(), ids=lambda entry: entry["event"]["kind"])
def test_an_event_reads_and_writes_as_it_always_did(entry) -> None:
    event = from_json(entry["event"])
    assert json.dumps(to_json(event), sort_keys=True) == json.dumps(entry["event"], sort_keys=True)
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@pytest.mark.parametrize("entry", golden(), ids=lambda entry: entry["event"]["kind"])
def test_an_event_costs_no_more_than_it_did(entry) -> None:
    now = epsilons(entry["event"])
    assert now.keys() == entry["epsilon"].keys()
    for relation, before in entry["epsilon"].items():
        assert 0 < now[relation] <= before + 2e-9  # a tighter accountant may lower it; 2e-9 is one unit of rounding
        assert now[relation] >= 0.5 * before  # and one that halves it is looked at


def test_every_kind_has_a_golden_tree() -> None:
    kinds = {type(from_json(entry["event"])) for entry in golden()}
    assert kinds == set(typing.get_args(events.Event)), "add a tree of the new kind (docs/proofs/events.md says how)"


def test_an_unknown_kind_is_refused_and_not_skipped() -> None:
    with pytest.raises(ValueError, match="not an event"):
        from_json({"kind": "something newer", "epsilon": 0.1})
    with pytest.raises(ValueError, match="not an event"):
        from_json({"kind": "composed", "events": [{"kind": "something newer"}]})


if __name__ == "__main__":
    tree = json.load(sys.stdin)
    print(json.dumps({"event": tree, "epsilon": epsilons(tree)}))
