"""`understudy audit SPEC`: one page about a spec, from made tables, without its source, an account or a ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from understudy.cli.main import main

SPEC = """
name: visits
source: {uri: nowhere.parquet, snapshot: "2026-10"}
privacy: {account: clinic, epsilon: 1, delta: 1e-6, unit: {entity: patient, max_rows: 2}}
columns:
  patient: {type: identifier}
  age: {type: integer, min: 0, max: 110, bins: 11}
  ward: {type: category, values: [A, B, C], other: true}
  seen: {type: datetime, min: 2026-01-01, max: 2026-12-31, bins: month, nullable: true}
  left: {type: datetime, after: seen, up_to: 10d, bins: 4, nullable: true}
method: {name: privpgd}
publish: {to: releases/}
"""


@pytest.fixture
def spec(tmp_path: Path, home: Path) -> Path:
    path = tmp_path / "visits.yaml"
    path.write_text(SPEC)
    return path


def test_a_spec_is_audited_without_its_source_or_a_ledger(spec: Path, tmp_path: Path, home: Path) -> None:
    out = tmp_path / "pages" / "audit.md"
    done = CliRunner().invoke(main, ["audit", str(spec), "--pairs", "12", "--releases", "50", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "holds  visits: 12 pairs, 0 excesses, 0 visible differences" in done.output
    assert "nothing was charged" in done.output
    page = out.read_text()
    assert page.startswith("# Audit of visits")
    assert "one patient with at most 2 rows" in page
    assert not (home / "ledger.db").exists()


def test_what_cannot_be_audited_is_one_message(spec: Path, tmp_path: Path) -> None:
    spec.write_text(SPEC.replace("privpgd", "nobody"))
    done = CliRunner().invoke(main, ["audit", str(spec), "--out", str(tmp_path / "page.md")])
    assert done.exit_code == 2
    spec.write_text(SPEC)
    done = CliRunner().invoke(main, ["audit", str(spec), "--pairs", "1", "--releases", "0", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "cannot write" in done.output


TREE = """
name: library
source: {uri: nowhere, snapshot: "2026-10"}
privacy: {account: library, epsilon: 1, delta: 1e-6}
tables:
  members: {key: card, columns: {branch: {type: category, values: [north, south]}}}
  loans: {parent: {table: members, by: card}, max_rows: 4, columns: {genre: {type: category, values: [novel, comic]}}}
publish: {to: releases/}
"""


def test_several_tables_are_audited_as_one_release(spec: Path, tmp_path: Path) -> None:
    spec.write_text(TREE)
    out = tmp_path / "audit.md"
    done = CliRunner().invoke(main, ["audit", str(spec), "--pairs", "6", "--releases", "20", "--out", str(out)])
    assert done.exit_code == 0, done.output
    page = out.read_text()
    assert "a copy of 2 tables (members, loans)" in page
    assert "one of members with everything attributed to it: in one and not in the other" in page
    spec.write_text(TREE.replace("values: [novel, comic]", "values: discover"))
    done = CliRunner().invoke(main, ["audit", str(spec), "--pairs", "6", "--releases", "20", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "but for probability" in out.read_text()
