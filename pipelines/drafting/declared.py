"""Everything that is declared about one table: by whatever holds its rows, and by contracts about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from understudy.pipelines.drafting.catalogue import spec_path, table_facts
from understudy.pipelines.drafting.contracts.reading import contract_facts, is_contract
from understudy.pipelines.drafting.facts import TableFacts
from understudy.pipelines.spec.address import check_address


def declared_facts(source: str, table: str | None, contracts: tuple[Path, ...], beside: Path) -> TableFacts:
    """`source` is where the rows are, or itself a contract, which may say where they are."""
    facts = _of_a_contract(Path(source), table, beside) if is_contract(Path(source)) else None
    if facts is None:
        facts = table_facts(source, table, beside)
    for path in contracts:
        stem = Path(source).name.partition(".")[0]
        facts = facts.joined(contract_facts(path, facts.table or stem, or_the_only_one=facts.table is None))
    return facts


def _of_a_contract(path: Path, table: str | None, beside: Path) -> TableFacts:
    """A contract's own paths start at its folder, like a spec's."""
    facts = contract_facts(path, table)
    check_address(facts.uri, "the contract's address")
    if not facts.uri or ("://" in facts.uri and not facts.uri.startswith("duckdb:///")):
        return facts
    scheme, place = ("duckdb:///", facts.uri[10:]) if facts.uri.startswith("duckdb:///") else ("", facts.uri)
    return replace(facts, uri=scheme + spec_path(path.parent / place, beside))
