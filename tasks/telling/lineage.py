"""Lineage of a release: OpenLineage events to whoever asked for them, and Prefect's asset with the guarantee.

Telling must never fail a release, least of all one that was paid for: what cannot be told is a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from prefect.assets import Asset, AssetProperties, add_asset_metadata, materialize
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from understudy.pipelines.publishing.lineage.datasets import dataset_of
from understudy.pipelines.publishing.lineage.events import complete_event, fail_event, start_event
from understudy.pipelines.publishing.lineage.sending import destination, send
from understudy.pipelines.publishing.targets.base import Published
from understudy.pipelines.spec.model import ReleaseSpec


def tell_start(spec: ReleaseSpec, base: Path) -> None:
    _tell(lambda: start_event(spec, base, _run_id()))


def tell_published(published: Published, spec: ReleaseSpec, base: Path) -> Published:
    _tell(lambda: complete_event(spec, base, _run_id(), published.manifest, published.manifest_sha256))
    try:
        _show_asset(published, spec, base)
    except Exception as error:
        _warn(f"the asset of {spec.name} was not told ({type(error).__name__})")
    return published


def tell_failed(name: str, run_id: str, kind: str) -> None:
    """From a hook, where no release is left to fail."""
    _tell(lambda: fail_event(name, run_id, kind))


def _tell(event: Callable[[], dict[str, Any]]) -> None:
    if destination() is None:
        return
    try:
        problem = send(event())
    except Exception as error:
        problem = type(error).__name__
    if problem is not None:
        _warn(f"a lineage event was not delivered ({problem}); the release goes on")


def _show_asset(published: Published, spec: ReleaseSpec, base: Path) -> None:
    """The published table as an asset made from the private one; metadata are of the manifest."""
    manifest = published.manifest
    source, target = (dataset_of(address, base).asset_key for address in (spec.source.address, spec.publish.address))
    properties = AssetProperties(name=spec.name, description=manifest.guarantee.sentence)
    facts = {
        "release_id": manifest.release_id,
        "snapshot": manifest.snapshot,
        "epsilon": manifest.guarantee.epsilon,
        "delta": manifest.guarantee.delta,
        "relation": str(manifest.guarantee.relation.value),
        "unit": manifest.guarantee.unit,
        "rows": manifest.rows,
        "method": manifest.method,
        "manifest_sha256": published.manifest_sha256,
    }
    asset = Asset(key=target, properties=properties)

    @materialize(asset, by="understudy", asset_deps=[source], name="asset", persist_result=False, cache_policy=NO_CACHE)
    def tell_asset() -> None:
        add_asset_metadata(asset, facts)

    tell_asset()


def _run_id() -> str:
    return str(flow_run.id or uuid4())


def _warn(text: str) -> None:
    try:
        get_run_logger().warning(text)
    except MissingContextError:
        logging.getLogger("understudy").warning(text)
