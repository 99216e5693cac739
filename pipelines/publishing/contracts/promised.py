"""What must hold for the published columns of a release, table by table, from its public spec and manifest alone.

Types of the source, which some columns keep, are not told by either.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from understudy.pipelines.methods.tree.plan import tree_domains
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.tree import ROWS
from understudy.pipelines.table.contract import TableContract, contract_of, where_keys_repeat
from understudy.pipelines.table.domain import TableDomain


def promised(spec: ReleaseSpec, manifest: Manifest) -> dict[str, TableContract]:
    """By the table's name; one that is alone has none."""
    if spec.tables is None:
        return {"": promised_alone(spec, TableDomain.of(spec), manifest)}
    domains = tree_domains(spec)
    return {
        told.name: where_keys_repeat(contract_of(domains[told.name], told.rows), told.by) for told in manifest.tables
    }


def promised_alone(spec: ReleaseSpec, domain: TableDomain, manifest: Manifest) -> TableContract:
    """Of a release of one table."""
    contract = contract_of(domain, manifest.rows)
    return contract if spec.tree is None else where_keys_repeat(contract, spec.tree.table(ROWS).by)


def table_of(path: str, manifest: Manifest) -> str:
    """Whose rows a file of a release holds."""
    return PurePosixPath(path).parent.name if manifest.tables else ""
