"""What a manifest repeats of its spec."""

from __future__ import annotations

from understudy.pipelines.publishing.manifest import public_spec
from understudy.pipelines.spec.reading import parse_spec

SPEC = """
name: visits
source: {uri: "duckdb:///hidden-place.duckdb", table: hidden_table, id: hidden-id, external: true, snapshot: "2026-10"}
privacy: {account: clinic, epsilon: 1, delta: 1e-6}
columns:
  age: {type: integer, min: 0, max: 110, bins: 11}
publish: {to: hidden-target/}
"""


def test_nothing_says_where_the_table_lies_or_where_it_is_published() -> None:
    told = public_spec(parse_spec(SPEC))
    assert told["source"]["snapshot"] == "2026-10"
    assert "hidden" not in str(told)
    assert not {"uri", "table", "id", "external"} & set(told["source"])
