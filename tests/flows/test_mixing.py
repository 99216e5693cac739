"""Mixing through the release flow: bought in slices, published from a table on disk, denoised anew for free."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from tests.flows.conftest import Clinic
from understudy.pipelines.methods.mixing import design, slices

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")

SPEC = """\
name: clinic-visits
source: {uri: "duckdb:///clinic.duckdb", table: visits, snapshot: "2026-10"}
method: {name: mixing, label: ward, rows: 2000, order: 8}
privacy: {account: visits, epsilon: 2.0, delta: 1e-6}
columns:
  age: {type: integer, min: 0, max: 110}
  charge: {type: number, min: 0, max: 20000, scale: log, nullable: true}
  ward: {type: category, values: [A, B, C], other: true}
publish: {to: releases/}
"""


def test_a_sliced_release_is_published_and_denoised_anew_for_free(
    clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(design, "SLICE_NUMBERS", 4 * 2 * 200)
    monkeypatch.setattr(slices, "TABLE_BYTES", 1000)
    opened = run("ledger", "open", "visits", "--epsilon", "4", "--delta", "1e-6", "--filter", "renyi")
    assert opened.exit_code == 0, opened.output
    clinic.spec.write_text(SPEC)
    first = run("release", clinic.spec)
    assert first.exit_code == 0, first.output
    charges = clinic.ledger.charges("visits")
    assert [charge.stage for charge in charges] == ["class-statistics", *(f"mixtures-{n:05d}" for n in range(3))]
    clinic.spec.write_text(SPEC + "generate: {denoise: none}\n")
    second = run("release", clinic.spec)
    assert second.exit_code == 0, second.output
    assert len(clinic.ledger.charges("visits")) == len(charges)
    tables = [pq.read_table(place / "data") for place in clinic.releases]
    assert [table.num_rows for table in tables] == [2000, 2000]
    assert not tables[0].equals(tables[1])
    for place in clinic.releases:
        assert json.loads((place / "manifest.json").read_text())["rows"] == 2000
