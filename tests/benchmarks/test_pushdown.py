"""The benchmark of push-down runs, and both ways count alike on both engines."""

from __future__ import annotations

import json

from benchmarks.__main__ import main
from tests.postgres import server


def test_engine_and_stream_count_alike(tmp_path, capsys):
    address = str(server().get_uri())
    options = ["--data", str(tmp_path), "--rows", "3000", "--repeat", "1", "--postgresql", address]
    assert main(["pushdown", *options]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    engines = {figure["figure"].split(".")[1] for figure in shown}
    assert engines == {"duckdb", "postgresql"}
    assert all(figure["value"] >= 1 for figure in shown if figure["figure"].endswith(".lost"))
    assert any("all_pairs_with_numbers" in figure["figure"] for figure in shown)
