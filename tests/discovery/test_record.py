"""What was bought stays what it was: purchases of every version of the closing still close to the same columns.

`remembered/version-N` was stored by a program whose closing was N, from a made table of thirteen columns: what the
ledger's store held (`.npz`, without the fine cells of octaves in which nothing lies), its facts, and the columns that
were made of it (`.json`). These files are never made anew. If a test here fails, the closing of purchases that exist
was changed: leave that version as it was, and add a new one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.pipelines.discovery.asking import further_questions, purchase_key
from understudy.pipelines.discovery.record import CLOSING, Record
from understudy.pipelines.discovery.rules import VERSION
from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.domains import Bought
from understudy.pipelines.spec.open import OpenColumn

FOLDER = Path(__file__).parent / "remembered"
VERSIONS = tuple(range(1, VERSION + 1))


def remembered(version: int) -> tuple[Record, dict[str, Any]]:
    told: dict[str, Any] = json.loads((FOLDER / f"version-{version}.json").read_text())
    with np.load(FOLDER / f"version-{version}.npz") as arrays:
        rounds = [
            Measurement("domain", facts, {name[2:]: arrays[name] for name in arrays.files if name[0] == str(place)})
            for place, facts in enumerate(told["rounds"])
        ]
    return Record(*rounds), told


@pytest.mark.parametrize("version", VERSIONS)
def test_a_purchase_closes_to_the_columns_it_closed_to_when_it_was_made(version: int) -> None:
    record, told = remembered(version)
    assert record.version == version
    assert {name: record.closed(name) for name in record.columns} == told["closed"]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_asked_of_it_in_a_second_round_would_be_asked_again(version: int) -> None:
    """Or a purchase that was whole would be half a one, and would be paid for again."""
    record, told = remembered(version)
    asked = further_questions(record.columns, record.first_found)
    assert list(asked) == [name for name, _ in told["rounds"][1]["columns"]]
    assert Bought(record, ()).is_whole
    assert not Bought(replace(record, second=None), ()).is_whole


@pytest.mark.parametrize("version", VERSIONS)
def test_a_purchase_is_found_by_the_key_it_was_charged_under(version: int) -> None:
    record, told = remembered(version)
    assert purchase_key(told["rounds"][0]["subject"], record.columns) == told["key"]


def test_a_purchase_answers_a_column_that_is_declared_as_it_was() -> None:
    bought = Bought(remembered(1)[0], ())
    assert bought.answers("ward", OpenColumn(type="discover"))
    assert not bought.answers("ward", OpenColumn(type="discover", most=7))
    assert not bought.answers("street", OpenColumn(type="discover"))


def test_records_that_name_no_version_are_of_the_first_and_of_later_programs_refused() -> None:
    record, _ = remembered(1)
    assert CLOSING not in record.first.facts
    newer = replace(record, first=replace(record.first, facts={**record.first.facts, CLOSING: VERSION + 1}))
    with pytest.raises(LedgerError, match="newer program"):
        newer.closed("ward")
