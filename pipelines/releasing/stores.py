"""Where an installation keeps its measurements, as UNDERSTUDY_STORE says: `ledger`, an object store, or a directory."""

from __future__ import annotations

from pathlib import Path

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.postgres_shelf import PostgresShelf
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.releasing.object_shelf import ObjectShelf
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.sources.files.object_paths import OBJECT_STORES
from understudy.pipelines.spec.address import Address


def store_of(workspace: Workspace) -> MeasurementStore:
    """The directory `measurements` of the home, unless another place is named."""
    place = workspace.store
    if not place or Path(place).is_absolute():
        return MeasurementStore(workspace.measurements)
    if place == "ledger":
        return MeasurementStore(PostgresShelf(workspace.ledger_url))
    if Address.of(place).scheme in OBJECT_STORES:
        return MeasurementStore(ObjectShelf(place))
    raise SpecError(
        "UNDERSTUDY_STORE is neither `ledger`, nor an object store, nor an absolute path.",
        "Set it to ledger (with a PostgreSQL ledger), s3://bucket/path or /a/directory, or leave it out.",
    )
