"""A copy that would be noise, by the real command: told before paying, and refused after.

That the card tells it, and that without `refuse_if` it is free: tests/inference/test_verdict.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from tests.cli.commands import Place
from tests.cli.test_verifying import said
from tests.inference.test_verdict import CHARGES, charges


def test_the_charges_that_are_noise_are_told_by_the_plan_and_refused_with_code_6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """401 x 194 values, 290 providers of up to 20 rows, epsilon 2."""
    place, spec = Place(tmp_path), tmp_path / "charges.yaml"
    pq.write_table(charges(), tmp_path / "charges.parquet")
    source = {"uri": "charges.parquet", "snapshot": "2026-10"}
    tree = {**CHARGES, "source": source, "publish": {"to": "out", "rows": 300, "refuse_if": {"verdict": "noise"}}}
    spec.write_text(yaml.safe_dump(tree, sort_keys=False))
    monkeypatch.setenv("UNDERSTUDY_HOME", str(place.home))
    words = ("payer", "--epsilon", "3", "--delta", "1e-6", "--entity", "provider", "--max-rows", "20")
    assert said("ledger", "open", *words)[0] == 0

    code, planned = said("plan", spec, "--assume-rows", "3000")
    assert code == 0, planned
    assert "all values alike: noise: of 2 columns" in planned
    assert "! publish.refuse_if: of so many rows nothing would be published" in planned
    assert place.ledger.charges("payer") == []
    many = json.loads(said("plan", spec, "--json", "--assume-rows", "900000000")[1])["verdict"]
    assert (many["grade"] != "noise", many["refused"]) == (True, False)

    refused = place.run("release", spec)
    assert refused.code == 6, refused.text
    assert "'charges' is not published: noise: of 2 columns" in refused.err
    assert "procedure x place (noise)" in refused.err
    assert "the paid measurement is kept" in refused.err
    assert "Traceback" not in refused.text
    assert not list(tmp_path.glob("out/charges/*/manifest.json"))
    assert "generating" in refused.err  # begun, and stopped before a row was made
    assert "checking the synthetic table" not in refused.err
    [charge] = place.ledger.charges("payer")
    assert charge.stage == "marginals"
