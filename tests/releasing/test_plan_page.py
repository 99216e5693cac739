"""The plan as a page: what a data steward has to say yes to, from the spec and the ledger alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from tests.pages import faults, read_page
from understudy.cli.main import main

HOSTILE = '"><script>alert(1)</script>'
SPEC: dict[str, Any] = {
    "name": "visits",
    "source": {"uri": "visits.csv", "snapshot": "2026-10"},
    "privacy": {"account": "clinic", "epsilon": 1.0, "delta": 1e-6, "unit": {"entity": "who", "max_rows": 2}},
    "columns": {
        "who": {"type": "identifier", "action": "drop"},
        "id": {"type": "identifier", "action": "surrogate"},
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 11},
        HOSTILE: {"type": "category", "values": [f"{HOSTILE}{number}" for number in range(40)], "other": True},
        "عمر": {"type": "boolean", "nullable": True},
        "fare": {"type": "number", "min": 0, "max": 90, "bins": 9},
    },
    "publish": {"to": "secret-place"},
}


def said(folder: Path, *words: str) -> str:
    done = CliRunner().invoke(main, ["--home", str(folder / "home"), *words])
    assert done.exit_code == 0, done.output
    return done.output


def planned(folder: Path, spec: dict[str, Any], *options: str) -> str:
    file, page = folder / "spec.yaml", folder / "plan.html"
    file.write_text(yaml.safe_dump(spec, allow_unicode=True, sort_keys=False), encoding="utf-8")
    said(folder, "plan", str(file), "--html", str(page), *options)
    return page.read_text(encoding="utf-8")


def test_a_steward_reads_what_is_shown_of_each_column_how_private_how_good_and_what_it_costs(tmp_path: Path) -> None:
    opened = ("ledger", "open", "clinic", "--epsilon", "3", "--delta", "1e-6", "--entity", "who", "--max-rows", "2")
    said(tmp_path, *opened)
    text = planned(tmp_path, SPEC, "--assume-rows", "5000")
    page = read_page(text)
    assert faults(page) == []
    sections = page.sections
    assert "5 columns" in sections["What would be published"]
    assert "1 declared columns are left out" in sections["What would be published"]
    assert "for one who with at most 2 rows" in sections["How private"].replace("  ", " ")
    assert "For 5,000 rows (assumed)" in sections["How good"]
    assert "the cap pays for" in sections["What it costs"]
    columns = sections["Columns, and what would be shown of each"]
    assert "0 to 110, bins: 11" in columns
    assert f"{HOSTILE}0" in columns
    assert "and 28 more" in columns
    assert "left out" in columns
    assert "say `spikes: [0]`" in sections["To look at twice"]
    assert "secret-place" not in text  # where a copy goes is nobody's business but the operator's
    assert "visits.csv" not in text
    hash_ = json.loads(said(tmp_path, "plan", str(tmp_path / "spec.yaml"), "--json"))["spec_hash"]
    assert hash_ in text


def test_of_several_tables_each_has_its_columns(tmp_path: Path) -> None:
    opened = (
        "ledger",
        "open",
        "clinic",
        "--epsilon",
        "3",
        "--delta",
        "1e-6",
        "--entity",
        "patients",
        "--max-rows",
        "1",
    )
    said(tmp_path, *opened)
    tree = {
        "name": "clinic",
        "tables": {
            "patients": {
                "source": {"uri": "p.csv"},
                "key": "patient",
                "columns": {"sex": {"type": "category", "values": ["F", "M"]}},
            },
            "visits": {
                "source": {"uri": "v.csv"},
                "key": "visit",
                "parent": {"table": "patients", "by": "patient"},
                "max_rows": 4,
                "columns": {"ward": {"type": "category", "values": ["A", "B"]}},
            },
        },
        "source": {"snapshot": "2026-10"},
        "privacy": {"account": "clinic", "unit": "patients", "epsilon": 1.0, "delta": 1e-6},
        "publish": {"to": "out"},
    }
    page = read_page(planned(tmp_path, tree))
    assert faults(page) == []
    assert {each.text for each in page.all("h3")} >= {"patients", "visits"}
    assert "ward" in page.sections["Columns, and what would be shown of each"]
