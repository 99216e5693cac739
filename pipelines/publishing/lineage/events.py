"""OpenLineage events of a release (START, COMPLETE, FAIL), as its specification 2-0-2 writes them.

Everything in them is in the spec or the manifest, which are public: names of tables and columns, their declared types,
the snapshot's name, the guarantee. No value, count or address with a secret, and of a failure its kind alone.
"""

from __future__ import annotations

import datetime as dt
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from understudy.pipelines.publishing.lineage.datasets import Dataset, dataset_of
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.spec.columns import IdentifierColumn
from understudy.pipelines.spec.derived import DerivedColumn, LookupColumn
from understudy.pipelines.spec.model import ReleaseSpec

_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
GUARANTEE = "understudy_guarantee"
"""The facet of our own: what the published table promises about whoever is in the private one."""

_SYNTHESIS = {
    "type": "DIRECT",
    "subtype": "AGGREGATION",
    "description": "rows drawn from differentially private measurements",
    "masking": True,
}
_BOUND = {
    "type": "INDIRECT",
    "subtype": "FILTER",
    "description": "at most so many rows of each are measured",
    "masking": True,
}


def start_event(spec: ReleaseSpec, base: Path, run_id: str) -> dict[str, Any]:
    return _event("START", spec.name, run_id) | {"inputs": [_input(spec, base)], "outputs": [_output(spec, base)]}


def complete_event(spec: ReleaseSpec, base: Path, run_id: str, manifest: Manifest, sha256: str) -> dict[str, Any]:
    output = _output(spec, base, manifest)
    output["facets"] |= {
        "version": _facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=manifest.release_id),
        GUARANTEE: _guarantee(manifest, sha256),
    }
    rows = _facet("OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=manifest.rows)
    output["outputFacets"] = {"outputStatistics": rows}
    return _event("COMPLETE", spec.name, run_id) | {"inputs": [_input(spec, base)], "outputs": [output]}


def fail_event(name: str, run_id: str, kind: str) -> dict[str, Any]:
    """`kind` is the error's class: its message may quote what a library was given."""
    event = _event("FAIL", name, run_id)
    error = _facet("ErrorMessageRunFacet", "1-0-1", message=kind, programmingLanguage="python")
    event["run"]["facets"]["errorMessage"] = error
    return event


def _event(kind: str, name: str, run_id: str) -> dict[str, Any]:
    batch = _facet("JobTypeJobFacet", "2-0-4", processingType="BATCH", integration="UNDERSTUDY", jobType="RELEASE")
    return {
        "eventType": kind,
        "eventTime": dt.datetime.now(dt.UTC).isoformat(),
        "producer": _producer(),
        "schemaURL": _EVENT,
        "run": {"runId": run_id, "facets": {}},
        "job": {
            "namespace": os.environ.get("OPENLINEAGE_NAMESPACE") or "understudy",
            "name": name,
            "facets": {"jobType": batch},
        },
        "inputs": [],
        "outputs": [],
    }


def _input(spec: ReleaseSpec, base: Path) -> dict[str, Any]:
    read = {name: column.type for name, column in spec.columns.items() if _is_read(column)}
    unit = spec.privacy.unit.entity
    fields = [{"name": name, "type": type_} for name, type_ in {**read, **({unit: "entity"} if unit else {})}.items()]
    facets = {
        "schema": _facet("SchemaDatasetFacet", "1-2-0", fields=fields),
        "version": _facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=spec.source.snapshot),
    }
    return _named(dataset_of(spec.source.address, base)) | {"facets": facets}


def _output(spec: ReleaseSpec, base: Path, manifest: Manifest | None = None) -> dict[str, Any]:
    """As declared, or as it was published."""
    expected = [name for name, column in spec.columns.items() if not _is_dropped(column)]
    names = list(manifest.columns) if manifest is not None else expected
    types = {name: column.type for name, column in spec.columns.items()}
    source, unit = dataset_of(spec.source.address, base), spec.privacy.unit.entity
    lineage = {
        name: {"inputFields": [_from(source, origin, _SYNTHESIS) for origin in _origins(name, spec)]} for name in names
    }
    whole = {"dataset": [_from(source, unit, _BOUND)]} if unit else {}
    facets = {
        "schema": _facet(
            "SchemaDatasetFacet", "1-2-0", fields=[{"name": name, "type": types.get(name, "unknown")} for name in names]
        ),
        "columnLineage": _facet("ColumnLineageDatasetFacet", "1-2-0", fields=lineage, **whole),
    }
    return _named(dataset_of(spec.publish.address, base)) | {"facets": facets}


def _origins(name: str, spec: ReleaseSpec, seen: frozenset[str] = frozenset()) -> list[str]:
    """The columns of the private table that a published one was made from; a made identifier has none."""
    column = spec.columns.get(name)
    if name in seen or column is None or isinstance(column, IdentifierColumn):
        return []
    if isinstance(column, DerivedColumn):
        parts: tuple[str, ...] = column.expression.names
    elif isinstance(column, LookupColumn):
        parts = (column.from_,)
    else:
        return [name]
    return list(dict.fromkeys(origin for part in parts for origin in _origins(part, spec, seen | {name})))


def _is_read(column: Any) -> bool:
    return not isinstance(column, IdentifierColumn | DerivedColumn | LookupColumn)


def _is_dropped(column: Any) -> bool:
    return isinstance(column, IdentifierColumn) and column.action == "drop"


def _named(dataset: Dataset) -> dict[str, Any]:
    return {"namespace": dataset.namespace, "name": dataset.name}


def _from(source: Dataset, field: str, how: dict[str, Any]) -> dict[str, Any]:
    return {**_named(source), "field": field, "transformations": [how]}


def _guarantee(manifest: Manifest, sha256: str) -> dict[str, Any]:
    promised = manifest.guarantee
    return {
        "_producer": _producer(),
        "_schemaURL": "urn:understudy:openlineage:GuaranteeDatasetFacet:1",
        "epsilon": promised.epsilon,
        "delta": promised.delta,
        "relation": str(promised.relation.value),
        "unit": promised.unit,
        "accountant": promised.accountant,
        "sentence": promised.sentence,
        "method": manifest.method,
        "releaseId": manifest.release_id,
        "snapshot": manifest.snapshot,
        "manifestSha256": sha256,
    }


def _facet(name: str, number: str, **fields: Any) -> dict[str, Any]:
    return {"_producer": _producer(), "_schemaURL": f"{_SPEC}/facets/{number}/{name}.json#/$defs/{name}", **fields}


def _producer() -> str:
    return f"urn:understudy:{version('understudy')}"
